"""A database in memory: transactions, a change log, snapshots, windows. Working code, not a mock.

It has the trap that matters: a transaction is in the log before a new snapshot shows it. Keys are
integers as text; a row is a key and a value; an entry changes, moves or deletes one, or truncates.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from engine.errors import Loss, PositionLost, SchemaChanged, SignalError, SourceError, TableBusy
from engine.events.batch import EVENTS
from engine.isolation.incomplete import Cause, Incomplete, Letters
from engine.model import CollectionId, Position, SignalRow, StagedRun
from engine.ports.source import EncodingResult
from engine.snapshot.changes.commands import begin_initial
from engine.snapshot.extent import Extent, ScopeExtent
from engine.snapshot.merge import SupersededKeys
from engine.snapshot.merge_key import KEY_TYPE, merge_keys
from engine.snapshot.scope import RankedKey, ScopedCollection
from engine.staging.affixes import Affixes
from engine.staging.compared_rows import COMPARED
from engine.staging.rows import STAGED
from tests.staged import files_in, texts_in

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from engine.job.saved.state import State
    from engine.model import Key, Range, Scope, Target, Window
    from engine.ports.sink import PartWriter
    from engine.ports.source import Moved, Reading

SIGNALS = CollectionId(("public", "signals"))
SEED = 7
"""The seed of the digests of rows."""


@dataclass(frozen=True)
class Change:
    """One entry: `key` None truncates, `value` None deletes, `old` is the key a row had before.

    `large` is a second value, which the log leaves out (None) where an update does not change it.
    `insert` is set as it is logged, where no row had the key. `place` is what the table may be cut by (None:
    as it was; a new row's is its key): the log tells where a row is, and not where it was.
    """

    collection: CollectionId
    key: int | None
    value: str | None = None
    old: int | None = None
    large: str | None = ""
    insert: bool = False
    place: int | None = None


@dataclass(frozen=True)
class LoggedEntry:
    transaction: int
    change: Change


@dataclass
class MemoryDatabase:
    """Committed transactions in the order of the log; `visible` says which new snapshots show.

    The slot has the log from `begins` on.
    """

    log: list[LoggedEntry] = field(default_factory=list)
    visible: set[int] = field(default_factory=set)
    acknowledged: int = 0
    begins: int = 0
    slot: int | None = None
    transactions: int = 0
    failures: list[Exception] = field(default_factory=list)

    def commit(self, *changes: Change, visible: bool = True) -> int:
        """Log a transaction. One that touches a row waits, as a lock does, for the row's last writer."""
        self.transactions += 1
        for change in changes:
            self._settle_writers(change)
            logged = replace(change, insert=self._inserts(change))
            self.log.append(LoggedEntry(self.transactions, logged))
        if visible:
            self.visible.add(self.transactions)
        return self.transactions

    def _inserts(self, change: Change) -> bool:
        return (
            change.value is not None
            and change.large is not None
            and change.old is None
            and change.key not in self.rows(change.collection)
        )

    def _settle_writers(self, change: Change) -> None:
        mine = {change.key, change.old}
        for entry in self.log:
            if entry.change.collection == change.collection and (
                change.key is None or entry.change.key is None or mine & {entry.change.key, entry.change.old}
            ):
                self.visible.add(entry.transaction)

    def signal(self, id_: str, type_: str, data: str) -> None:
        self.commit(Change(SIGNALS, len(self.log), orjson.dumps([id_, type_, data]).decode()))

    def rows(
        self, collection: CollectionId, shown: frozenset[int] | None = None
    ) -> dict[int, tuple[str, str | None]]:
        """The table as a snapshot of these transactions shows it; None: all of them."""
        rows: dict[int, tuple[str, str | None]] = {}
        for entry in self.log:
            change = entry.change
            if change.collection != collection or (shown is not None and entry.transaction not in shown):
                continue
            if change.key is None:
                rows.clear()
                continue
            before = rows.pop(change.key if change.old is None else change.old, ("", None))
            if change.value is not None:
                rows[change.key] = (change.value, before[1] if change.large is None else change.large)
        return rows

    def places(self, collection: CollectionId, shown: frozenset[int] | None = None) -> dict[int, int]:
        """The place of each row of the table, by its key."""
        places: dict[int, int] = {}
        for entry in self.log:
            change = entry.change
            if change.collection != collection or (shown is not None and entry.transaction not in shown):
                continue
            if change.key is None:
                places.clear()
                continue
            before = places.pop(change.key if change.old is None else change.old, change.key)
            if change.value is not None:
                places[change.key] = before if change.place is None else change.place
        return places


@dataclass(frozen=True)
class MemorySpan:
    end: Position
    logged: tuple[LoggedEntry, ...]
    silent: bool = False
    committed_at_s: float = 0.0
    lag_s: float | None = None

    @property
    def entries(self) -> int:
        return len(self.logged)


class MemoryLog:
    """Reads the log from a position; a span may end anywhere, inside a transaction too."""

    def __init__(self, database: MemoryDatabase, start: int, span_rows: int) -> None:
        self._database, self._at, self._span_rows = database, start, span_rows
        self._most_rows, self.woken = span_rows, 0

    def take(self, timeout_s: float) -> MemorySpan | None:  # noqa: ARG002  nothing to wait for
        if self._database.failures:
            raise self._database.failures.pop()
        logged = tuple(self._database.log[self._at : self._at + self._span_rows])
        if not logged:
            return None
        self._at += len(logged)
        return MemorySpan(Position((self._at,)), logged)

    def acknowledge(self, position: Position) -> None:
        self._database.acknowledged = max(self._database.acknowledged, int(position.order[0]))

    def wake(self) -> None:
        self.woken += 1

    def hurry(self, *, on: bool) -> None: ...

    def limit(self, share: float) -> None:
        self._span_rows = max(1, int(self._most_rows * share))

    def close(self) -> None: ...


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def event(collection: CollectionId, key: int | None, value: dict[str, Any]) -> tuple[str, str | None, str]:
    return str(collection), None if key is None else _json(key), _json(value)


def batch_of(events: Sequence[tuple[str, str | None, str]]) -> pa.RecordBatch:
    topics, keys, values = zip(*events, strict=True) if events else ((), (), ())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(topics, pa.string()).dictionary_encode(),
            pa.array(keys, pa.large_string()),
            pa.array(values, pa.large_string()),
            pa.nulls(len(events), pa.large_string()),
        ],
        schema=EVENTS,
    )


def key_array(keys: Sequence[int]) -> pa.LargeBinaryArray:
    return merge_keys([pa.array([str(key) for key in keys], pa.large_string())])


@dataclass(frozen=True)
class Guards:
    """The parts of the merge rule, to be switched off one by one by tests that must then fail."""

    contains: bool = True
    reached: bool = True
    unsettled: bool = True
    old_keys: bool = True
    rereads: bool = True
    moves: bool = True
    truncates: bool = True
    beginning: bool = True
    places: bool = True


class MemorySource:
    """A `Source` over a MemoryDatabase; windows take `reading_polls` polls to be read.

    Tables are cut by their keys, or else `by_place`. With `skips_truncates` it says that they are not sent.
    """

    lasting = ()

    def __init__(
        self,
        database: MemoryDatabase,
        staging: str,
        *,
        span_rows: int = 3,
        reading_polls: int = 2,
        guards: Guards = Guards(),
        initial: bool = False,
        by_place: bool = False,
    ) -> None:
        self.database, self.guards, self._initial = database, guards, initial
        self.by_place, self.skips_truncates = by_place, False
        self._held: frozenset[int] | None = None
        self._staging, self._span_rows, self._polls = staging, span_rows, reading_polls
        self._pending: dict[int, list[Change]] = {}
        self.windows: list[MemoryWindow] = []
        self.undecodable: set[CollectionId] = set()
        self.grouped: dict[CollectionId, list[CollectionId]] = {}
        self.gaps: list[Incomplete] = []

    def open_log(self, state: State) -> tuple[State, MemoryLog]:
        if state.awaits_log:
            state = self._new_log(state)
        elif state.position is not None:
            self._check_log(int(state.position.order[0]))
        if self._initial and state.position is None:
            state = self._begun(state)
        elif not state.snapshot.initial:
            self._held = None
        position = state.position or Position((self.database.acknowledged,))
        self._pending = {
            int(xid): [Change(CollectionId(tuple(parts)), *fields) for parts, *fields in changes]
            for xid, changes in state.memory.get("unsettled", {}).items()
        }
        start = int(position.order[0])
        return replace(state, position=position), MemoryLog(self.database, start, self._span_rows)

    def _new_log(self, state: State) -> State:
        """A new slot, which begins only once snapshots show all that is before it."""
        database = self.database
        if {entry.transaction for entry in database.log} - database.visible:
            raise SourceError("waits for what was committed before the log began")
        database.begins = database.slot = database.acknowledged = len(database.log)
        return replace(state, position=Position((database.begins,)))

    def _check_log(self, position: int) -> None:
        if position < self.database.begins:
            raise PositionLost("the slot was moved", loss=Loss.SLOT_ADVANCED)
        if position > len(self.database.log):
            raise PositionLost("the server was restored", loss=Loss.RESTORED)

    def _begun(self, state: State) -> State:
        """Everything queued: in the snapshot of a new slot, or beside one whose first turn was lost."""
        database = self.database
        if database.slot is None:
            database.slot = len(database.log)
            self._held = frozenset(entry.transaction for entry in database.log)
        snapshot = begin_initial(state.snapshot, self.captured(), "initial")
        return replace(state, position=Position((database.slot,)), snapshot=snapshot)

    def memory(self) -> dict[str, Any]:
        return {
            "unsettled": {
                str(xid): [
                    [list(c.collection.parts), c.key, c.value, c.old, c.large, c.insert, c.place]
                    for c in changes
                ]
                for xid, changes in self._pending.items()
            }
        }

    def encode(
        self,
        span: MemorySpan,
        writer: PartWriter,
        aside: Collection[CollectionId] = (),
        reading: Reading = MappingProxyType({}),
    ) -> EncodingResult:
        shown = frozenset(self.database.visible)
        for entry in span.logged:
            if entry.transaction not in shown:
                self._pending.setdefault(entry.transaction, []).append(entry.change)
        start = int(span.end.order[0]) - len(span.logged)
        logged = list(enumerate(span.logged, start))
        faults = {entry.change.collection for _at, entry in logged} & self.undecodable - set(aside)
        out = {*aside, *faults}
        streamed = [(at, entry) for at, entry in logged if entry.change.collection not in out]
        events = batch_of([self._event(at, entry) for at, entry in streamed])
        return EncodingResult(
            parts=(writer.write(0, [events]),),
            incomplete=tuple(
                Incomplete(name, Cause.UNDECODABLE, str(start), "its entries are garbled")
                for name in sorted(faults)
            ),
            letters=self._letters([pair for pair in logged if pair[1].change.collection in out]),
            signals=self._signals(span),
            superseded_in=self._superseded([entry for _at, entry in streamed]),
            moved=self._moves([entry.change for _at, entry in streamed], reading),
            unsent=self._emptied([entry.change for _at, entry in streamed]),
            lag_s=span.lag_s,
        )

    def _emptied(self, changes: Sequence[Change]) -> frozenset[CollectionId]:
        emptied = (change.collection for change in changes if change.key is None)
        return frozenset(emptied if self.skips_truncates else ())

    @staticmethod
    def _letters(logged: Sequence[tuple[int, LoggedEntry]]) -> dict[CollectionId, Letters]:
        lines: dict[CollectionId, list[bytes]] = {}
        for at, entry in logged:
            lines.setdefault(entry.change.collection, []).append(str(at).encode())
        return {
            name: Letters(len(found), 10 * len(found), partial(iter, found)) for name, found in lines.items()
        }

    def tick(self, state: State) -> list[Incomplete]:
        if not state.snapshot.initial:
            self._held = None
        found, self.gaps = self.gaps, []
        return found

    def holds_log(self, state: State) -> bool:  # noqa: ARG002  the port's
        return self._held is not None

    def hidden_moves(self, reading: Reading) -> Moved:
        return self._moves([change for changes in self._pending.values() for change in changes], reading)

    def _moves(self, changes: Sequence[Change], reading: Reading) -> Moved:
        moved: defaultdict[tuple[CollectionId, tuple[str, ...]], set[tuple[bytes, bytes]]] = defaultdict(set)
        for change in changes:
            if change.key is not None and self._may_have_moved(change):
                old = change.key if change.old is None else change.old
                before, after = (key.as_py() for key in key_array([old, change.key]))
                for cut in reading.get(change.collection, ()):
                    moved[change.collection, cut].add((before, after))
        return moved

    def _may_have_moved(self, change: Change) -> bool:
        if change.large is not None or not self.guards.moves:
            return False
        return change.old is not None or (self.by_place and self.guards.places)

    @staticmethod
    def _event(at: int, entry: LoggedEntry) -> tuple[str, str | None, str]:
        change = entry.change
        detail = {"op": "w", "at": at, "value": change.value, "old": change.old, "large": change.large}
        return event(change.collection, change.key, detail)

    def _signals(self, span: MemorySpan) -> tuple[SignalRow, ...]:
        start = int(span.end.order[0]) - len(span.logged)
        return tuple(
            SignalRow(str(start + index), *orjson.loads(entry.change.value or "[]"))
            for index, entry in enumerate(span.logged)
            if entry.change.collection == SIGNALS
        )

    def _superseded(self, logged: Sequence[LoggedEntry]) -> dict[str, SupersededKeys]:
        return {
            window.id: self.superseding(
                [entry.change for entry in logged if entry.transaction not in window.shown]
            )
            for window in (self.windows if self.guards.contains else ())
        }

    def superseding(self, changes: Sequence[Change]) -> SupersededKeys:
        keys: dict[CollectionId, list[int]] = {}
        truncated = set()
        for change in changes:
            if change.key is None:
                if self.guards.truncates:
                    truncated.add(change.collection)
                continue
            if change.insert:
                continue
            touched = keys.setdefault(change.collection, [])
            touched.append(change.key)
            if change.old is not None and self.guards.old_keys:
                touched.append(change.old)
        arrays = {collection: (key_array(found),) for collection, found in keys.items()}
        return SupersededKeys(arrays, frozenset(truncated), self._lacking(changes))

    def _lacking(self, changes: Sequence[Change]) -> dict[CollectionId, tuple[tuple[bytes, bytes], ...]]:
        lacking: dict[CollectionId, tuple[tuple[bytes, bytes], ...]] = {}
        for change in changes:
            if change.key is not None and change.large is None and self.guards.rereads:
                before = change.key if change.old is None else change.old
                pair = (key_array([before])[0].as_py(), key_array([change.key])[0].as_py())
                lacking[change.collection] = (*lacking.get(change.collection, ()), pair)
        return lacking

    def tables(self) -> MemorySource:
        return self

    def captured(self) -> list[CollectionId]:
        return sorted({entry.change.collection for entry in self.database.log} - {SIGNALS})

    def groups(self) -> dict[CollectionId, list[CollectionId]]:
        return self.grouped

    def measure(
        self,
        targets: Sequence[Target],
        *,
        bounded: bool = False,  # noqa: ARG002  all are cut
    ) -> list[Extent | SignalError | TableBusy]:
        return [self._measured(target) for target in targets]

    def _measured(self, target: Target) -> Extent | SignalError | TableBusy:
        collection = target.collection
        if collection not in self.captured():
            return SignalError("there is no such collection", where=str(collection))
        shown = self._shown(initial=target.initial)
        if shown is None:
            return TableBusy("waits for what was committed before the log began", where=collection)
        places = sorted(self.places_of(collection, shown).values())
        greatest = (str(places[-1]),) if places else None
        key = ("place",) if self.by_place else ("key",)
        try:
            part = scoped(target.scope, len(places), greatest)
        except SignalError as error:
            return error
        return Extent(rows=len(places), bytes=10 * len(places), greatest=greatest, key=key, scoped=part)

    def places_of(self, collection: CollectionId, shown: frozenset[int]) -> dict[int, int]:
        """What each row is cut by."""
        if self.by_place:
            return self.database.places(collection, shown)
        return {key: key for key in self.database.rows(collection, shown)}

    def _shown(self, *, initial: bool) -> frozenset[int] | None:
        """What is read now; None while the log's beginning is hidden."""
        if initial and self._held is not None:
            return self._held
        shown = frozenset(self.database.visible)
        if not initial or not self.guards.beginning:
            return shown
        before = {entry.transaction for entry in self.database.log[: self.database.slot]}
        return None if before - shown else shown

    def boundaries(self, target: Target, left: Range, step_rows: int, count: int) -> list[Key]:
        places = self.places_of(target.collection, frozenset(self.database.visible)).values()
        low, high = ends_of(left)
        bounds = sorted({place for place in places if low < place < high})
        return [(str(bound),) for bound in bounds[step_rows - 1 :: step_rows][:count]]

    def open_window(self, window: Window) -> MemoryWindow:
        shown = self._shown(initial=window.initial)
        if shown is None:
            raise TableBusy("waits for what was committed before the log began")
        before, horizon = SupersededKeys(), None
        if window.initial and self._held is not None:
            horizon = 0
        else:
            self._pending = {xid: c for xid, c in self._pending.items() if xid not in shown}
            missed = [change for changes in self._pending.values() for change in changes]
            before = self.superseding(missed) if self.guards.unsettled else SupersededKeys()
        opened = MemoryWindow(self, window, shown, before, self._staging, self._polls)
        opened.horizon = opened.horizon if horizon is None else horizon
        self.windows.append(opened)
        return opened


def ends_of(part: Range) -> tuple[int, int]:
    """A range as integers: `(low, high]`."""
    low = -(10**9) if part.after is None else int(part.after[0] or 0) - part.holds_after
    return low, 10**9 if part.upto is None else int(part.upto[0] or 0) - part.lacks_upto


def asked_for(scope: Scope | None, place: int) -> bool:
    """Whether a row at this place is in a signal's scope."""
    if scope is None:
        return True
    if scope.keys:
        return (str(place),) in scope.keys
    return any(
        (part.start is None or place >= int(part.start[0])) and (part.end is None or place < int(part.end[0]))
        for part in scope.stretches
    )


def scoped(scope: Scope | None, rows: int, greatest: Key | None) -> ScopeExtent | None:
    """A signal's scope over integers, whose ranks are themselves."""
    if scope is None:
        return None
    within = ScopedCollection(rows, greatest)
    bounds = [bound for part in scope.stretches for bound in (part.start, part.end) if bound is not None]
    for key in (*scope.keys, *bounds):
        if len(key) != 1:
            raise SignalError(f"a key of the signal has {len(key)} values, and the key has one")
        if not key[0].lstrip("-").isdigit():
            raise SignalError("a key must be a number")
    if scope.keys:
        return within.at(scope.keys)
    return within.inside(scope, [RankedKey(bound, int(bound[0])) for bound in bounds])


class MemoryWindow:
    """Rows read under one snapshot; staged when it is polled often enough."""

    def __init__(
        self,
        source: MemorySource,
        window: Window,
        shown: frozenset[int],
        superseded: SupersededKeys,
        staging: str,
        polls: int,
    ) -> None:
        self._source, self._window, self.shown = source, window, shown
        self.superseded = superseded
        self._staging, self._polls = staging, polls
        # The log holds a visible transaction's last entry somewhere before this point.
        shows = [i for i, entry in enumerate(source.database.log, 1) if entry.transaction in shown]
        self.horizon = max(shows, default=0)
        self._staged: list[StagedRun] | None = None
        self.failure: SchemaChanged | SourceError | None = None

    @property
    def id(self) -> str:
        return self._window.id

    def poll(self) -> list[StagedRun] | None:
        if self.failure is not None:
            raise self.failure
        self._polls -= 1
        if self._polls > 0:
            return None
        if self._staged is None:
            self._staged = [self._stage(index) for index in range(len(self._window.runs))]
        return self._staged

    def _stage(self, index: int) -> StagedRun:
        run = self._window.runs[index]
        low, high = ends_of(run.range)
        found = self._source.database.rows(run.target.collection, self.shown)
        wanted = {int(key[0] or 0) for key in (*run.keys, *run.points)}
        places = self._source.places_of(run.target.collection, self.shown)
        rows = sorted(
            (key, value)
            for key, value in found.items()
            if low < places[key] <= high
            and (not wanted or (places if run.points else {key: key})[key] in wanted)
            and (not run.keys or asked_for(run.target.scope, places[key]))
        )
        contained = self._contained(run.target.collection)
        events = batch_of(
            [
                event(
                    run.target.collection,
                    key,
                    {"op": "r", "value": value, "large": large, "at": contained[key]},
                )
                for key, (value, large) in rows
            ]
        )
        area = (texts_in if index % 2 else files_in)(self._staging).within(self._window.id)
        area = replace(area, seed=SEED)
        form = COMPARED if self._window.runs[index].target.compared else None
        with area.run(index, Affixes(), form=form) as staging:
            keys = key_array([key for key, _value in rows]) if rows else pa.array([], KEY_TYPE)
            staging.write(pa.RecordBatch.from_arrays([*events.columns, keys], schema=STAGED))
        return StagedRun(run.ticket, run.target.collection, staging.complete, len(rows), events.nbytes, index)

    def _contained(self, collection: CollectionId) -> dict[int | None, int]:
        """For each key, the place in the log of the last change that the snapshot shows."""
        return {
            entry.change.key: index
            for index, entry in enumerate(self._source.database.log)
            if entry.change.collection == collection and entry.transaction in self.shown
        }

    def watch(self, changed: Any) -> None: ...

    def reached(self, position: Position) -> bool:
        return not self._source.guards.reached or int(position.order[0]) >= self.horizon

    def close(self) -> None:
        files_in(self._staging).within(self._window.id).clear()
        if self in self._source.windows:
            self._source.windows.remove(self)
