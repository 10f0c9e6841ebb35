"""Reading a target's table page by page, from a server that has its rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from adapters.sqlserver.events.codec import codec_for
from adapters.sqlserver.foreign import rows as foreign_rows
from adapters.sqlserver.foreign.questions import DescribedTable, ForeignQuestions, PageRows, _page_rows
from adapters.sqlserver.foreign.rows import ForeignRows
from adapters.sqlserver.foreign.statements import ForeignRead
from adapters.sqlserver.server.rows import row_shape
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.server.table_probes import TableSize
from adapters.sqlserver.snapshot.table_reads import RowReads
from adapters.verify.tables.row_reads import ComparedEvents
from engine.errors import ConfigError, InvariantError, SourceError, TidemarkError
from engine.events.values.row_form import RowMode
from engine.model import CollectionId, Key
from engine.staging.reads import ReadEvents
from engine.verify.compared_digests import key_digests
from engine.verify.settled import HeldPlace, HeldRows
from tests.unit.adapters.sqlserver.changed import PLAIN

THERE = CollectionId(("dwh", "copy", "t"))
ID, V = Column("id", 1, "int", nullable=False), Column("v", 2, "nvarchar", 20)
SUM = Column("sum", 3, "int", computed=True)
SOURCE = Table(CollectionId(("shop", "dbo", "t")), (ID, V, SUM), ("id",))
Row = tuple[str, int, int, str]


def row(key: int, text: str = "a", *, faithful: int = 1, named: int = 1) -> Row:
    return f"f\x1f{key if named else ''}\x1f{text}\x1f", faithful, named, str(key)


class Target(ForeignQuestions):
    """A server with one table. `asked` has what it was asked for."""

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        names: Sequence[str] = ("id", "v"),
        key: bool = True,
        snapshots: bool = True,
    ) -> None:
        self.rows, self.asked, self._snapshots = list(rows), list[object](), snapshots
        columns = [column for column in (ID, V) if column.name in names]
        self.table: Table | None = Table(THERE, tuple(columns), ("id",) if key else ())
        self.catalog: Any = SimpleNamespace(allows_snapshots=lambda: snapshots)
        self.probes: Any = SimpleNamespace(size=lambda _read: TableSize(len(rows), 100 * len(rows)))

    def limit_lock_waits(self, timeout_ms: int) -> None:
        assert timeout_ms > 0

    def described(self, name: CollectionId) -> DescribedTable | None:
        return DescribedTable(self.table, 7) if self.table and name == self.table.id else None

    def has_marker(self, table: CollectionId, row_id: str) -> bool:
        self.asked.append((table, row_id))
        return True

    def take_snapshot(self, foreign: ForeignRead) -> None:
        self.asked.append(foreign.read.object_id)

    def page(
        self, foreign: ForeignRead, after: Key | None, page_rows: int, fetched: int
    ) -> Generator[PageRows]:
        least = int(after[0] or "") if after else -(10**9)
        keyed = bool(foreign.read.keyset.columns)
        found = [row for row in self.rows if int(row[3]) > least]
        found = found[:page_rows] if keyed else [row[:3] for row in found]  # type: ignore[misc]  # no key to show
        self.asked.append((after, len(found)))
        for at in range(0, len(found), fetched):
            yield _page_rows(foreign, found[at : at + fetched])

    def close(self) -> None:
        self.asked.append("closed")


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of four rows, of which three are fetched at once."""
    monkeypatch.setattr(foreign_rows, "_PAGE_BYTES", 450)
    monkeypatch.setattr(foreign_rows, "_FETCHED_BYTES", 300)


def reads() -> RowReads:
    events = ReadEvents(codec_for(SOURCE, PLAIN), row_shape(SOURCE), "{}", 0, compared=True)
    return RowReads(SOURCE, frozenset({"sum"}), ComparedEvents(events, RowMode.ESCAPED))


def foreign(
    target: Target | Callable[[], ForeignQuestions], markers: CollectionId | None = None
) -> ForeignRows:
    connect = target if not isinstance(target, Target) else lambda: target
    return ForeignRows(connect, THERE, reads(), markers)


def all_of(found: Sequence[HeldRows], column: str) -> list[Any]:
    return [value for some in found for value in getattr(some, column).to_pylist()]


def digest(key: object) -> bytes:
    found: bytes = key_digests(pa.array([f'{{"id":{key}}}'], pa.large_string()))[0].as_py()
    return found


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("keyed", [True, False])
def test_each_row_is_read_once(count: int, *, keyed: bool):
    target = Target([row(key) for key in range(count)], key=keyed)
    table = foreign(target)
    size = table.begin()

    found = list(table.rows())

    assert size == 100 * count
    assert all_of(found, "keys") == [digest(key) for key in range(count)]
    assert len(set(all_of(found, "rows"))) == count
    assert all_of(found, "places") == [key // 4 if keyed else 0 for key in range(count)]
    assert max((len(some.keys) for some in found), default=0) <= 3


def test_a_row_that_has_lost_something_is_told():
    table = foreign(Target([row(1), row(2, faithful=0)]))
    table.begin()

    assert all_of(list(table.rows()), "faithful") == [True, False]


def test_keys_are_found_again_by_the_page_alone_and_rows_that_have_gone_are_left_out():
    target = Target([row(key) for key in range(20)])
    table = foreign(target)
    table.begin()
    held = list(table.rows())
    places = dict(zip(all_of(held, "keys"), all_of(held, "places"), strict=True))
    target.rows = [some for some in target.rows if some[3] != "9"]
    target.asked.clear()

    wanted = [HeldPlace(places[digest(key)], digest(key)) for key in (18, 9, 17)]

    assert table.keys(wanted) == ('{"id":18}', '{"id":17}')
    assert target.asked == [(("15",), 4), (("7",), 4)]


@pytest.mark.parametrize(("keyed", "shown"), [(True, '{"id":"5000000000"}'), (False, '{"row":"')])
def test_a_key_that_the_source_can_not_have_is_no_other_row_s(shown: str, *, keyed: bool):
    table = foreign(Target([row(0), row(5_000_000_000, faithful=0, named=0)], key=keyed))
    table.begin()
    held = list(table.rows())
    keys = all_of(held, "keys")

    assert keys[0] == digest(0) != keys[1]
    (found,) = table.keys([HeldPlace(0, keys[1])])
    assert found.startswith(shown)


@pytest.mark.parametrize("snapshots", [True, False])
def test_a_scan_is_a_snapshot_where_the_database_allows_it(*, snapshots: bool):
    target = Target([], snapshots=snapshots)
    foreign(target).begin()

    assert target.asked == [7] * snapshots


def test_markers_are_asked_for_and_need_snapshots():
    markers = CollectionId(("dwh", "copy", "markers"))
    target = Target([], snapshots=False)
    table = foreign(target, markers)

    assert table.has("x")
    assert target.asked == [(markers, "x")]
    with pytest.raises(SourceError, match="only if its database allows snapshot isolation"):
        table.begin()
    with pytest.raises(InvariantError):
        foreign(target).has("x")


def test_a_table_that_can_not_be_compared_is_refused():
    target = Target([], names=("id",))
    with pytest.raises(SourceError, match="lacks the columns v"):
        foreign(target).begin()
    target.table = None
    with pytest.raises(SourceError, match="has no such table"):
        foreign(target).begin()


def test_a_login_that_never_worked_does_not_stop_the_job():
    def refused() -> ForeignQuestions:
        raise ConfigError("login failed", hint="check it")

    with pytest.raises(TidemarkError) as caught:
        foreign(refused).begin()

    assert type(caught.value) is SourceError
    assert caught.value.hint == "check it"


def test_a_comparison_that_is_given_up_reads_no_further_and_closes_its_connection():
    target = Target([row(key) for key in range(8)])
    table = foreign(target)
    table.begin()
    rows = table.rows()
    next(rows)
    table.cancel()

    with pytest.raises(SourceError, match="given up"):
        next(rows)
    table.close()
    assert target.asked[-1] == "closed"
