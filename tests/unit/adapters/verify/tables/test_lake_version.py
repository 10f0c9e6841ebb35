"""When the version of a lake's table is taken, and as of which turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import repeat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adapters.lake.table_name import TableName
from adapters.lakehouse.digests import digests
from adapters.lakehouse.tables.spark_tables import PinnedTable
from adapters.verify.partitions import partition_of
from adapters.verify.tables.lake_version import ExtraKeys, FindKeys, HeldVersion, Shape, SortRows
from engine.errors import SinkRefused, SourceError
from engine.verify.comparison import COPIED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME, SHAPE = TableName("", "orders"), Shape(("id", "note"), ("id",))
ROWS = pa.table({"id": [1, 2, 3], "note": ["a", None, "c"]})


@dataclass
class Lagging:
    """A sink whose turns are merged and noted one after the other, each time that it is asked."""

    merged_upto: int = 0
    noted: int = 0
    asked: list[str] = field(default_factory=list)

    def merged(self, turn: int) -> bool:
        self.merged_upto += 1
        return self.merged_upto > turn

    @property
    def touched(self) -> Any:
        self.noted += 1
        return SimpleNamespace(newest=self.noted)


@dataclass
class Tables:
    sink: Lagging
    turn: int | None
    key: str = "id"
    pinned_at: int = 0

    def pinned(self, _name: TableName) -> PinnedTable:
        self.pinned_at = self.sink.merged_upto
        frame: Any = SimpleNamespace(columns=["ID", "note"])
        return PinnedTable(self.turn, frame, self.key)


def held(tables: Tables, shape: Shape | None = SHAPE, *, stale: bool = False) -> HeldVersion:
    sink: Any = tables.sink
    reads: Any = tables
    return HeldVersion(sink, (reads, NAME, shape), lambda: stale, lambda _keys: None)


def at_once(pause_s: float) -> Iterator[None]:
    assert pause_s
    return repeat(None)


@pytest.mark.parametrize(("turn", "as_of"), [(None, 4), (2, 4), (4, 4), (7, 7)])
def test_a_version_is_taken_once_the_turn_is_merged_and_is_as_of_its_own(turn: int | None, as_of: int):
    sink = Lagging()
    tables = Tables(sink, turn)

    assert held(tables).ready(4, at_once) == as_of
    assert tables.pinned_at == 5
    assert sink.noted == as_of


def test_nothing_is_compared_with_a_table_that_was_emptied():
    assert held(Tables(Lagging(), 4), stale=True).ready(4, at_once) is None


def test_a_comparison_that_was_given_up_waits_no_longer():
    def given_up(_pause_s: float) -> Iterator[None]:
        yield
        raise SourceError("the comparison was given up")

    with pytest.raises(SourceError, match="given up"):
        held(Tables(Lagging(), 4)).ready(4, given_up)


def test_the_key_of_rows_that_nobody_has_read_is_the_table_s():
    assert held(Tables(Lagging(), 4), None).ready(4, at_once) == 4
    with pytest.raises(SinkRefused, match="key"):
        held(Tables(Lagging(), 4, "other"), None).ready(4, at_once)


def test_tasks_sort_rows_by_the_digests_of_their_keys(tmp_path: Path):
    task = SortRows(SHAPE, f"{tmp_path}/rows", 2)
    paths = [path for batch in task(iter(ROWS.to_batches())) for path in batch.column("path").to_pylist()]
    again = [path for batch in task(iter(())) for path in batch.column("path").to_pylist()]
    rows = pa.concat_tables([partition_of(paths, number, COPIED) for number in (0, 1)])

    columns = [column.combine_chunks() for column in ROWS.columns]
    expected = zip(digests(columns[:1]).to_pylist(), digests(columns).to_pylist(), strict=True)
    found = zip(rows.column("key").to_pylist(), rows.column("row").to_pylist(), strict=True)
    assert dict(found) == dict(expected)
    assert not set(again) & set(paths)


def test_tasks_find_the_keys_of_digests():
    wanted_keys = digests([pa.array([3, 9])])
    (batch,) = FindKeys(SHAPE, wanted_keys)(iter(ROWS.to_batches()))
    keys = ExtraKeys(
        pa.Table.from_batches([batch]).select(["c0"]).rename_columns(["id"]), {wanted_keys[0].as_py(): 0}
    )

    assert batch.to_pylist() == [{"digest": wanted_keys[0].as_py(), "c0": 3}]
    assert keys.shown(wanted_keys[0].as_py()) == ("3",)
    assert keys.of(wanted_keys.to_pylist()).to_pylist() == [{"id": 3}]
