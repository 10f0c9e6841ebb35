"""Lake sinks as tests drive them: tables in memory, processes that die at any step, and what tables hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adapters.lake.table_name import TableName, TableNaming
from adapters.lakehouse.journal import Journal
from adapters.lakehouse.merger import Admission, Merger
from adapters.lakehouse.port import BASE, DELETED, KEEP, Batch, NewTable, TableDescription
from adapters.lakehouse.settings import LakeSettings
from adapters.lakehouse.sink import LakeSink
from adapters.lakehouse.tables.widening import widens_simply
from tests.turns import Turns
from tests.typed_batches import PLACEHOLDERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from adapters.lakehouse.port import LakeTables

SETTINGS = LakeSettings(warehouse="/lake", table_format="${topic}")
NAMING = TableNaming("${topic}", "tidemark.sink.lake.collection.name.format", 200)


class CrashError(BaseException):
    """The process dies here."""


@dataclass
class MemoryTable:
    id: str
    columns: dict[str, str]
    turn: int | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class MemoryTables:
    """Tables that outlive processes. A commit is one step: rows and turn together."""

    tables: dict[TableName, MemoryTable] = field(default_factory=dict)
    made: int = 0
    writes: list[tuple[str, str, int]] = field(default_factory=list)

    def look(self, name: TableName) -> TableDescription | None:
        table = self.tables.get(name)
        return None if table is None else TableDescription(table.id, table.turn, dict(table.columns))

    def create(self, name: TableName, table: NewTable) -> None:
        self.made += 1
        self.tables.setdefault(name, MemoryTable(f"id {self.made}", dict(table.columns)))

    def alter(self, name: TableName, added: Mapping[str, str], widened: Mapping[str, str]) -> None:
        assert not added.keys() & self.tables[name].columns.keys()
        self.tables[name].columns |= {**added, **widened}

    def column_type(self, kind: pa.DataType) -> str:
        names = {"int16": "smallint", "int32": "int", "int64": "bigint", "string": "string"}
        return names.get(str(kind), str(kind))

    def widens(self, old: str, new: str) -> bool:
        return widens_simply(old, new)

    def append(self, name: TableName, rows: pa.Table, turn: int) -> None:
        # As in Iceberg, nothing keeps the same rows from being appended again.
        table = self.tables[name]
        table.rows, table.turn = [*table.rows, *rows.to_pylist()], turn
        self.writes.append(("append", str(name), turn))

    def write(self, name: TableName, batch: Batch, turn: int) -> None:
        table = self.tables[name]
        # As a MERGE does: a second write of the same turn changes rows again.
        before = {} if batch.truncated else {_key(row, batch): row for row in table.rows}
        after = dict(before)
        for row in batch.rows.to_pylist():
            if row[DELETED]:
                after.pop(_key(row, batch), None)
                continue
            made = {column: row[column] for column in batch.columns.names}
            own = before.get(_key(row, batch), {})
            for number, column in enumerate(batch.kept):
                if row[KEEP.format(number)]:
                    base = tuple(row[BASE.format(n)] for n in range(len(batch.key)))
                    made[column] = (own if base[0] is None else before.get(base, {})).get(column)
            after[_key(row, batch)] = {**own, **made}
        table.rows, table.turn = list(after.values()), turn
        self.writes.append(("write", str(name), turn))

    def tend(self, name: TableName, retention_s: float) -> None:
        self.writes.append(("tend", str(name), int(retention_s)))


def _key(row: dict[str, Any], batch: Batch) -> tuple[Any, ...]:
    return tuple(row[name] for name in batch.key)


@dataclass
class Dying:
    """Passes calls of these names on, and dies before one of them or behind it, once no number is left."""

    behind: Any
    left: Iterator[int]
    names: frozenset[str] = frozenset({"look", "create", "alter", "append", "write"})

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.behind, name)
        if name not in self.names:
            return found

        def counted(*given: Any, **named: Any) -> Any:
            self._step()
            result = found(*given, **named)
            self._step()
            return result

        return counted

    def _step(self) -> None:
        if next(self.left, None) is None:
            raise CrashError


def lake(
    directory: Path, tables: LakeTables | Dying, epoch: int, settings: LakeSettings = SETTINGS
) -> LakeSink:
    """The sink of a process; its merges run when it is drained."""
    journal: Any = Journal(directory, epoch)
    made: Any = tables
    if isinstance(tables, Dying):
        journal = Dying(journal, tables.left, frozenset({"commit", "group", "note_tables", "finish"}))
    merger = Merger(journal, made, settings, NAMING, PLACEHOLDERS)
    return LakeSink(journal, merger, Admission(made, settings), NAMING)


def send(sink: LakeSink, turn: int, *batches: pa.RecordBatch) -> None:
    """A turn with a part for each batch, merged."""
    turns = Turns(sink)
    writer = turns.writer(turn)
    for number, batch in enumerate(batches):
        writer.write(number, [batch])
    turns.commit(turn)
    sink.drain()
