"""Decodes a recorded log as the job does: parts cut where a relation is described (again)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from adapters.postgres.events.codec import codec_for
from adapters.postgres.events.columns.builtin_types import BUILTIN
from adapters.postgres.events.decode import decode
from adapters.postgres.events.source_block import Moment
from adapters.postgres.log.pgoutput import parse_relation
from adapters.postgres.log.timeline import SpanPart, TransactionContext
from adapters.postgres.log.touched_keys import Watch
from tests.golden.event import Event
from tests.unit.golden_wal.catalogs import State, states

if TYPE_CHECKING:
    from pathlib import Path

    from adapters.postgres.events.decode import DecodedPart
    from adapters.postgres.server.table import PgType, Relation, Table
    from engine.config import Settings
    from engine.events.codec import TableCodec

NOW_MS = 1_800_000_000_000


def payloads(folder: Path) -> list[bytes]:
    """The messages of a case's wal.jsonl as CopyData payloads."""
    made = []
    for line in (folder / "wal.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        high, low = (int(part, 16) for part in entry["lsn"].split("/"))
        lsn = (high << 32 | low).to_bytes(8, "big")
        made.append(b"w" + lsn + lsn + bytes(8) + bytes.fromhex(entry["data"]))
    return made


@dataclass
class Replay:
    """The codecs as they stand, and the context after the parts decoded so far."""

    settings: Settings
    states: list[State]
    watch: Watch = field(default_factory=Watch)
    most: int = 1_000_000
    relations: dict[int, Relation] = field(default_factory=dict)
    codecs: dict[int, TableCodec] = field(default_factory=dict)
    context: TransactionContext = field(default_factory=TransactionContext)
    at: int = 0

    def run(self, messages: list[bytes]) -> Iterator[DecodedPart]:
        """Decode the messages part by part; `most` bounds the messages of a part."""
        part: list[bytes] = []
        for message in messages:
            described = message[25:26] == b"R"
            if part and (len(part) >= self.most or described):
                yield self._decode(part)
                part = []
            if described:
                self._define(parse_relation(message[25:]))
            part.append(message)
        if part:
            yield self._decode(part)

    def _define(self, relation: Relation) -> None:
        if relation.oid in self.relations and self.at + 1 < len(self.states):
            self.at += 1  # described again: its catalog has changed
        self.relations[relation.oid] = relation
        self.codecs.pop(relation.oid, None)
        if self._captured(relation):
            table, types = self._described(relation)
            self.codecs[relation.oid] = codec_for(relation, table, self.settings.events, types)

    def _captured(self, relation: Relation) -> bool:
        named = str(relation.id) == self.settings.events.signal_collection
        return named or self.settings.capture.captures(relation.namespace, relation.name)

    def _described(self, relation: Relation) -> tuple[Table | None, dict[int, PgType]]:
        names = [column.name for column in relation.columns]
        for at in range(self.at, len(self.states)):
            table = self.states[at].tables.get(str(relation.id))
            if table and names == [column.name for column in table.columns if not column.generated]:
                types = self._types(relation, table, self.states[at])
                if types is not None:
                    self.at = at
                    return table, types
        return None, {}

    def _types(self, relation: Relation, table: Table, state: State) -> dict[int, PgType] | None:
        """The recorded types under the oids that they had in the recorded log."""
        types = dict(state.types)
        for column in relation.columns:
            described = table.column(column.name)
            assert described is not None
            if column.type in BUILTIN and column.type != described.type:
                return None
            if column.type not in BUILTIN:
                kind = state.types.get(described.type)
                if kind is not None:
                    types[column.type] = replace(kind, oid=column.type)
        return types

    def _decode(self, part: list[bytes]) -> DecodedPart:
        messages = pa.array(part, pa.large_binary())
        decoded = decode(
            SpanPart(messages, self.context), self.codecs, self.settings.events, self.watch, Moment(NOW_MS)
        )
        self.context = decoded.context
        return decoded


def replay_of(case: str, settings: Settings) -> Replay:
    """A replay with the catalogs recorded for a case."""
    return Replay(settings, states(case))


def events_of(decoded: list[DecodedPart]) -> list[Event]:
    """The decoded events as the comparer reads them."""
    events = []
    for part in decoded:
        for row in part.events.to_pylist():
            headers = tuple(
                (header["key"], json.loads(header["value"])) for header in json.loads(row["headers"] or "[]")
            )
            key, value = (None if row[name] is None else json.loads(row[name]) for name in ("key", "value"))
            events.append(Event(row["topic"], key, value, headers))
    return events
