"""The durable schema history: the shapes that captured tables have had, in Debezium's own records.

Each record is a JSON object that says from which commit LSN on a table has which columns; a restart reads
them up to its position. The records are those that Debezium's connector writes and reads, so that either goes
on where the other has stopped. Where they are kept (a file here, a topic in `history_topic`) is a `Store`.
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
from engine.config.sources import HistoryKind
from engine.errors import SourceError, StateError
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from adapters.sqlserver.server.position import Place
    from engine.config.sources import HistorySettings

_MAX = frozenset((2**31 - 1, 2**30 - 1))
_QUOTED_NAME = re.compile(r'"(?P<name>(?:[^"]|"")*)"')
_LENGTHS = frozenset(("char", "varchar", "nchar", "nvarchar", "binary", "varbinary"))


class Store(Protocol):
    """Where records are kept, in the order in which they came."""

    def append(self, records: Iterable[bytes]) -> None:
        """Add JSON texts, durably. Raises SourceError."""

    def read(self) -> Iterator[bytes]:
        """All of them. Raises SourceError."""

    def close(self) -> None:
        """Give up what is held."""


@dataclass(frozen=True, slots=True)
class History:
    """The shapes of tables over time; `server` is the topic prefix, by which its records are told apart."""

    store: Store
    server: str

    def recover(self, places: Mapping[str, Place]) -> dict[CollectionId, Table]:
        """The tables as they were at a place, by database; those of other databases are left out.

        Raises SourceError where the store fails, StateError for what is no record.
        """
        tables: dict[CollectionId, Table] = {}
        for raw in self.store.read():
            record = _loaded(raw)
            database = record.get("source", {}).get("database", "")
            if record.get("source", {}).get("server") != self.server or database not in places:
                continue
            if (record.get("position", {}).get("commit_lsn") or ZERO) <= places[database].commit:
                for change in record.get("tableChanges", ()):
                    _apply(change, tables)
        return tables

    def record(self, changes: Iterable[SchemaChange]) -> None:
        """Keep what has become of tables, before anyone is told. Raises SourceError."""
        self.store.append([history_record(change, self.server) for change in changes])

    def close(self) -> None:
        """Give up what is held."""
        self.store.close()


def history(settings: HistorySettings, server: str) -> History | None:
    """The history that the settings name; None where none is kept."""
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
    """One record a line, as Debezium's FileSchemaHistory has them."""

    path: Path

    def append(self, records: Iterable[bytes]) -> None:
        """Add lines and force them to disk; the file and its folder are made where they are missing."""
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
        """The lines; none where there is no file. A last line that was not finished is none either."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failed("read", error) from error
        yield from (line for line in lines[:-1] if line.strip())

    def close(self) -> None:
        """Nothing is held."""

    def _failed(self, what: str, error: OSError) -> SourceError:
        return SourceError(
            f"the schema history can't be {what}: {error.strerror}",
            place=str(self.path),
            hint="see schema.history.internal.file.filename",
        )


def _finished(file: BinaryIO) -> int:
    """Where the last whole line ends: what a crash has cut is no record."""
    file.seek(0)
    return file.read().rfind(b"\n") + 1


def history_record(change: SchemaChange, server: str) -> bytes:
    """A change as Debezium's JSON."""
    table, place = change.table, change.place
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
        "columns": [_column_members(one, place) for place, one in enumerate(table.columns, 1)],
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
    tables[collection] = _table(collection, change["table"])


def _named(text: str) -> CollectionId:
    return CollectionId(tuple(one["name"].replace('""', '"') for one in _QUOTED_NAME.finditer(text)))


def _table(collection: CollectionId, members: Mapping[str, Any]) -> Table:
    columns = tuple(map(_column, members["columns"]))
    return Table(collection, columns, tuple(members.get("primaryKeyColumnNames") or ()))


def _column(members: Mapping[str, Any]) -> Column:
    """The column; what the record does not tell (its collation) is left empty."""
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
