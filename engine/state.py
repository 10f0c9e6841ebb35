"""The saved document: all that a restart needs, to and from JSON. Pure; storing is a port's affair.

One document per turn, readable by a person. `memory` is what the adapter of the source wants kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from engine.errors import StateError
from engine.model import CollectionId, Key, Position, Target
from engine.snapshot import Extent, Progress, Snapshot, Table

VERSION = 1


@dataclass(frozen=True, slots=True)
class State:
    """Where a job stands after turn `turn`.

    `position` None: the log was never read. `identity` tells the database from every other one.
    `channels` is what the signal channels keep: how far each has been read.
    """

    turn: int = 0
    position: Position | None = None
    snapshot: Snapshot = field(default_factory=Snapshot)
    identity: dict[str, str] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    channels: dict[str, Any] = field(default_factory=dict)

    def next_turn(self) -> State:
        """The same under the next turn's number."""
        return replace(self, turn=self.turn + 1)


def to_json(state: State) -> bytes:
    """The document, indented for a reader."""
    document = {
        "version": VERSION,
        "turn": state.turn,
        "position": list(state.position.order) if state.position else None,
        "identity": state.identity,
        "snapshot": {
            "next_ticket": state.snapshot.next_ticket,
            "tables": [_table_out(table) for table in state.snapshot.tables],
        },
        "memory": state.memory,
        "channels": state.channels,
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def from_json(document: bytes) -> State:
    """Read a document of any version up to ours; StateError names what is wrong."""
    try:
        fields = orjson.loads(document)
        version = fields["version"]
        if version != VERSION:
            raise StateError(f"state of version {version!r} was saved by another release; known: {VERSION}")
        return _state_in(fields)
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise StateError(f"the saved state can't be read: {error!r}") from error


def _state_in(fields: dict[str, Any]) -> State:
    position = fields["position"]
    queue = fields["snapshot"]
    return State(
        turn=int(fields["turn"]),
        position=None if position is None else Position(tuple(position)),
        snapshot=Snapshot(
            tables=tuple(_table_in(table) for table in queue["tables"]),
            next_ticket=int(queue["next_ticket"]),
        ),
        identity=dict(fields["identity"]),
        memory=dict(fields["memory"]),
        channels=dict(fields.get("channels", {})),  # older states have none
    )


def _table_out(table: Table) -> dict[str, Any]:
    progress = table.progress
    return {
        "ticket": table.ticket,
        "signal": table.signal,
        "id": table.id,
        "collection": list(table.target.collection.parts),
        "condition": table.target.condition,
        "surrogate_key": table.target.surrogate_key,
        "progress": None if progress is None else _progress_out(progress),
    }


def _table_in(fields: dict[str, Any]) -> Table:
    progress = fields["progress"]
    collection = CollectionId(tuple(fields["collection"]))
    return Table(
        ticket=int(fields["ticket"]),
        signal=fields["signal"],
        target=Target(collection, fields["condition"], fields["surrogate_key"]),
        progress=None if progress is None else _progress_in(progress),
        id=fields.get("id"),  # what was saved before ids were kept has none
    )


def _progress_out(progress: Progress) -> dict[str, Any]:
    extent = progress.extent
    return {
        "last": _key_out(progress.last),
        "rows": progress.rows,
        "emitted": progress.emitted,
        "chunks": progress.chunks,
        "since_ms": progress.since_ms,
        "covered": progress.covered,
        "reread": [list(key) for key in progress.reread],
        "rounds": progress.rounds,
        "extent": {
            "rows": extent.rows,
            "bytes": extent.bytes,
            "whole": extent.whole,
            "greatest": _key_out(extent.greatest),
            "span": list(extent.span) if extent.span else None,
            "key": list(extent.key),
        },
    }


def _progress_in(fields: dict[str, Any]) -> Progress:
    extent = fields["extent"]
    span = extent["span"]
    return Progress(
        extent=Extent(
            rows=int(extent["rows"]),
            bytes=int(extent["bytes"]),
            whole=bool(extent["whole"]),
            greatest=_key_in(extent["greatest"]),
            span=None if span is None else (int(span[0]), int(span[1])),
            key=tuple(extent["key"]),
        ),
        since_ms=int(fields["since_ms"]),
        last=_key_in(fields["last"]),
        rows=int(fields["rows"]),
        emitted=int(fields["emitted"]),
        chunks=int(fields["chunks"]),
        covered=bool(fields["covered"]),
        reread=tuple(tuple(key) for key in fields["reread"]),
        rounds=int(fields["rounds"]),
    )


def _key_out(key: Key | None) -> list[str | None] | None:
    return None if key is None else list(key)


def _key_in(key: list[str | None] | None) -> Key | None:
    return None if key is None else tuple(key)
