"""The durable schema history: the shapes that captured tables have had, as Debezium's own records.

Each record is a JSON object with a table's columns and the commit LSN from which they apply. A restart reads
the records up to its position. Debezium's connector writes and reads the same records, so either can continue
where the other stopped. A `Store` keeps them: a file here, or a topic in `history_topic`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import orjson

from adapters.sqlserver.events.schema_changes import ChangeType, SchemaChange, column_members, quoted_name
from adapters.sqlserver.server.position import ZERO
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.settings import HistoryKind
from engine.errors import SourceError, StateError
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from adapters.sqlserver.server.position import LogPosition
    from adapters.sqlserver.settings import HistorySettings

_MAX = frozenset((2**31 - 1, 2**30 - 1))
_QUOTED_NAME = re.compile(r'"(?P<name>(?:[^"]|"")*)"')
_LENGTHS = frozenset(("char", "varchar", "nchar", "nvarchar", "binary", "varbinary"))


class Store(Protocol):
    """Keeps records in the order in which they were appended."""

    def append(self, records: Iterable[bytes]) -> None:
        """Add JSON texts, durably. Raises SourceError."""

    def read(self) -> Iterator[bytes]:
        """All records. Raises SourceError."""

    def close(self) -> None:
        """Release resources."""


@dataclass(frozen=True, slots=True)
class History:
    """The shapes of tables over time. `server` is the topic prefix, which marks this server's records."""

    store: Store
    server: str

    def recover(self, positions: Mapping[str, LogPosition]) -> dict[CollectionId, Table]:
        """The tables as they were at each database's position. Other databases are left out.

        Raises SourceError where the store fails, StateError for an invalid record.
        """
        tables: dict[CollectionId, Table] = {}
        for raw in self.store.read():
            record = _loaded(raw)
            database = record.get("source", {}).get("database", "")
            if record.get("source", {}).get("server") != self.server or database not in positions:
                continue
            if (record.get("position", {}).get("commit_lsn") or ZERO) <= positions[database].commit:
                for change in record.get("tableChanges", ()):
                    _apply(change, tables)
        return tables

    def record(self, changes: Iterable[SchemaChange]) -> None:
        """Record changes of tables, before their events are emitted. Raises SourceError."""
        self.store.append([history_record(change, self.server) for change in changes])

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def history(settings: HistorySettings, server: str) -> History | None:
    """The schema history of the settings; None if they have none."""
    match settings.kind:
        case HistoryKind.FILE:
            return History(FileStore(Path(settings.file)), server)
        case HistoryKind.KAFKA:
            from adapters.kafka.history_topic import TopicStore  # noqa: PLC0415  needs Kafka's client

            return History(TopicStore(settings), server)
        case HistoryKind.NONE:
            return None


@dataclass(frozen=True, slots=True)
class FileStore:
    """A file with one record per line, as Debezium's FileSchemaHistory writes it."""

    path: Path

    def append(self, records: Iterable[bytes]) -> None:
        """Add lines and force them to disk. The file and its folder are created if missing."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as file:
                file.truncate(_finished(file))
                file.writelines(record + b"\n" for record in records)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._failed("written", error) from error

    def read(self) -> Iterator[bytes]:
        """The lines; none without a file. An unfinished last line is skipped."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failed("read", error) from error
        yield from (line for line in lines[:-1] if line.strip())

    def close(self) -> None:
        """Do nothing: the file is closed after each use."""

    def _failed(self, what: str, error: OSError) -> SourceError:
        return SourceError(
            f"the schema history can't be {what}: {error.strerror}",
            where=str(self.path),
            hint="see schema.history.internal.file.filename",
        )


def _finished(file: BinaryIO) -> int:
    """The offset after the last complete line. A crash may have cut the line behind it."""
    file.seek(0)
    return file.read().rfind(b"\n") + 1


def history_record(change: SchemaChange, server: str) -> bytes:
    """A schema change as Debezium's JSON."""
    table, place = change.table, change.position
    position: dict[str, Any] = {"commit_lsn": change.commit}
    if place.snapshot == "false":
        position |= {"change_lsn": place.change, "event_serial_no": place.serial or 0}
    else:
        position |= {"snapshot": True, "snapshot_completed": False}
    return orjson.dumps(
        {
            "source": {"server": server, "database": table.id.parts[0]},
            "position": position,
            "ts_ms": change.now_ms,
            "databaseName": table.id.parts[0],
            "schemaName": table.id.parts[1],
            "tableChanges": [
                {
                    "type": change.type,
                    "id": quoted_name(table.id),
                    "table": _table_members(table),
                    "comment": None,
                }
            ],
        }
    )


def _table_members(table: Table) -> dict[str, Any]:
    return {
        "defaultCharsetName": None,
        "primaryKeyColumnNames": list(table.key),
        "columns": [_column_members(column, number) for number, column in enumerate(table.columns, 1)],
        "attributes": [],
    }


def _column_members(column: Column, place: int) -> dict[str, Any]:
    members = column_members(column, place)
    del members["nativeType"]
    if members["scale"] is None:
        del members["scale"]
    members |= {"comment": None, "hasDefaultValue": column.default is not None}
    if column.default is not None:
        members["defaultValueExpression"] = column.default
    return {**members, "enumValues": []}


def _loaded(raw: bytes) -> dict[str, Any]:
    try:
        record = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise StateError("a record of the schema history is no JSON", hint="it may have been cut") from error
    if not isinstance(record, dict):
        raise StateError("a record of the schema history is no JSON object")
    return record


def _apply(change: Mapping[str, Any], tables: dict[CollectionId, Table]) -> None:
    collection = _named(str(change["id"]))
    if change["type"] == ChangeType.DROP:
        tables.pop(collection, None)
        return
    if change.get("previousId"):
        tables.pop(_named(str(change["previousId"])), None)
    tables[collection] = table_of(collection, change["table"])


def _named(text: str) -> CollectionId:
    return CollectionId(tuple(match["name"].replace('""', '"') for match in _QUOTED_NAME.finditer(text)))


def table_of(collection: CollectionId, members: Mapping[str, Any]) -> Table:
    """The table that a record's `table` describes."""
    columns = tuple(map(_column, members["columns"]))
    return Table(collection, columns, tuple(members.get("primaryKeyColumnNames") or ()))


def _column(members: Mapping[str, Any]) -> Column:
    """The column. What the record does not hold (its collation) is left empty."""
    name = str(members["typeName"])
    kind = name.removesuffix(" identity").removesuffix("()").strip()
    length, scale = int(members.get("length") or 0), int(members.get("scale") or 0)
    exact = kind in {"decimal", "numeric"}
    return Column(
        str(members["name"]),
        int(members["position"]),
        kind,
        (-1 if length in _MAX else length) if kind in _LENGTHS else 0,
        length if exact else 0,
        scale if exact or kind in {"time", "datetime2", "datetimeoffset"} else 0,
        nullable=bool(members.get("optional", True)),
        identity=name.endswith(" identity"),
        computed=bool(members.get("generated", False)),
        default=members.get("defaultValueExpression"),
    )
