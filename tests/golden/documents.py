"""The examples of the reference documents as cases: change rows in, the events that the documents show out.

A folder has `case.json` (tables, change rows or rows read, schema changes, settings other than the standard),
`events.jsonl` (what the document shows of them, with the corrections that `notes.txt` lists). No server is
needed: rows are put together as texts, as the server would.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adapters.sqlserver.events.codec import codec_for
from adapters.sqlserver.events.decode import Rules, Watch, decode
from adapters.sqlserver.events.schema_changes import ChangeType, SchemaChange, schema_changes
from adapters.sqlserver.events.source_block import ReadPosition, read_source
from adapters.sqlserver.log.changes import RAW
from adapters.sqlserver.log.entries import instance_of
from adapters.sqlserver.server.rows import row_shape
from adapters.sqlserver.server.table import Column, Table
from engine.events.batch import EVENTS
from engine.events.settings import EventSettings
from engine.events.values.row_form import SEPARATOR, RowMode
from engine.model import CollectionId
from engine.staging.reads import ReadEvents
from tests.golden.event import Event, recorded_events

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CASES = Path(__file__).parent / "sqlserver"


@dataclass(frozen=True, slots=True)
class Example:
    """One case: its tables, what is told to happen to them, the settings, and the events to be shown."""

    name: str
    tables: tuple[Table, ...]
    told: Mapping[str, Any]
    settings: EventSettings
    expected: tuple[Event, ...]

    def emitted(self) -> list[Event]:
        """What we make of it, less what the document does not show."""
        found = [
            _event(row)
            for batch in (*self._schema_changes(), *self._streamed(), *self._reads())
            for row in batch.to_pylist()
        ]
        numbers = self.told.get("shown", range(len(found)))
        return [found[number] for number in numbers]

    def _schema_changes(self) -> Iterator[pa.RecordBatch]:
        for changed in self.told.get("schema_changes", ()):
            place = ReadPosition(changed["ts_ms"], changed["commit"], snapshot=changed["snapshot"])
            change = SchemaChange(
                ChangeType(changed["type"]), self.tables[changed["table"]], place, changed["now_ms"]
            )
            yield schema_changes([change], self.settings)

    def _streamed(self) -> Iterator[pa.RecordBatch]:
        instances = {
            at: instance_of(table, codec_for(table, self.settings), RowMode.FAST)
            for at, table in enumerate(self.tables)
        }
        for part in self.told.get("parts", ()):
            names = ("change", "operation", "committed")
            rows = [
                [
                    row["instance"],
                    row["commit"],
                    0,
                    *(row[name] for name in names),
                    _text(self.tables[row["instance"]], row["values"]),
                ]
                for row in part["rows"]
            ]
            columns = [
                pa.array(list(values), field.type)
                for values, field in zip(zip(*rows, strict=True), RAW, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=RAW)
            yield decode([batch], Rules(self.settings, instances), Watch(), part["now_ms"]).events

    def _reads(self) -> Iterator[pa.RecordBatch]:
        for described in self.told.get("reads", ()):
            table = self.tables[described["table"]]
            source = read_source(self.settings, table.id, ReadPosition(described["ts_ms"]))
            reads = ReadEvents(codec_for(table, self.settings), row_shape(table), source, described["now_ms"])
            staged = reads.staged(pa.array([_text(table, described["values"])]), RowMode.FAST)
            before, after = reads.affixes.before, reads.affixes.after
            field = EVENTS.field("value")
            values = [f"{before}{value}{after}" for value in staged["value"].to_pylist()]
            yield staged.select(EVENTS.names).set_column(2, field, pa.array(values, field.type))


def examples() -> list[Example]:
    """All cases, by name."""
    return [_example(folder) for folder in sorted(CASES.iterdir()) if folder.is_dir()]


def _example(folder: Path) -> Example:
    told = json.loads((folder / "case.json").read_text("utf-8"))
    settings = replace(EventSettings("server1", "testDB"), **told["settings"])
    return Example(
        folder.name,
        tuple(map(_table, told["tables"])),
        told,
        settings,
        recorded_events(folder / "events.jsonl"),
    )


def _table(told: Mapping[str, Any]) -> Table:
    columns = [Column(position=place, **column) for place, column in enumerate(told["columns"], 1)]
    return Table(CollectionId(tuple(told["name"])), tuple(columns), tuple(told["primary_key"]))


def _text(table: Table, values: Sequence[str | None]) -> str:
    flags = "".join("t" if values[at] is None else "f" for at in row_shape(table).flagged)
    return flags + "".join(SEPARATOR + (value or "") for value in values)


def _event(emitted: Mapping[str, Any]) -> Event:
    key, value = (None if emitted[name] is None else json.loads(emitted[name]) for name in ("key", "value"))
    return Event(emitted["topic"], key, value)


def elided(expected: Event, actual: Event) -> Event:
    """The event with only those members of its source block that the document shows of it."""
    wanted, found = expected.body, actual.body
    if not isinstance(wanted, dict) or "source" not in wanted or actual.body is not actual.value:
        return actual
    source = {name: found["source"][name] for name in wanted["source"]}
    return replace(actual, value={**found, "source": source})
