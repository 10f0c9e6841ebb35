"""The simulated database as the engine's `Source`: what an adapter tells, it tells, by the same rules.

Owns the adapter's half of the merge rule (which entries a snapshot contains, which transactions are streamed
and not yet visible), so that the engine's half is judged alone; the three adapters have a depth of their own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from engine.errors import SchemaChanged, SignalError, SourceError, TableBusy
from engine.events.batch import EVENTS
from engine.model import Position, SignalRow, StagedRun
from engine.ports.source import EncodingResult
from engine.snapshot import copies
from engine.snapshot.changes.commands import begin_initial
from engine.snapshot.extent import Extent, ScopeExtent
from engine.snapshot.merge import SupersededKeys
from engine.snapshot.merge_key import KEY_TYPE
from engine.snapshot.scope import RankedKey, ScopedCollection
from engine.staging.affixes import Affixes
from engine.staging.compared_rows import COMPARED
from engine.staging.rows import STAGED
from tests.simulation.database import SIGNALS, TABLES, B, Row, T, U
from tests.simulation.fallible_calls import ERRORS, fallible
from tests.simulation.sink import Read, read_text
from tests.simulation.staged_reads import StagedReads
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from engine.isolation.incomplete import Incomplete
    from engine.job.saved.state import State
    from engine.model import CollectionId, Range, Run, Scope, Target, Window
    from engine.ports.log import Span
    from engine.ports.sink import PartWriter
    from engine.ports.source import Moved, Reading
    from engine.staging.port import StagedRows
    from tests.simulation.database import Entry, Key
    from tests.simulation.world import Life

_LEAST = -(10**9)
_TEXT = EVENTS.field("key").type
_ROW_BYTES = 100


def merge_key(key: Key) -> bytes:
    """The bytes of `engine.snapshot.merge_key.merge_keys` for one column, without Arrow."""
    text = str(key).encode()
    return len(text).to_bytes(4, "big") + text


@cache
def _columns(topic: str, rows: int) -> tuple[pa.Array, pa.Array]:
    """The columns that are alike for all windows."""
    topics = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, np.int32)), pa.array([topic], pa.string())
    )
    return topics, pa.nulls(rows, _TEXT)


class SimSpan(NamedTuple):
    """Entries of the log."""

    end: Position
    logged: tuple[Entry, ...]
    silent: bool = False
    committed_at_s: float = 0.0

    @property
    def entries(self) -> int:
        """Their number."""
        return len(self.logged)


@dataclass(slots=True)
class SimView:
    """The snapshot of a blocking snapshot's windows, and the entries that it lacks.

    The stream goes no further than `horizon`. It ends for whoever changes the definition of one of its
    `collections`. `lacks` are the streamed entries that it does not show.
    """

    shown: frozenset[int]
    horizon: int
    collections: frozenset[CollectionId]
    lacks: list[Entry]
    gives_way: bool = False

    @property
    def superseded(self) -> SupersededKeys:
        """What the entries that it lacks have superseded."""
        return superseding(self.lacks)


class SimLog:
    """A session of the log: it hands over what was delivered, in spans that may end inside a transaction."""

    def __init__(self, life: Life, start: int, source: SimSource) -> None:
        self._life, self.at, self._source = life, start, source
        self._share = 1.0

    def take(self, timeout_s: float) -> SimSpan | None:
        """The next entries; None after waiting in vain."""
        life = self._life
        with fallible(life, "take"):
            database, most = life.world.database, life.world.setup.span_rows
            end = min(self.at + max(1, int(most * self._share)), database.delivered)
            if (view := self._source.view) is not None:
                end = min(end, view.horizon)
            if end <= self.at:
                life.world.pass_time(timeout_s)
                return None
            logged = tuple(database.log[self.at : end])
            self.at = end
            return SimSpan(Position((end,)), logged, committed_at_s=life.world.now())

    def acknowledge(self, position: Position) -> None:
        """Let the database discard what was saved."""
        self._life.step("acknowledge")
        self._life.world.acknowledged(int(position.order[0]))

    def wake(self) -> None:
        """Nobody sleeps."""

    def hurry(self, *, on: bool) -> None:
        """Nothing hurries, but it is to as long as rows wait for the stream."""
        if on is all(window.locks for window in self._source.windows):
            raise Violation(f"the log is told to hurry: {on}")

    def limit(self, share: float) -> None:
        """Take less at once."""
        self._share = share

    def close(self) -> None:
        """End the session."""


class SimSource:
    """The engine's `Source` and `Tables` for one process."""

    lasting = ()

    def __init__(self, life: Life) -> None:
        self._life, self._database = life, life.world.database
        self._setup = life.world.setup
        self._pending: dict[int, list[int]] = {}
        self._held: frozenset[int] | None = None
        self.windows: list[SimWindow] = []
        self.begun = 0
        self.view: SimView | None = None
        self._blocking: frozenset[CollectionId] = frozenset()

    # The log.

    def open_log(self, state: State) -> tuple[State, SimLog]:
        """Begin at the saved position, or at the slot's."""
        with fallible(self._life, "open_log"):
            if self._setup.initial and state.position is None:
                state = self._begun(state)
            elif not state.snapshot.initial:
                self._held = None
            self.view = None
            position = state.position or Position((self._database.acknowledged,))
            unsettled = state.memory.get("unsettled", {})
            self._pending = {int(id_): list(ats) for id_, ats in unsettled.items()}
            return replace(state, position=position), SimLog(self._life, int(position.order[0]), self)

    def _begun(self, state: State) -> State:
        """Queue everything: in the snapshot of a new slot, or beside a slot whose first turn was lost."""
        database = self._database
        if database.slot is None:
            database.slot = database.acknowledged = len(database.log)
            self._held = frozenset(entry.transaction for entry in database.log)
            self._life.world.begun(database.slot)
        snapshot = begin_initial(state.snapshot, TABLES, "initial")
        return replace(state, position=Position((database.slot,)), snapshot=snapshot)

    def encode(
        self,
        span: Span,
        writer: PartWriter,
        aside: Collection[CollectionId] = (),  # noqa: ARG002  no table is set aside
        reading: Reading = MappingProxyType({}),
    ) -> EncodingResult:
        """Write the span's entries, and say what they supersede."""
        if not isinstance(span, SimSpan):
            raise TypeError("a span of another source")
        self._life.step("encode")
        visible = self._database.visible
        for entry in span.logged:
            if entry.transaction not in visible:
                self._pending.setdefault(entry.transaction, []).append(entry.at)
        part = writer.write_entries(0, span.logged)  # type: ignore[attr-defined]  # the simulated sink's own
        superseded = {
            window.id: superseding([entry for entry in span.logged if entry.transaction not in window.shown])
            for window in self.windows
        }
        self._life.world.superseded(superseded.values())
        if (view := self.view) is not None:
            view.lacks += [change for change in span.logged if change.transaction not in view.shown]
        return EncodingResult(
            parts=(part,),
            signals=tuple(_signal(entry) for entry in span.logged if entry.collection == SIGNALS),
            superseded_in=superseded,
            moved=moved(span.logged, reading),
            unsent=self._life.world.unsent(span.logged),
        )

    def tick(self, state: State) -> Sequence[Incomplete]:
        """Release the view of blocking snapshots once nothing needs it, or where it must give way."""
        self._life.step("tick")
        leading = state.snapshot.leading
        self._blocking = frozenset(table.target.collection for table in leading if table.blocking)
        if self.view is not None and (not self._blocking or (self.view.gives_way and not self.windows)):
            self.view = None
        return ()

    def holds_log(self, state: State) -> bool:
        """Whether the log waits for the snapshot before it."""
        if not state.snapshot.initial:
            self._held = None
        if self.view is not None and state.position is not None:
            waits = int(state.position.order[0]) >= self.view.horizon
            self._life.world.happened["turns that wait"] += waits
            return waits
        return self._held is not None

    def memory(self) -> dict[str, Any]:
        """The transactions that were streamed and that no snapshot has shown yet."""
        return {"unsettled": {str(id_): ats for id_, ats in self._pending.items()}}

    def hidden_moves(self, reading: Reading) -> Moved:
        """Moves of rows that measuring could not see."""
        return moved([*self._missed(), *(self.view.lacks if self.view else ())], reading)

    @property
    def pending(self) -> AbstractSet[int]:
        """The transactions that were streamed, and that no window has shown yet."""
        return self._pending.keys()

    def _missed(self) -> list[Entry]:
        return [self._database.log[at] for ats in self._pending.values() for at in ats]

    # The catalog.

    def tables(self) -> SimSource:
        """Itself."""
        return self

    def captured(self) -> Sequence[CollectionId]:
        """The three tables."""
        return TABLES

    def groups(self) -> dict[CollectionId, Sequence[CollectionId]]:
        """None."""
        return {}

    def key(self, collection: CollectionId) -> tuple[str, ...]:
        """What a table is cut by now."""
        return (self._database.cuts[collection], str(self._database.forms[collection]))

    def measure(
        self, targets: Sequence[Target], *, bounded: bool = False
    ) -> list[Extent | SignalError | TableBusy]:
        """The extents of tables."""
        self._blocking |= {target.collection for target in targets if target.blocking}
        with fallible(self._life, "measure"):
            return [self._measured(target, bounded=bounded) for target in targets]

    def _measured(self, target: Target, *, bounded: bool) -> Extent | SignalError | TableBusy:
        if target.collection == B and target.compared:
            return SignalError("its rows have no key to be compared by", where=target.collection)
        shown = self._shown(initial=target.initial)
        if shown is None:
            return TableBusy("waits for what was committed before the log began", where=target.collection)
        view = self.view if target.blocking else None
        if view is not None and target.collection in view.collections:
            shown = view.shown  # a row that was deleted since is read there
        places = sorted(place for place, _key, _row in self._rows(target.collection, shown))
        if target.scope is not None and self._database.cuts[target.collection] == "place":
            return SignalError("it has another key than the signal's", where=target.collection)
        whole = len(places) <= self._setup.whole_rows and not bounded and target.scope is None
        greatest = (_bound(places[-1]),) if places and not whole else None
        return Extent(
            rows=len(places),
            bytes=10 * len(places),
            whole=whole,
            greatest=greatest,
            key=self.key(target.collection),
            scoped=_scoped(target.scope, ScopedCollection(len(places), greatest)),
        )

    def boundaries(
        self, target: Target, left: Range, step_rows: int, count: int
    ) -> Sequence[tuple[str | None, ...]]:
        """Bounds for runs."""
        with fallible(self._life, "boundaries"):
            low, high = _ends(target.collection, left)
            rows = self._rows(target.collection, frozenset(self._database.visible))
            places = sorted({place for place, _key, _row in rows if low < place < high})
            return [(_bound(place),) for place in places[step_rows - 1 :: step_rows][:count]]

    def _rows(self, collection: CollectionId, shown: frozenset[int]) -> list[tuple[Any, Key, Row]]:
        """What a snapshot shows: each row with its place in what cuts the table, and its key."""
        database = self._database
        if collection == B:
            return [
                (key, key, Row(0, str(key), "", 0))
                for key, times in database.copies_shown(shown).items()
                for _ in range(times)
            ]
        by_place = database.cuts[collection] == "place"
        return [
            (row.place if by_place else key, key, row)
            for key, row in database.rows_shown(collection, shown).items()
        ]

    def _shown(self, *, initial: bool) -> frozenset[int] | None:
        """What is read now; None while the log's beginning is hidden."""
        if initial and self._held is not None:
            return self._held
        shown = frozenset(self._database.visible)
        # What is in no log holds its locks for as long as it is hidden, and an adapter waits for them.
        before = {entry.transaction for entry in self._database.log[: self._database.slot or 0]}
        return None if before - shown else shown

    # Windows.

    def open_window(self, window: Window) -> SimWindow | LateWindow:
        """Take a snapshot, and read the runs in the background; or begin to."""
        if any(opened.locks for opened in self.windows):
            raise Violation("a window opens while another one is read")
        polls = self._life.world.setup.opening_polls
        late = polls and not window.blocking
        opened = LateWindow(self, window, polls) if late else self.open_now(window)
        self.begun += 1
        return opened

    def open_now(self, window: Window) -> SimWindow:
        """Take a snapshot, and read the runs in the background."""
        before = list(self.windows)
        try:
            return self._open_window(window)
        except SourceError:
            for lost in [window for window in self.windows if window not in before]:
                lost.close()  # its session has failed, and holds no lock any more
            raise

    def _open_window(self, window: Window) -> SimWindow:
        with fallible(self._life, "open_window"):
            for run in window.runs:
                if run.key and run.key != self.key(run.target.collection):
                    raise SchemaChanged("its definition has changed", where=run.target.collection)
            shown = self._shown(initial=window.initial)
            if shown is None:
                raise TableBusy("waits for what was committed before the log began")
            if window.blocking:
                if not window.runs[0].keys:
                    return self._in_view(window, shown)
                self.view = None  # what superseded the keys is newer
            horizon, before = 0, SupersededKeys()
            if not window.initial or self._held is None:
                horizon, before = self._settled(shown)
            return self._opened(SimWindow(self, self._life, window, shown, before, horizon))

    def _settled(self, shown: frozenset[int]) -> tuple[int, SupersededKeys]:
        """The place behind all that a new snapshot shows, and what was streamed that it does not show."""
        self._pending = {id_: ats for id_, ats in self._pending.items() if id_ not in shown}
        log = self._database.log
        horizon = next((entry.at + 1 for entry in reversed(log) if entry.transaction in shown), 0)
        return horizon, superseding(self._missed())

    def _in_view(self, window: Window, shown: frozenset[int]) -> SimWindow:
        """Read a blocking snapshot's runs in the view that all its windows share."""
        read = frozenset(run.target.collection for run in window.runs)
        if self.view is None or self.view.gives_way or not read <= self.view.collections:
            horizon, _superseded = self._settled(shown)
            self.view = SimView(shown, horizon, read | self._blocking, self._missed())
            self._life.world.happened["views of blocking snapshots"] += 1
        view = self.view
        return self._opened(SimWindow(self, self._life, window, view.shown, view.superseded, view.horizon))

    def _opened(self, opened: SimWindow) -> SimWindow:
        self.windows.append(opened)
        self._life.world.opened(len(self.windows))
        return opened

    def reads(self, window: SimWindow) -> tuple[CollectionId, list[Key]]:
        """The first table that a window reads, and the rows that it reads of it."""
        run = window.window.runs[0]
        collection = run.target.collection
        low, high = _ends(collection, run.range)
        rows = self._rows(collection, window.shown)
        if collection != B and self.key(collection) != run.key:
            return collection, sorted(key for _place, key, _row in rows)
        return collection, sorted(key for place, key, _row in rows if low < place <= high)

    def staged(self, window: SimWindow, index: int, run: Run) -> StagedRun:
        """Read one run under the window's snapshot, and stage it."""
        collection = run.target.collection
        low, high = _ends(collection, run.range)
        wanted = {str(key[0]) for key in (*run.keys, *run.points)}
        rows = sorted(
            (place, key, row)
            for place, key, row in self._rows(collection, window.shown)
            if (str(key) in wanted and in_scope(run.target.scope, key) if wanted else low < place <= high)
        )
        poisoned = self._database.poisoned[collection]
        if poisoned and any(key in poisoned for _place, key, _row in rows):
            raise SourceError("a row can't be read", where=collection)
        if run.target.compared:
            content = self._compared(window, index, collection, rows)
        else:
            ticket = run.ticket
            reads = [
                Read(collection, key, row.at, row.value, row.large or None, ticket)
                for _place, key, row in rows
            ]
            content = StagedReads(reads, [merge_key(key) for _place, key, _row in rows])
        return StagedRun(run.ticket, collection, content, len(rows), _ROW_BYTES * len(rows), index)

    def _compared(
        self, window: SimWindow, index: int, collection: CollectionId, rows: Sequence[tuple[Any, Key, Row]]
    ) -> StagedRows:
        """Stage rows that go nowhere, so their texts don't name the entry of the queue."""
        topics, headers = _columns(str(collection), len(rows))
        keys = [key for _place, key, _row in rows]
        columns = [
            topics,
            pa.array(map(str, keys), _TEXT),
            pa.array([read_text(*row) for _place, _key, row in rows], _TEXT),
            headers,
            pa.array(map(merge_key, keys), KEY_TYPE),
        ]
        area = self._life.world.staging.within(window.id)
        with area.run(index, Affixes(), form=COMPARED) as staging:
            staging.write(pa.RecordBatch.from_arrays(columns, schema=STAGED))
        return staging.complete


class SimWindow:
    """Rows read under one snapshot; staged once it was polled often enough."""

    def __init__(
        self,
        source: SimSource,
        life: Life,
        window: Window,
        shown: frozenset[int],
        superseded: SupersededKeys,
        horizon: int,
    ) -> None:
        self._source, self._life, self.window = source, life, window
        self.shown, self.superseded, self._horizon = shown, superseded, horizon
        self._polls = life.world.setup.reading_polls + life.world.straggling()
        self._staged: list[StagedRun] | None = None
        self.gives_way = False
        self._forms = {run.target.collection: source.key(run.target.collection) for run in window.runs}

    @property
    def id(self) -> str:
        """The window's id."""
        return self.window.id

    @property
    def locks(self) -> bool:
        """Whether it is being read, and so keeps others from altering its tables."""
        return self._staged is None

    def reads(self, collection: CollectionId) -> bool:
        """Whether it holds a lock on a table."""
        return collection in self._forms

    def poll(self) -> list[StagedRun] | None:
        """The staged rows, once all are read."""
        life = self._life
        life.step("poll")
        if self.gives_way and self._staged is None:
            raise ERRORS["yield"]()  # noqa: RSE102  it makes the error
        for fault in ("yield", "changed", "failed", "gone", "busy", "login", "room"):
            if self._staged is None and life.fault(fault):
                raise ERRORS[fault]()  # noqa: RSE102  it makes the error
        self._polls -= 1
        if self._polls > 0:
            return None
        if self._staged is None:
            self._staged = [
                self._source.staged(self, index, run) for index, run in enumerate(self.window.runs)
            ]
        return self._staged

    def watch(self, changed: Any) -> None:
        """Nobody sleeps."""

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed every change that the snapshot shows."""
        return int(position.order[0]) >= self._horizon

    def close(self) -> None:
        """Stop, and remove the rows."""
        for file in self._staged or ():
            if isinstance(file.content, StagedReads):
                file.content.clear()
        self._life.world.staging.within(self.id).clear()
        if self in self._source.windows:
            self._source.windows.remove(self)
            self._life.world.released()


class LateWindow:
    """A window that opens when it was polled often enough, while the stream goes on."""

    def __init__(self, source: SimSource, window: Window, polls: int) -> None:
        self._source, self._window, self._polls = source, window, polls
        self._opened: SimWindow | None = None

    @property
    def superseded(self) -> SupersededKeys | None:
        """What superseded its rows before it was open; None until it is."""
        return self._opened.superseded if self._opened else None

    def poll(self) -> list[StagedRun] | None:
        """Open, or be read."""
        if self._opened is not None:
            return self._opened.poll()
        self._polls -= 1
        if self._polls <= 0:
            self._opened = self._source.open_now(self._window)
        return None

    def watch(self, changed: Any) -> None:
        """Nobody sleeps."""

    def reached(self, position: Position) -> bool:
        """Whether it is open, and its rows may go out."""
        return self._opened is not None and self._opened.reached(position)

    def close(self) -> None:
        """Stop, and remove the rows."""
        if self._opened is not None:
            self._opened.close()


def superseding(entries: Sequence[Entry]) -> SupersededKeys:
    """What these entries supersede in a window that contains none of them."""
    if not entries:
        return SupersededKeys()
    keys: dict[CollectionId, list[bytes]] = {}
    lacking: dict[CollectionId, tuple[tuple[bytes | None, bytes], ...]] = {}
    balances: dict[CollectionId, tuple[pa.Table, ...]] = {}
    truncated = set()
    for entry in entries:
        collection = entry.collection
        if entry.op == "t":
            truncated.add(collection)
        elif collection == B:
            balances[B] = (*balances.get(B, ()), _balance(entry))
        elif collection in {T, U} and entry.op != "c":
            old, new = merge_key(entry.old), merge_key(entry.key)
            touched = keys.setdefault(collection, [])
            touched += [old] if old == new else [old, new]
            if entry.op == "u" and entry.large is None:
                lacking[collection] = (*lacking.get(collection, ()), (old, new))
    arrays = {name: (pa.array(found, KEY_TYPE),) for name, found in keys.items()}
    return SupersededKeys(arrays, frozenset(truncated), lacking, balances)


def _balance(entry: Entry) -> pa.Table:
    signs = {"c": [1], "d": [-1], "u": [-1, 1]}[entry.op]
    keys = {"c": [entry.key], "d": [entry.old], "u": [entry.old, entry.key]}[entry.op]
    return copies.balances_of(pa.array([merge_key(key) for key in keys], KEY_TYPE), np.array(signs, np.int64))


def moved(entries: Iterable[Entry], reading: Reading) -> Moved:
    """The rows that lack a value and may have moved out of what is still to be read."""
    found: defaultdict[tuple[CollectionId, tuple[str, ...]], set[tuple[bytes, bytes]]] = defaultdict(set)
    for entry in entries:
        if entry.op != "u" or entry.large is not None:
            continue
        for cut in reading.get(entry.collection, ()):
            if entry.old != entry.key or cut[:1] != ("key",):
                found[entry.collection, cut].add((merge_key(entry.old), merge_key(entry.key)))
    return found


def _signal(entry: Entry) -> SignalRow:
    id_, type_, data = entry.value.split("|", 2)
    return SignalRow(str(entry.at), id_, type_, data)


def in_scope(scope: Scope | None, key: Key) -> bool:
    """Whether a signal with this scope asks for a row."""
    if scope is None:
        return True
    if scope.keys:
        return (orjson.dumps(key).decode(),) in scope.keys
    return any(
        (part.start is None or int(key) >= int(part.start[0]))
        and (part.end is None or int(key) < int(part.end[0]))
        for part in scope.stretches
    )


def _scoped(scope: Scope | None, within: ScopedCollection) -> ScopeExtent | None:
    """A signal's scope; integers are their own ranks."""
    if scope is None:
        return None
    if scope.keys:
        return within.at([(str(orjson.loads(text)),) for (text,) in scope.keys])
    bounds = [bound for part in scope.stretches for bound in (part.start, part.end) if bound is not None]
    return within.inside(scope, [RankedKey(bound, int(bound[0])) for bound in bounds])


def _ends(collection: CollectionId, part: Range) -> tuple[Any, Any]:
    """A range as what cuts the table: `(low, high]`."""
    low, high = _place_of(collection, part.after), _place_of(collection, part.upto, open_end=True)
    return (low, high) if collection == B else (low - part.holds_after, high - part.lacks_upto)


def _bound(place: int | str) -> str:
    return str(place)


def _place_of(
    collection: CollectionId, bound: tuple[str | None, ...] | None, *, open_end: bool = False
) -> Any:
    """A bound as what cuts the table."""
    text = None if bound is None else bound[0]
    if collection == B:
        return text if text is not None else ("s" if open_end else "")
    return int(text) if text is not None else (-_LEAST if open_end else _LEAST)
