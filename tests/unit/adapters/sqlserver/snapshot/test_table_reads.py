"""How rows that are read become events, for a sink and for a table that somebody else keeps."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from adapters.sqlserver.events.codecs import Codecs
from adapters.sqlserver.server.position import ZERO, LogPosition
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.snapshot.eligibility import ReadTable
from adapters.sqlserver.snapshot.keyset import Keyset
from adapters.sqlserver.snapshot.table_reads import TableReads
from engine.events.settings import ColumnMask
from engine.model import CollectionId, Target
from tests.unit.adapters.sqlserver.changed import PLAIN

ID, SECRET, SUM = (
    Column("id", 1, "int", nullable=False),
    Column("secret", 2, "nvarchar", 9),
    Column("sum", 3, "int", computed=True),
)
GONE = Column("gone", 4, "int")
MASKED = replace(PLAIN, masks=(ColumnMask((r"dbo\.t\.secret",), length=3),))
TABLE = Table(CollectionId(("shop", "dbo", "t")), (ID, SECRET, SUM, GONE), ("id",))
READ = ReadTable(TABLE, Keyset((ID,)), Keyset((ID,)), missing=(GONE,))


def table_reads() -> TableReads:
    databases: Any = SimpleNamespace(position=lambda _name: LogPosition(ZERO))
    tables: Any = SimpleNamespace(readings=lambda targets: dict.fromkeys(targets, READ))
    clock: Any = SimpleNamespace(now_ms=7)
    initial: Any = None
    return TableReads(MASKED, databases, Codecs(MASKED), tables, initial, clock)


def named(fields: Any) -> list[str]:
    return [field.name for field in fields]


def test_rows_for_a_table_of_others_have_no_masked_columns():
    target = Target(TABLE.id)
    for_sink = table_reads().events(target, READ, ())
    for_others = table_reads().events(replace(target, against="there"), READ, ())

    assert named(for_sink.codec.fields) == ["id", "secret", "sum", "gone"]
    assert named(for_others.codec.fields) == ["id", "sum", "gone"]


def test_rows_from_a_table_of_others_have_no_masked_columns_and_null_where_events_have_it():
    reads = table_reads().elsewhere(TABLE.id)

    assert named(reads.compared.events.codec.fields) == ["id", "sum", "gone"]
    assert set(reads.lost) == {"sum", "gone"}
    assert set(reads.compared.keys) == {"id"}
