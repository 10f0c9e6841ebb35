"""The events of a MemorySink as a copy, for jobs over a MemoryDatabase: what it holds after each turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
from xxhash import xxh3_128

from engine.verify.compared_digests import SEEN_ROWS, digests_of_rows, key_digests
from engine.verify.comparison import COPIED, EventPosition, compare
from engine.verify.copy import ExtraRow, Findings, TouchedKeys
from engine.verify.deletes import DeleteEvents
from engine.verify.saved_course import Written

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from engine.model import CollectionId
    from engine.verify.copy import ComparisonRequest, SeenRows, Settled, Span
    from tests.fakes import Event, MemorySink
    from tests.memory_source import MemoryDatabase


@dataclass
class MemoryRows:
    """Rows seen, in memory. `earlier` are what processes before have left, the newest first."""

    tables: dict[int, list[pa.Table]] = field(default_factory=dict)
    damaged: bool = False
    earlier: tuple[MemoryRows, ...] = ()

    def add(self, ticket: int, rows: pa.Table) -> None:
        self.tables.setdefault(ticket, []).append(rows)

    def forget(self, ticket: int) -> None:
        self.tables.pop(ticket, None)

    def path(self, ticket: int) -> str:
        raise NotImplementedError

    def written(self, ticket: int) -> Written:
        tables = self.tables.get(ticket, [])
        return Written(len(tables), sum(map(len, tables)), _digest(tables))

    def resume(self, written: Mapping[int, Written]) -> frozenset[int]:
        left = [] if self.damaged else [self, *self.earlier]
        found = [
            (ticket, rows.tables.get(ticket, [])[: what.size], what.digest)
            for ticket, what in written.items()
            for rows in left
        ]
        self.tables = {ticket: tables for ticket, tables, digest in found if _digest(tables) == digest}
        return frozenset(self.tables)

    def close(self) -> None: ...

    def table(self, ticket: int) -> pa.Table:
        return pa.concat_tables([SEEN_ROWS.empty_table(), *self.tables.get(ticket, ())])


def _digest(tables: Iterable[pa.Table]) -> str:
    digest = xxh3_128()
    for table in tables:
        for column in table.select(["merge_key", "row", "turn"]).columns:
            digest.update(repr(column.to_pylist()).encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class Row:
    """What an event says of a key; `text` None: there is no row. `lacks`: its second value was left out."""

    key: str | None
    text: str | None
    lacks: bool = False


def rows_in(event: Event) -> Iterator[Row]:
    """What an event says, key by key; a key None is a truncate."""
    key, value = event["key"], event["value"]
    if value is None:
        return
    said: dict[str, Any] = orjson.loads(value)
    if said["op"] in {"r", "d"}:
        yield Row(key, value if said["op"] == "r" else None)
        return
    if said["old"] is not None:
        yield Row(str(said["old"]), None)
    text = {"op": "r", "value": said["value"], "large": said["large"], "at": said["at"]}
    yield Row(
        key,
        None if said["value"] is None else orjson.dumps(text).decode(),
        said["value"] is not None and said["large"] is None,
    )


def deletes_of(collection: CollectionId) -> DeleteEvents:
    """How a job over a MemoryDatabase writes deletes."""
    return DeleteEvents(str(collection), ("", ""), ('{"op":"d","before":', "}"), ("value",), tombstones=True)


def settled_in(database: MemoryDatabase) -> Settled:
    """Whether the entry of an event, whose value this is, is visible in snapshots from now on."""
    shown = frozenset(database.visible)

    def settled(value: bytes) -> bool:
        said = orjson.loads(value)
        return said["op"] != "w" or database.log[said["at"]].transaction in shown

    return settled


@dataclass
class MemoryCopy:
    """Implements `Copy`. It is asked `polls` times in vain, and reads `follows` turns at once."""

    sink: MemorySink
    polls: int = 0
    follows: int = 2

    def follow(self, topics: Collection[str], turn: int) -> None:
        """Each turn is in the sink."""

    def refusal(self) -> str:
        return ""

    def compare(self, topic: str, seen: tuple[SeenRows, int], asked: ComparisonRequest) -> Found:
        rows, span, mends = seen[0], asked.span, asked.mends
        assert isinstance(rows, MemoryRows)
        told = rows.table(seen[1])
        copied, truncates = self._copied(topic, 0, span.upto)
        found = compare(told, copied, truncates, (span.since, span.upto))
        counts = {name: len(getattr(found, name)) for name in ("missing", "different", "extra")}
        keys, digests = (told.column(name).to_pylist() for name in ("merge_key", "key"))
        undecided = tuple((keys[at], digests[at]) for at in found.undecided.tolist())
        wrong = [*found.missing.tolist(), *found.different.tolist()]
        extra = [
            row for row in (_extra(copied, at) for at in found.extra.tolist()) if self._settled(row, asked)
        ]
        unsettled = counts["extra"] - len(extra)
        return Found(
            Findings(
                found.equal,
                found.changed,
                counts | {"extra": len(extra)},
                {},
                undecided,
                tuple(keys[at] for at in wrong) if mends else (),
                tuple(extra) if mends else (),
                unsettled,
                lacking=found.lacking,
            ),
            self.polls,
        )

    def _settled(self, row: ExtraRow, asked: ComparisonRequest) -> bool:
        return row.turn <= asked.earlier or asked.settled(
            (self.sink.turns[row.turn][row.offset]["value"] or "").encode()
        )

    def touched_keys(self, topic: str, span: Span) -> TouchedKeys:
        upto = min(span.upto, span.since + self.follows)
        copied, truncates = self._copied(topic, span.since + 1, upto)
        return TouchedKeys(frozenset(copied.column("key").to_pylist()), upto, bool(truncates))

    def rows(self, topic: str, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:
        found = []
        for row in extra:
            event = self.sink.turns[row.turn][row.offset]
            assert (event["topic"], event["key"] is None) == (topic, False)
            said = list(rows_in(event))[-1]
            found.append((event["key"], said.text))
        return found

    def _copied(self, topic: str, first: int, upto: int) -> tuple[pa.Table, list[EventPosition]]:
        """The events of these turns. A value that was left out is the one of the event before."""
        columns: dict[str, list[Any]] = {name: [] for name in COPIED.names}
        truncates: list[EventPosition] = []
        large: dict[str | None, Any] = {}
        for turn in sorted(self.sink.turns):
            for offset, event in enumerate(self.sink.turns[turn]):
                if event["topic"] != topic or not first <= turn <= upto:
                    continue
                for row in rows_in(event):
                    if row.key is None:
                        truncates.append(EventPosition(turn, 0, offset))
                        large.clear()
                        continue
                    text = row.text
                    if text is not None:
                        said = orjson.loads(text)
                        said["large"] = large.get(row.key) if row.lacks else said["large"]
                        large[row.key], text = said["large"], orjson.dumps(said).decode()
                    else:
                        large.pop(row.key, None)
                    keys = pa.array([row.key], pa.large_string())
                    rows = pa.array([text or ""], pa.large_string())
                    columns["key"] += key_digests(keys).to_pylist()
                    columns["row"] += [None] if text is None else digests_of_rows(keys, rows).to_pylist()
                    for name, value in zip(
                        COPIED.names[2:], (turn, 0, offset, 1, row.lacks, False), strict=True
                    ):
                        columns[name].append(value)
        return pa.table(columns, schema=COPIED), truncates


@dataclass
class Found:
    """A comparison that has ended, and does not say so yet."""

    findings: Findings
    polls: int

    def poll(self) -> Findings | None:
        self.polls -= 1
        return self.findings if self.polls < 0 else None

    def close(self) -> None: ...


def _extra(copied: pa.Table, at: int) -> ExtraRow:
    row = copied.slice(at, 1).to_pylist()[0]
    return ExtraRow(*(row[name] for name in ("key", "turn", "part", "offset", "size")))
