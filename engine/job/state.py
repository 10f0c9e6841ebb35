"""The saved state: all that a restart needs, to and from JSON. Pure: a port stores it.

Each turn saves one human-readable document. Queued signals and the sink's memory can be much larger than
the rest, and they rarely change. Beyond a size they move to a document of their own, saved by the turn that
changed them last, so the document of each turn stays small.

When a state counts (pending, commit, promote) is explained in `engine.job.loop`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from engine.errors import StateError, without_values
from engine.isolation.incomplete import Cause, Incomplete
from engine.model import CollectionId, Key, Position, Range, Target
from engine.snapshot.extent import Extent, Failed, Gap, Progress
from engine.snapshot.queue import Request, Snapshot, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

VERSION = 1
Waits: TypeAlias = "tuple[tuple[Table, ...], tuple[tuple[int, tuple[Request, ...]], ...]]"
"""The queue entries that merely wait, in order; and by ticket, further requests for an entry."""
_FEW = 50
"""How many entries, requests and values of the sink stay in the turn's own document."""


@dataclass(frozen=True, slots=True)
class State:
    """Where a job stands after turn `turn`.

    - `position` is None if the log was never read.
    - `identity` identifies the database.
    - `memory`, `channels` and `sink` are what the source, the signal channels and the sink want saved. For
      the channels that is how far each has been read.
    - `incomplete` are the collections whose copy is known to lack something.
    - `destination` identifies where events went; empty in states saved before it was recorded.
    - `beside` names the document with the waiting part of the queue and the sink's memory; empty if this
      document has everything.
    """

    turn: int = 0
    position: Position | None = None
    snapshot: Snapshot = field(default_factory=Snapshot)
    identity: dict[str, str] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    channels: dict[str, Any] = field(default_factory=dict)
    incomplete: tuple[Incomplete, ...] = ()
    destination: dict[str, str] = field(default_factory=dict)
    sink: Mapping[str, str] = field(default_factory=dict)
    beside: str = ""

    @property
    def waits(self) -> Waits:
        """The part of the queue that merely waits."""
        tables = self.snapshot.tables
        merged = tuple((table.ticket, table.merged) for table in tables if table.merged)
        return tuple(table for table in tables if _waits(table)), merged

    def next_turn(self) -> State:
        """This state under the next turn's number."""
        return replace(self, turn=self.turn + 1)


def to_json(state: State) -> bytes:
    """The turn's document, indented for human readers."""
    tables = _begun_out(state.snapshot) if state.beside else _tables_out(state.snapshot.tables)
    failed = [_failed_out(one) for one in state.snapshot.failed]
    document = {
        "version": VERSION,
        "turn": state.turn,
        "position": list(state.position.order) if state.position else None,
        "identity": state.identity,
        "destination": state.destination,
        "sink": {} if state.beside else state.sink,
        "beside": state.beside,
        "snapshot": {
            "next_ticket": state.snapshot.next_ticket,
            "conditions": _conditions_out(tables, failed),
            "tables": tables,
            "failed": failed,
        },
        "memory": state.memory,
        "channels": state.channels,
        "incomplete": [_incomplete_out(one) for one in state.incomplete],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def is_long(state: State) -> bool:
    """Whether the rarely changing part is large enough for a document of its own."""
    waiting, merged = state.waits
    return len(waiting) + sum(len(requests) for _ticket, requests in merged) + len(state.sink) > _FEW


def same_beside(before: State, after: State) -> bool:
    """Whether the rarely changing part is unchanged."""
    return before.waits == after.waits and before.sink == after.sink


def beside_to_json(state: State) -> bytes:
    """The document of the rarely changing part."""
    waiting, merged = state.waits
    tables = [{**table, "merged": []} for table in _tables_out(waiting)]
    document = {
        "version": VERSION,
        "conditions": _conditions_out(tables, []),
        "tables": tables,
        "merged": [[ticket, _requests_out(requests)] for ticket, requests in merged],
        "sink": state.sink,
    }
    return orjson.dumps(document)


def from_json(document: bytes, beside: Callable[[str], bytes] | None = None) -> State:
    """Read a turn's document. Raises StateError, which names what is wrong, also for another version.

    `beside` loads the document that this one names.
    """
    try:
        fields = orjson.loads(document)
        version = fields["version"]
        if version != VERSION:
            raise StateError(f"state of version {version!r} was saved by another release; known: {VERSION}")
        name = fields.get("beside", "")  # absent from older states
        if name and beside:
            rest = orjson.loads(beside(name))
            _with_beside(fields["snapshot"], rest)
            fields["sink"] = rest["sink"]
        return _state_in(fields)
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise StateError(f"the saved state can't be read: {without_values(error)}") from error


def _waits(table: Table) -> bool:
    return table.progress is None and table.resumes is None and not table.initial


def _tables_out(tables: Iterable[Table]) -> list[dict[str, Any]]:
    return [_table_out(table) for table in tables]


def _begun_out(queue: Snapshot) -> list[dict[str, Any]]:
    """The entries that do not merely wait, each with its index in the queue."""
    begun = [(at, table) for at, table in enumerate(queue.tables) if not _waits(table)]
    return [{**_table_out(table), "merged": [], "at": at} for at, table in begun]


def _with_beside(queue: dict[str, Any], beside: dict[str, Any]) -> None:
    """Put the waiting entries back in their places."""
    _conditions_in(queue)
    _conditions_in(beside)
    tables = list(beside["tables"])
    for table in queue["tables"]:
        tables.insert(table["at"], table)
    merged = dict(beside["merged"])
    for table in tables:
        table["merged"] = merged.get(table["ticket"], [])
    queue["tables"] = tables


def _state_in(fields: dict[str, Any]) -> State:
    position = fields["position"]
    queue = fields["snapshot"]
    _conditions_in(queue)
    return State(
        turn=int(fields["turn"]),
        position=None if position is None else Position(tuple(position)),
        snapshot=Snapshot(
            tables=tuple(_table_in(table) for table in queue["tables"]),
            next_ticket=int(queue["next_ticket"]),
            failed=tuple(_failed_in(one) for one in queue.get("failed", ())),
        ),
        identity=dict(fields["identity"]),
        memory=dict(fields["memory"]),
        channels=dict(fields.get("channels", {})),  # absent from older states
        incomplete=tuple(_incomplete_in(one) for one in fields.get("incomplete", ())),
        destination=dict(fields.get("destination", {})),
        sink=dict(fields.get("sink", {})),
        beside=str(fields.get("beside", "")),
    )


def _incomplete_out(one: Incomplete) -> dict[str, Any]:
    return {**asdict(one), "collection": list(one.collection.parts)}


def _incomplete_in(fields: dict[str, Any]) -> Incomplete:
    collection, cause = CollectionId(tuple(fields["collection"])), Cause(fields["cause"])
    turn, bundle, event = fields.get("out", (0, 0, 0))
    known: dict[str, Any] = {
        "collection": collection,
        "cause": cause,
        # Older states kept a refused table's log entries instead of its events.
        "gap": fields.get("gap", cause is Cause.REFUSED),
        "out": (turn, bundle, event),
        "epochs": tuple((since, epoch) for since, epoch in fields.get("epochs", ())),
    }
    return Incomplete(**{**fields, **known})


def _conditions_out(tables: list[dict[str, Any]], failed: list[dict[str, Any]]) -> list[str]:
    """Store each condition once and replace it by its number, since one signal may name all tables."""
    numbers: dict[str, int] = {}
    for entry in _targets(tables, failed):
        if entry["condition"] is not None:
            entry["condition"] = numbers.setdefault(entry["condition"], len(numbers))
    return list(numbers)


def _conditions_in(queue: dict[str, Any]) -> None:
    """Put the conditions back in their places. Older states have the texts there already."""
    texts = queue.get("conditions", ())
    for entry in _targets(queue["tables"], queue.get("failed", ())):
        if isinstance(entry["condition"], int):
            entry["condition"] = texts[entry["condition"]]


def _targets(tables: Iterable[dict[str, Any]], failed: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every entry with a target."""
    for table in tables:
        yield table
        if table.get("resumes"):
            yield table["resumes"]
    yield from failed


def _table_out(table: Table) -> dict[str, Any]:
    progress = table.progress
    return {
        "ticket": table.ticket,
        "signal": table.signal,
        "id": table.id,
        **_target_out(table.target),
        "place": None if table.place is None else list(table.place),
        "merged": _requests_out(table.merged),
        "progress": None if progress is None else _progress_out(progress),
        "resumes": None if table.resumes is None else _failed_out(table.resumes),
    }


def _table_in(fields: dict[str, Any]) -> Table:
    progress, resumes = fields["progress"], fields.get("resumes")
    return Table(
        ticket=int(fields["ticket"]),
        signal=fields["signal"],
        target=_target_in(fields),
        progress=None if progress is None else _progress_in(progress),
        id=fields.get("id"),  # absent from older states
        resumes=None if resumes is None else _failed_in(resumes),
        place=_place_in(fields.get("place")),
        merged=_requests_in(fields.get("merged", ())),
    )


def _requests_out(requests: Sequence[Request]) -> list[list[str | None]]:
    return [[one.signal, one.id] for one in requests]


def _requests_in(fields: Iterable[Sequence[Any]]) -> tuple[Request, ...]:
    return tuple(Request(signal, id_) for signal, id_ in fields)


def _target_out(target: Target) -> dict[str, Any]:
    return {
        "collection": list(target.collection.parts),
        "condition": target.condition,
        "surrogate_key": target.surrogate_key,
        "initial": target.initial,
    }


def _target_in(fields: dict[str, Any]) -> Target:
    return Target(
        CollectionId(tuple(fields["collection"])),
        fields["condition"],
        fields["surrogate_key"],
        fields.get("initial", False),  # absent from older states
    )


def _place_in(place: list[int] | None) -> tuple[int, int] | None:
    return None if place is None else (int(place[0]), int(place[1]))


def _failed_out(failed: Failed) -> dict[str, Any]:
    gaps = [_gap_out(gap) for gap in failed.gaps]
    return {**_target_out(failed.target), "key": list(failed.key), "gaps": gaps}


def _failed_in(fields: dict[str, Any]) -> Failed:
    return Failed(_target_in(fields), tuple(fields["key"]), tuple(_gap_in(gap) for gap in fields["gaps"]))


def _gap_out(gap: Gap) -> dict[str, Any]:
    ranges = None if gap.range is None else _range_out(gap.range)
    return {"range": ranges, "keys": [list(key) for key in gap.keys], "why": gap.why}


def _gap_in(fields: dict[str, Any]) -> Gap:
    ranges = None if fields["range"] is None else _range_in(fields["range"])
    return Gap(ranges, tuple(tuple(key) for key in fields["keys"]), fields["why"])


def _range_out(one: Range) -> list[list[str | None] | None]:
    return [_key_out(one.after), _key_out(one.upto)]


def _range_in(bounds: list[list[str | None] | None]) -> Range:
    after, upto = bounds
    return Range(_key_in(after), _key_in(upto))


def _progress_out(progress: Progress) -> dict[str, Any]:
    extent = progress.extent
    return {
        "left": [_range_out(one) for one in progress.left],
        "rows": progress.rows,
        "emitted": progress.emitted,
        "chunks": progress.chunks,
        "since_ms": progress.since_ms,
        "reread": [list(key) for key in progress.reread],
        "rounds": progress.rounds,
        "missing": [_gap_out(gap) for gap in progress.missing],
        "extent": {
            "rows": extent.rows,
            "bytes": extent.bytes,
            "whole": extent.whole,
            "greatest": _key_out(extent.greatest),
            "span": list(extent.span) if extent.span else None,
            "key": list(extent.key),
            "as_of": list(extent.as_of),
        },
    }


def _progress_in(fields: dict[str, Any]) -> Progress:
    extent = _extent_in(fields["extent"])
    return Progress(
        extent=extent,
        since_ms=int(fields["since_ms"]),
        left=_left_in(fields, extent),
        rows=int(fields["rows"]),
        emitted=int(fields["emitted"]),
        chunks=int(fields["chunks"]),
        reread=tuple(tuple(key) for key in fields["reread"]),
        rounds=int(fields["rounds"]),
        missing=tuple(_gap_in(gap) for gap in fields.get("missing", ())),
    )


def _left_in(fields: dict[str, Any], extent: Extent) -> tuple[Range, ...]:
    """The ranges left to read. Older states have the last key read instead."""
    if "left" in fields:
        return tuple(_range_in(one) for one in fields["left"])
    if fields["covered"]:
        return ()
    last = _key_in(fields["last"])
    return extent.ranges if last is None else (Range(last, extent.greatest),)


def _extent_in(fields: dict[str, Any]) -> Extent:
    span = fields["span"]
    return Extent(
        rows=int(fields["rows"]),
        bytes=int(fields["bytes"]),
        whole=bool(fields["whole"]),
        greatest=_key_in(fields["greatest"]),
        span=None if span is None else (int(span[0]), int(span[1])),
        key=tuple(fields["key"]),
        as_of=tuple(fields.get("as_of", ())),  # absent from older states
    )


def _key_out(key: Key | None) -> list[str | None] | None:
    return None if key is None else list(key)


def _key_in(key: list[str | None] | None) -> Key | None:
    return None if key is None else tuple(key)
