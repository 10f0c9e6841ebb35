"""Tables in which a key may stand twice: it equals nothing, and all of its rows are too many."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adapters.verify.partitions import write_partitions
from adapters.verify.tables.table_comparison import (
    ComparePartition,
    Ends,
    Scan,
    TableComparison,
    Work,
    held_rows,
)
from engine.verify.compared_digests import DIGEST, SEEN_ROWS
from engine.verify.comparison import COPIED
from engine.verify.copy import ComparisonRequest, Span
from engine.verify.seen_row import SeenRow

if TYPE_CHECKING:
    from pathlib import Path

    from engine.verify.copy import Findings


def digest(number: int) -> bytes:
    return number.to_bytes(16, "big")


def compared(directory: Path, held: list[tuple[int, int]], touched: dict[int, int] | None = None) -> Findings:
    """Keys 1 to 4 have been seen in turn 5, each with a row of its number; the table has `held`."""
    keys = pa.array([digest(key) for key in range(1, 5)], DIGEST)
    seen = pa.Table.from_arrays(
        [
            keys,
            keys,
            pa.array([b"%d" % n for n in range(1, 5)], pa.large_binary()),
            [5] * 4,
            [SeenRow.ROW] * 4,
        ],
        schema=SEEN_ROWS,
    )
    zeros = pa.repeat(pa.scalar(0, pa.int64()), len(held))
    rows = held_rows(
        pa.array([digest(key) for key, _row in held], DIGEST),
        pa.array([digest(row) for _key, row in held], DIGEST),
        *(zeros, zeros),
    )
    notes = COPIED.empty_table()
    for key, turn in (touched or {}).items():
        note = [[digest(key)], [None], [turn], [0], [0], [0], [False], [False]]
        notes = pa.concat_tables(
            [notes, pa.Table.from_arrays(list(map(pa.array, note)), COPIED.names).cast(COPIED)]
        )
    paths = []
    for name, table in (("seen", seen), ("held", rows), ("touched", notes)):
        paths.append(str(directory / name))
        write_partitions(paths[-1], table, 1)
    asked = ComparisonRequest(Span(1, 9), (), lambda _source: True, mends=True, known=9)
    return ComparePartition((paths[0],), (Scan(9, (paths[1],), 1),), (paths[2],), asked)(0)


def test_rows_that_share_a_key_are_too_many_and_nothing_is_sent_for_them_yet(tmp_path: Path):
    found = compared(tmp_path, [(1, 1), (2, 2), (2, 2), (3, 7), (8, 8), (8, 8)])

    assert found.equal == 1
    assert found.counts == {"missing": 1, "different": 1, "older": 0, "extra": 2}
    assert found.wrong == (b"4", b"3")
    assert {row.key for row in found.extra} == {digest(2), digest(8)}


def test_a_key_that_is_written_meanwhile_is_not_claimed_to_stand_twice(tmp_path: Path):
    found = compared(tmp_path, [(1, 1), (2, 2), (2, 2), (3, 3), (4, 4)], {2: 7})

    assert (found.equal, found.changed) == (3, 1)
    assert found.differences == 0


def test_a_table_with_each_key_once_is_compared_as_ever(tmp_path: Path):
    found = compared(tmp_path, [(1, 1), (2, 2), (3, 7), (9, 9)])

    assert (found.equal, found.counts) == (2, {"missing": 1, "different": 1, "older": 0, "extra": 1})
    assert found.wrong == (b"4", b"3")
    assert [row.key for row in found.extra] == [digest(9)]


class Held:
    """Two rows of which windows have seen none."""

    def ready(self, upto, _moments):
        return upto

    def size(self):
        return 0

    def sorted(self, into, _partitions, _while_wanted):
        zeros = pa.array([0, 0], pa.int64())
        keys = pa.array([digest(1), digest(2)], DIGEST)
        write_partitions(into, held_rows(keys, keys, zeros, zeros), 1)
        return [into]

    def keys(self, extra):
        return {row.key: (str(int.from_bytes(row.key, "big")),) for row in extra}

    def cancel(self): ...

    def close(self): ...


class OneAfterTheOther:
    def map(self, task, items):
        return [task(item) for item in items]


@pytest.mark.parametrize(("mends", "extra"), [(True, {digest(1): ("1",), digest(2): ("2",)}), (False, {})])
def test_only_a_repair_learns_what_it_may_delete(tmp_path: Path, *, mends: bool, extra: dict[bytes, Any]):
    # A verification beside it would make it forget the rest.
    seen = tmp_path / "seen"
    with pa.OSFile(str(seen), "wb") as file, pa.ipc.new_stream(file, SEEN_ROWS) as stream:
        stream.write_table(SEEN_ROWS.empty_table())
    learnt: list[Any] = []
    ends = Ends(Held(), lambda _upto: iter(()), lambda keys, _scan: learnt.append(keys))
    asked = ComparisonRequest(Span(1, 9), (), lambda _source: True, mends=mends, known=9)

    comparison = TableComparison(Work(f"{tmp_path}/work", str(seen), 0), ends, OneAfterTheOther(), asked)
    while (found := comparison.poll()) is None:
        time.sleep(0.01)
    comparison.close()

    assert found.counts["extra"] == 2
    assert found.first["extra"]
    assert learnt == [extra]


def test_an_empty_table_lacks_every_row(tmp_path: Path):
    found = compared(tmp_path, [])

    assert (found.equal, found.counts) == (0, {"missing": 4, "different": 0, "older": 0, "extra": 0})
