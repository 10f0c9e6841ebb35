"""Reading a whole table that somebody else keeps in a SQL Server, page by page, on its stand-in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapters.sqlserver.events.codec import codec_for
from adapters.sqlserver.foreign import rows as foreign_rows
from adapters.sqlserver.foreign.questions import ForeignQuestions
from adapters.sqlserver.foreign.rows import ForeignRows
from adapters.sqlserver.server.connection import Server
from adapters.sqlserver.server.rows import row_shape
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.snapshot.table_reads import RowReads
from adapters.verify.tables.row_reads import ComparedEvents
from engine.events.settings import EventSettings
from engine.events.values.row_form import RowMode
from engine.model import CollectionId
from engine.staging.reads import ReadEvents
from engine.verify.settled import HeldPlace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.sqlserver import StandInDatabase

pytestmark = pytest.mark.integration

ROWS = 60
EVENTS = EventSettings("tm", "shop", key_schemas=False, value_schemas=False)
SOURCE = Table(
    CollectionId(("shop", "dbo", "t")),
    (
        Column("part", 1, "nvarchar", 20, nullable=False),
        Column("id", 2, "int", nullable=False),
        Column("v", 3, "varchar", 20),
    ),
    ("part", "id"),
)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_rows, "_PAGE_BYTES", 1500)
    monkeypatch.setattr(foreign_rows, "_FETCHED_BYTES", 500)


def fill(there: StandInDatabase, key: str) -> None:
    there.execute(
        f"CREATE TABLE dbo.t (id bigint NOT NULL, part nvarchar(40) NOT NULL, v nvarchar(40) NULL{key})"
    )
    values = (f"({number}, N'{'näß'[number % 3]}', N'v {number}')" for number in range(ROWS))
    there.execute(f"INSERT INTO dbo.t VALUES {', '.join(values)}")


@pytest.fixture
def table(shop: StandInDatabase) -> Iterator[ForeignRows]:
    server = Server(shop.server.reach)
    events = ReadEvents(codec_for(SOURCE, EVENTS), row_shape(SOURCE), "{}", 0, compared=True)
    reads = RowReads(SOURCE, frozenset(), ComparedEvents(events, RowMode.ESCAPED))
    made = ForeignRows(lambda: ForeignQuestions(server.opened("shop"), "shop"), SOURCE.id, reads)
    yield made
    made.close()


def all_of(table: ForeignRows) -> list[tuple[bytes, bytes, int, bool, bytes]]:
    return [
        row for held in table.rows() for row in zip(*(column.to_pylist() for column in held), strict=True)
    ]


@pytest.mark.parametrize("key", [", PRIMARY KEY (part, id)", ", UNIQUE (id, part)", ""])
def test_each_row_is_read_once_and_found_again(shop: StandInDatabase, table: ForeignRows, key: str):
    fill(shop, key)
    table.begin()

    found = all_of(table)
    keys = table.keys([HeldPlace(place, digest) for digest, _row, place, _faithful, _key in found])

    assert {*keys} == {f'{{"part":"{"näß"[number % 3]}","id":{number}}}' for number in range(ROWS)}
    assert len(found) == len({digest for digest, *_rest in found}) == ROWS
    assert all(faithful for _key, _row, _place, faithful, _sought in found)
    assert (len({place for _key, _row, place, *_rest in found}) > 3) is bool(key)


@pytest.mark.parametrize(("snapshots", "seen"), [("1", 0), ("0", 1)])
def test_a_row_that_comes_during_a_scan_is_not_in_its_snapshot(
    shop: StandInDatabase, table: ForeignRows, snapshots: str, seen: int
):
    shop.set("snapshots", snapshots)
    fill(shop, ", PRIMARY KEY (part, id)")
    table.begin()
    rows: Iterator[Any] = table.rows()
    first = next(rows)
    shop.execute("INSERT INTO dbo.t VALUES (1000, N'ß', N'late')")

    assert len(first.keys) + sum(len(held.keys) for held in rows) == ROWS + seen
