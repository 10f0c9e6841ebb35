"""The world: plays a history's steps between the calls of the job's ports, and ends it in peace.

One thing happens at a time. A job runs until it has made as many calls as the script grants. Then the world
takes its next steps, right there inside the call, and the job continues, fails, or is killed. When the script
is over, faults end, everything becomes visible, and the job must come to rest within a bounded number of
turns.

A second job runs in a thread of its own, but never at the same time: whoever holds the baton runs.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from adapters.staging.executor_blocks import ExecutorBlocks
from adapters.storage.lease import FileLease, Leases
from adapters.storage.owner import Claim, Process
from adapters.storage.state import FileStateStore
from adapters.storage.state_files import newest_epoch
from engine.errors import LeaseLost, TidemarkError
from engine.job.heartbeat import Heartbeat
from engine.job.loop import Job
from engine.job.parts import JobParts, Pace
from engine.job.reports.tally import Phase, Tally
from engine.job.verify.verification import Verification
from engine.staging.event_rows import EventRows
from engine.staging.rows import StagingArea
from signals.desk import Desk
from signals.parse.scope import scope_of
from tests.simulation.answers import Answers, Asked
from tests.simulation.copies import Finished
from tests.simulation.database import SIGNALS, TABLES, B, Database, T, U
from tests.simulation.fallible_calls import fallible
from tests.simulation.oracle import Oracle
from tests.simulation.sink import Read, Sent, SimSink
from tests.simulation.source import SimSource
from tests.simulation.storage import Directory, MemoryStorage
from tests.simulation.violation import Killed, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from engine.model import CollectionId, Scope
    from engine.snapshot.merge import SupersededKeys
    from signals.answers import Answer
    from tests.simulation.database import Entry, Key
    from tests.simulation.script import History, Step
    from tests.simulation.sink import Event

_SUPERSEDED = re.compile(r"(\d+) of them superseded")
_TTL_MS = 8_000
_MOST_TURNS = 1_000
ALL_ROWS = 100
"""More than a table has."""
_MOST_CALLS = 60_000


class Life:
    """One process: a job from its start to its end. Every port of it asks here before it does anything."""

    def __init__(self, world: World, seat: int) -> None:
        world.processes += 1
        self.world, self.seat, self.number = world, seat, world.processes
        self.dead = False
        self.epoch = 0
        self.source: Any = None
        self.sink: Any = None
        self.watch: Any = None
        self.log: Any = None
        self.sessions: list[Any] = []
        self.leases: Leases | None = None
        self.tally = Tally()
        self.renewed_ms = self.unrenewed_ms = 0
        self.renewing = False
        self.ports: list[str] = []

    def step(self, port: str) -> None:
        """A call of a port begins."""
        if self.renewing:
            return
        if self.dead:
            raise Killed
        self.world.step(self, port)
        if self.dead:
            raise Killed

    def fault(self, port: str) -> str:
        """How this call fails, if it does."""
        return self.world.fault(port)

    # The job's parts.

    def run(self) -> None:
        """Stand by for the lease, then run the job."""
        world = self.world
        claim = Claim(
            f"job {self.seat}", _TTL_MS, id=f"process {self.number}", process=Process("host", self.number)
        )
        storage = MemoryStorage(world.directory, self)
        # A renewal is no step, so it need not list the directory.
        lease = FileLease(storage, claim, epoch_in=newest_epoch, now_s=world.clock, crowded=True)
        self.leases = Leases(claim, [lease], nothing_beside, world.clock)
        if not self.leases.take(self.sleep):
            return
        self.epoch = lease.epoch
        self.source = world.source_of(self)
        self.sink = world.sink_of(self)
        desk = Desk(world.hear, monotonic=world.clock)
        parts = JobParts(
            source=self.source,
            sink=self.sink,
            store=FileStateStore(storage, lease.epoch, forced=not world.setup.knows),
            executors=Executors(self),
            desk=desk,
            pulse=Heartbeat(0.0, _no_event, _nothing),
            now=world.now,
            clock=world.clock,
            sleep=self.sleep,
            new_id=world.new_id,
            tasks=lambda: world.setup.tasks,
            local_rows=1,
            marks=frozenset(),
            lease=self.leases,
            tally=self.tally,
            verification=world.verification_of(self),
            topic=world.topic,
        )
        world.note(f"process {self.number} begins (epoch {lease.epoch})")
        job = Job(parts, world.pace, world.observe)
        job.run(lambda: world.turn_begins(self, job))
        self.leases.release()

    def sleep(self, seconds: float) -> bool:
        """Let time pass; returns whether the job is to stop."""
        self.step("sleep")
        self.world.pass_time(seconds)
        return self.world.over

    def may_have_lost(self) -> bool:
        """Whether a newer job took the lease, or could have because this one stood still.

        A lease counts from before it was taken, which takes a while.
        """
        world = self.world
        unrenewed_ms = max(self.unrenewed_ms, world.time_ms - self.renewed_ms)
        return world.directory.newest_lease != self.epoch or unrenewed_ms > _TTL_MS // 2

    def forget(self) -> None:
        """Whoever wants the lease next sees that this process has ended, as on the same machine."""
        if self.leases is not None:
            self.renewing = True
            self.leases.release()

    def renew(self) -> None:
        """The lease's thread, were it one."""
        if self.leases is not None and self.world.time_ms - self.renewed_ms >= _TTL_MS // 4:
            if self.renewed_ms:
                self.unrenewed_ms = max(self.unrenewed_ms, self.world.time_ms - self.renewed_ms)
            self.renewed_ms = self.world.time_ms
            self.renewing = True
            self.leases.renew()
            self.renewing = False


@dataclass
class Executors:
    """Tasks that die, all or after half of them."""

    life: Life

    def map(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Run a task on every item."""
        with fallible(self.life, "executors") as fault:
            some = items[: len(items) // 2] if fault == "torn" else items
            return [task(item) for item in some]


def _no_event(_now_ms: int) -> Any:
    raise NotImplementedError


def _nothing() -> None:
    """No statement is run."""


@dataclass
class Played:
    """What a history came to."""

    happened: Counter[str]
    story: list[tuple[str, str]]
    violation: str = ""
    invariant: str = ""
    """The one that is violated: see `Violation.invariant`."""


class World:
    """Plays one history.

    Its methods `source_of`, `sink_of`, `verification_of`, `_found`, `_begin`, `_hurry`, `excused` and
    `buried`, and those that play single steps, are what the worlds of the sources have their own of.
    """

    names: ClassVar[Mapping[str, CollectionId]] = {"t": T, "u": U, "b": B}
    tables: ClassVar[tuple[CollectionId, ...]] = TABLES
    bag: ClassVar[CollectionId] = B
    begins_ms: ClassVar[int] = 1_000_000
    initial: ClassVar[str] = "initial"

    def __init__(self, history: History, *, story: bool = False) -> None:
        self.setup, self._steps = history.setup, history.steps
        self._at = 0
        self._told: list[tuple[str, str]] | None = [] if story else None
        self.staging = StagingArea(ExecutorBlocks(), EventRows())
        self._ids = count(1)
        self.database: Any = None
        self.oracle: Any = None
        self.poisoned: set[tuple[CollectionId, Any]] = set()
        self._found()
        self.directory = Directory()
        self.sent = Sent(self.setup.knows, self._judge, self._judge_beside)
        self.directory.sent = lambda turn: turn in self.sent.turns
        self.answers = Answers()
        self._tickets: dict[str, set[int]] = {}
        self._noted: Any = None
        judge: Any = self.oracle
        judge.asked_for = self.answers.ask_for
        self.happened: Counter[str] = Counter()
        self.time_ms, self._ahead_ms = self.begins_ms, 0
        self._budget, self._until, self.calls = 0, "", 0
        self._faults: dict[str, list[str]] = {}
        self._straggling = 0
        self._altering: list[CollectionId] = []
        self.draining = self.over = self.given_up = False
        self._drained_turns = 0
        self.processes = 0
        self.pace = Pace(
            chunk_rows=self.setup.chunk_rows,
            window_rows=self.setup.window_rows,
            slice_s=0.0,
            slice_bytes=self.setup.slice_bytes,
            spreads=self.setup.spreads,
            max_lag_s=1e12,
            save_s=2.0,
            window_retries=self.setup.window_retries,
            reread_rounds=4,
            most_reread=self.setup.most_reread,
            backoff_s=0.2,
            longest_backoff_s=0.8,
            retries=None,
            first_retries=40,
            idle_s=0.5,
            waiting_s=0.2,
            held_s=0.2,
            few_entries=-1 if self.setup.long_queue else 50,
        )
        self._lives: dict[int, Life] = {}
        self._seats: dict[int, SimpleQueue[None]] = {}
        self._threads: list[threading.Thread] = []
        self._verdict: Violation | None = None
        self._begin()

    def _found(self) -> None:
        """Make the database and its judge."""
        self.database = Database()
        self.oracle = Oracle(self.database, self.setup.knows)

    def source_of(self, life: Life) -> Any:
        """The source of a job that starts."""
        return SimSource(life)

    def sink_of(self, life: Life) -> SimSink:
        """The sink of a job that starts."""
        return SimSink(self.sent, life, life.epoch, self.setup.beside)

    def topic(self, collection: CollectionId) -> str:
        """The topic of a collection's events."""
        return str(collection)

    def verification_of(self, life: Life) -> Verification:  # noqa: ARG002  nothing is compared here
        """The verifications of a job that starts."""
        return Verification()

    def excused(self, error: TidemarkError) -> bool:  # noqa: ARG002  of this world, none is
        """Whether a job may end with this error, and the history with it."""
        return False

    def shown(self, event: Any) -> str:
        """An event in the story."""
        return _shown(event)

    def mended(self, error: TidemarkError) -> bool:  # noqa: ARG002  of this world, none is
        """Whether somebody does what an error asks for and starts the job again."""
        return False

    def buried(self, life: Life) -> None:
        """A process has ended: what it held is released."""

    def _begin(self) -> None:
        database = self.database
        for key in range(self.setup.rows):
            database.begin(9)
            database.change(database.open[9], T, "put", key)
            if key % 2:
                database.change(database.open[9], U, "put", key)
            if key % 3 == 0:
                database.change(database.open[9], B, "put", key)
                database.change(database.open[9], B, "put", key)
            database.commit(9, visible=True)
        if not self.setup.initial:
            self.begun(len(database.log))
        database.acknowledged = database.delivered = len(database.log)

    def begun(self, slot: int) -> None:
        """The log begins."""
        self.database.delivered = max(self.database.delivered, slot)
        self.oracle.begin(slot)
        if self.setup.initial:
            self.answers.asked.clear()  # what was sent before is in no log
            self.answers.ask(self.initial, Asked("initial", self.tables, slot, 1))
        self.oracle.started = True

    # Playing.

    def play(self) -> Played:
        """Play the history to its end."""
        violation = invariant = ""
        try:
            with _silent():
                self._sit(0)
            if self._verdict is not None:
                raise self._verdict
            if not self.given_up:
                self.oracle.end()
        except Violation as found:
            violation, invariant = str(found), found.invariant
            self.note(f"VIOLATION: {violation}", "judge")
        finally:
            self._end_threads()
        self.happened["turns"] += self.oracle.last_turn
        self.happened["READ events"] += self.oracle.reads
        self.happened["turns sent again"] += self.oracle.resent
        self.happened["waits for rows beside turns"] += self.sent.waits
        return Played(self.happened, self._told or [], violation, invariant)

    def _sit(self, seat: int) -> None:
        """Run one process after the other on a seat."""
        while not self.over:
            life = self._lives[seat] = Life(self, seat)
            try:
                life.run()
            except Killed:
                self._pardon()
                if self.processes % 4:
                    life.forget()
            except LeaseLost as error:
                self.note(f"process {life.number} stands by: {error}")
                if not life.may_have_lost():
                    raise Violation(f"a job gives way to nobody: {error}") from error
                self.happened["leases lost"] += 1
                self._pardon()
            except TidemarkError as error:
                self._ended(error)
            except Violation:
                raise
            except Exception as error:
                raise Violation(f"the job broke: {type(error).__name__}: {error}") from error
            life.dead = True
            self.buried(life)
            if self.calls > _MOST_CALLS:
                raise Violation("the history does not end")

    def _ended(self, error: TidemarkError) -> None:
        """A job ended with an error: somebody mends what it says, or the history ends, or it is a fault."""
        if self.mended(error):
            self._pardon()
        elif self.excused(error):
            self.over = self.given_up = True
        else:
            raise Violation(f"the job ended: {type(error).__name__}: {error}") from error

    def _pardon(self) -> None:
        self.oracle.pardons += 1
        self.answers.pardons += 1

    # What processes see.

    def new_id(self) -> str:
        """A window's id, which no other window of this world has."""
        return f"window {next(self._ids)}"

    def now(self) -> float:
        """The wall clock, which may jump."""
        return (self.time_ms + self._ahead_ms) / 1000

    def clock(self) -> float:
        """The clock that never goes back."""
        return self.time_ms / 1000

    def pass_time(self, seconds: float) -> None:
        """Let time pass, in which threads of the running process go on."""
        left_ms = int(seconds * 1000)
        while left_ms > 0:
            some = min(left_ms, _TTL_MS // 4)
            self.time_ms += some
            left_ms -= some
            life = self._lives.get(self._running)
            if life is not None and not life.dead:
                life.renew()

    _running = 0

    def step(self, life: Life, port: str) -> None:
        """A call of a port: time passes, and the script goes on when the budget is used up."""
        self.calls += 1
        self.time_ms += self.setup.call_ms
        life.ports.append(port)
        try:
            self._step(life, port)
        finally:
            life.ports.pop()

    def _step(self, life: Life, port: str) -> None:
        life.renew()
        if life.sink is not None and not life.dead:
            life.sink.go_on()
        if port == self._until:
            self._budget, self._until = 0, ""
        while self._budget <= 0 and not self.draining:
            self._next(life, port)
            if life.dead:
                return
        self._budget -= 1
        self.meanwhile(life)
        if self.calls > _MOST_CALLS:
            raise Violation("the history does not end")

    def meanwhile(self, life: Life) -> None:
        """What runs beside the turns takes a step."""

    def fault(self, port: str) -> str:
        """Take an armed fault."""
        armed = self._faults.get(port)
        if not armed:
            return ""
        how = armed.pop()
        self.happened[f"fault: {port}"] += 1
        self.note(f"{port} fails ({how})", "fault")
        self._pardon()
        return how

    def straggling(self) -> int:
        """How much longer the next window is read."""
        polls, self._straggling = self._straggling, 0
        return polls

    def opened(self, count: int) -> None:
        """A window was opened beside others."""
        self.happened["windows"] += 1
        if count > 1:
            self.happened["overlapping windows"] += 1
        self.note(f"window opens, {count} in progress", "window")

    def superseded(self, found: Iterable[SupersededKeys]) -> None:
        """Entries were streamed beside open windows."""
        found = list(found)
        self.happened["truncates beside windows"] += any(moved.truncated for moved in found)
        if any(moved.keys or moved.truncated or moved.copies for moved in found):
            self.happened["spans that supersede"] += 1

    def unsent(self, logged: Sequence[Entry]) -> frozenset[CollectionId]:  # noqa: ARG002
        """The tables that have lost rows by these entries without an event."""
        return frozenset()

    def hear(self, answer: Answer) -> None:
        """An answer was given."""
        self.happened[f"answered {answer.outcome}"] += 1
        self.note(f"{answer.label} {answer.outcome}: {answer.text}", "answer")
        done = self.answers.hear(answer)
        if found := _SUPERSEDED.search(answer.text):
            self.happened["rows superseded"] += int(found[1])
        if done is not None:
            self.finished(*done, answer.label)

    def finished(self, asked: Asked, collection: CollectionId, label: str) -> None:
        """A signal was answered as finished for a collection."""
        if collection == self.bag and collection in self.answers.failed:
            return
        self.happened["scoped snapshots finished"] += asked.scope is not None
        finished = Finished(asked.at, asked.turn, self.tickets_of(label))
        self.oracle.finished(collection, finished, asked.scope)

    def tickets_of(self, label: str) -> Collection[int]:
        """The entries of the queue that a signal was served by."""
        return self._tickets.get(label, ())

    def observe(self, seen: Any) -> None:
        """A turn was saved."""
        self._note_tickets(seen.state)
        self.note(f"turn {seen.state.turn} saved at {seen.state.position.order[0]}", "turn")

    def _note_tickets(self, state: Any) -> None:
        if state.snapshot is self._noted:
            return
        self._noted = state.snapshot
        for table in state.snapshot.tables:
            for request in table.requests:
                self._tickets.setdefault(request.signal, set()).add(table.ticket)

    def acknowledged(self, at: int) -> None:
        """The database may forget the log before this place: everything there must have been sent."""
        if at > self.oracle.position:
            raise Violation(f"entry {at} was acknowledged, and the stream is at {self.oracle.position}")
        self.database.acknowledged = max(self.database.acknowledged, at)

    def _judge(self, turn: int, epoch: int, events: Sequence[Event]) -> None:
        if self._told is not None:
            for event in events:
                self.note(self.shown(event), "sink")
        if epoch < self.sent.owner:
            raise Violation(
                f"the job of epoch {epoch} wrote turn {turn}, and {self.sent.owner} has taken over"
            )
        before = self.oracle.reads
        self.oracle.turn(turn, events)
        self.happened["turns with READs"] += self.oracle.reads > before

    def _judge_beside(self, epoch: int, event: Read, read: Counter[Key]) -> None:
        if self._told is not None:
            self.note(f"{_shown(event)} beside the turns", "sink")
        if epoch < self.sent.owner:
            raise Violation(f"the job of epoch {epoch} sent a row, and {self.sent.owner} has taken over")
        self.happened["READs beside turns"] += 1
        self.oracle.read_beside(event, read)

    def turn_begins(self, life: Life, job: Job) -> bool:
        """Whether the job is to stop: at the end of the history, once it has come to rest."""
        self.step(life, "turn")
        if life.dead:
            raise Killed
        self._note_tickets(job.state)  # of a turn whose state could not be promoted, too
        self._check_windows(life, job)
        if self.setup.knows and job.state.attempt is not None:
            raise Violation("a turn counts as perhaps sent, and the sink knows what it has")
        return self.rests(job)

    def _check_windows(self, life: Life, job: Job) -> None:
        """Each window that was begun is in progress, emitted or given up, and so it is told."""
        tally, begun = life.tally, life.source.begun
        told, over = len(tally.windows), tally.phases[Phase.EMIT].windows + tally.given_up
        if begun != over + told:
            raise Violation(f"{begun} windows were begun, {over} are over, {told} are told of")
        if job.window is not (tally.windows[-1] if told else None):
            raise Violation(f"the newest window is {job.window}, told is {tally.windows}")

    def rests(self, job: Job) -> bool:
        """Whether the history is over; it must be so within a bounded number of turns."""
        if not self.draining:
            return False
        self._alter_now()
        state = job.state
        self._drained_turns += 1
        self.happened["turns in the end"] += 1
        if self.at_rest(job):
            self.over = True
            return True
        if self._drained_turns > _MOST_TURNS:
            waiting = ", ".join(self.answers.waiting()) or "nothing"
            at = state.position.order[0] if state.position else -1
            raise Violation(
                f"not at rest after {_MOST_TURNS} turns without a fault: stream at {at} of"
                f" {len(self.database.log)}, {len(state.snapshot.tables)} tables queued,"
                f" waiting for {waiting}"
            )
        return False

    def at_rest(self, job: Job) -> bool:
        """Whether everything was sent and answered."""
        state = job.state
        at = state.position.order[0] if state.position else -1
        return at == len(self.database.log) and not state.snapshot.tables and not self.answers.waiting()

    # The script.

    def _next(self, life: Life, port: str) -> None:
        """Take the next step of the script, or end it."""
        if self._at >= len(self._steps):
            self._drain(life)
            return
        step = self._steps[self._at]
        self._at += 1
        verb = step[0]
        if verb == "go":
            self._until, self._budget = "", step[1]
            return
        if verb == "until":
            self._until, self._budget = step[1:]
            return
        self.happened["steps"] += 1
        getattr(self, "_" + verb.replace("-", "_"))(life, *step[1:])
        if self._told is not None and verb not in _SILENT:
            self.note(f"{_words(step)} (before {port})", "script")
        if not self.setup.late:
            self.database.delivered = len(self.database.log)
        if self._altering:
            self._alter_now()

    def _drain(self, life: Life) -> None:
        """The script is over: faults end, and everything is delivered and visible."""
        self.draining, database = True, self.database
        self.note("the script is over: no more faults", "script")
        self._hurry()
        self._faults.clear()
        for slot in sorted(database.open):
            database.abort(slot)
        for transaction in list(database.hidden):
            database.show(transaction)
        # A row that can't be read is no fault that ends: its table must be answered as failed.
        database.delivered = len(database.log)
        for other in self._lives.values():
            if other is not life:
                other.dead = True

    def _hurry(self) -> None:
        """Let the rest be read by few windows and spans: nothing interleaves with them any more."""
        self.setup = self.setup.hurried()
        for name in ("chunk_rows", "window_rows"):
            object.__setattr__(self.pace, name, ALL_ROWS)

    def _tx(self, _life: Life, *rest: Any) -> None:
        *changes, visible = rest
        database = self.database
        transaction = database.begin(8)
        for table, what, *where in changes:
            database.change(transaction, self.names[table], what, *where)
        if database.commit(8, visible=bool(visible)):
            self.happened["transactions"] += 1

    def _hit(self, life: Life, newest: int, what: str, index: int, other: int, visible: int) -> None:
        """Change a row that a window in progress reads; any row of `t` if there is no window."""
        source = life.source
        windows = source.windows if source else []
        if source is None or not windows:
            self._tx(life, ("t", what, index, other), visible)
            return
        collection, keys = source.reads(windows[-1 if newest else 0])
        if not keys:
            return
        key = keys[index % len(keys)]
        number = int(key[1:]) if isinstance(key, str) else key
        if collection != B and what in {"move", "slip"} and other % 3 == 0:
            # Within the window, or just behind it.
            other = number + 1
        self._tx(life, (collection.parts[1], what, number, other), visible)
        self.happened["rows hit in a window"] += 1

    def _change(self, _life: Life, slot: int, *changes: Step) -> None:
        transaction = self.database.begin(slot)
        for table, what, *where in changes:
            self.database.change(transaction, self.names[table], what, *where)

    def _commit(self, _life: Life, slot: int, visible: int) -> None:
        if self.database.commit(slot, visible=bool(visible)):
            self.happened["transactions"] += 1
            self.happened["transactions that took long"] += 1

    def _abort(self, _life: Life, slot: int) -> None:
        self.database.abort(slot)

    def _settle(self, _life: Life, index: int) -> None:
        hidden = self.database.hidden
        for transaction in hidden[index : index + 1]:
            self.database.show(transaction)
            self.happened["shown late"] += 1

    def _deliver(self, _life: Life, count: int) -> None:
        database = self.database
        left = len(database.log) - database.delivered
        database.delivered += left if count == 0 else min(count, left)

    def _execute(self, _life: Life, mask: int, type_: str = "incremental") -> None:
        chosen = tuple(table for bit, table in enumerate(self.tables) if mask >> bit & 1)
        fields = {"type": type_, "data-collections": [str(collection) for collection in chosen]}
        self._signal("execute", chosen, f"s{self._at}|execute-snapshot|{orjson.dumps(fields).decode()}")

    def _execute_some(self, _life: Life, table: str, form: int, *rest: int) -> None:
        """Ask for some rows of a table, with a priority and perhaps a limit."""
        first, second, third, priority, rows_per_s = rest
        collection = self.names[table]
        fields: dict[str, Any] = {"data-collections": [f"public.{table}"], "priority": priority}
        if rows_per_s:
            fields["max-rows-per-second"] = rows_per_s
        if table == "b":
            fields["keys"] = [[f"r{key % 4}"] for key in (first, second)]
        elif form == 0:
            fields["keys"] = [[key] for key in (first, second, third)]
        else:
            ends = sorted((first, second))
            fields["ranges"] = [{"from": [ends[0]], "to": [ends[1] + 1]}, {"from": [third]}][: form + 1]
            if form == 2:
                fields["ranges"] = [{"to": [third]}]
        data = orjson.dumps(fields).decode()
        scope = scope_of(data, fields)
        self._signal("execute", (collection,), f"s{self._at}|execute-snapshot|{data}", scope)

    def _block(self, life: Life, mask: int) -> None:
        self._execute(life, mask, "blocking")

    def _stop_blocking(self, life: Life, mask: int) -> None:
        self._stop_snapshot(life, mask, "blocking")

    def _stop_snapshot(self, _life: Life, mask: int, type_: str = "incremental") -> None:
        chosen = tuple(table for bit, table in enumerate(self.tables) if mask >> bit & 1)
        fields: dict[str, Any] = {"type": type_}
        if chosen:
            fields["data-collections"] = [str(collection) for collection in chosen]
        self._signal("stop", chosen, f"s{self._at}|stop-snapshot|{orjson.dumps(fields).decode()}")

    def _bad_signal(self, _life: Life, which: int) -> None:
        texts = (
            "|execute-snapshot|{",
            "|execute-snapsht|{}",
            "||",
            '|execute-snapshot|{"data-collections": ["public.none"]}',
        )
        self._signal("bad", (), f"s{self._at}{texts[which]}")

    def _signal(
        self, kind: str, chosen: tuple[CollectionId, ...], text: str, scope: Scope | None = None
    ) -> None:
        at = self.database.signal(text, visible=True)
        hidden = set(self.database.hidden)
        since = next((entry.at for entry in self.database.log if entry.transaction in hidden), at)
        self.answers.ask(str(at), Asked(kind, chosen, min(at, since), self.oracle.last_turn, scope))
        self.happened[f"signal: {kind}"] += 1

    def _crash(self, life: Life) -> None:
        self.happened["crashes"] += 1
        life.dead = True
        if self.happened["crashes"] % 2 and len(self._seats) < 2:
            self.happened["names lost with the power"] += self.directory.lose_power()

    def _fault(self, _life: Life, port: str, how: str, times: int) -> None:
        self._faults.setdefault(port, [])[:] = [how] * times

    def _straggle(self, _life: Life, polls: int) -> None:
        self._straggling = polls

    def _poison(self, _life: Life, table: str, key: int) -> None:
        self.database.poisoned[self.names[table]].add(f"r{key % 4}" if table == "b" else key)
        self.happened["rows that can't be read"] += 1

    def _heal(self, _life: Life) -> None:
        for rows in self.database.poisoned.values():
            rows.clear()

    def _alter(self, _life: Life, table: str) -> None:
        self._altering.append(self.names[table])

    def released(self) -> None:
        """Locks were released: a session that waits for them has its turn before anybody else."""
        if self._altering:
            self._alter_now()

    def _alter_now(self) -> None:
        """Change definitions as soon as no window reads the table; windows are told to give way."""
        readers = [
            window
            for life in self._lives.values()
            if not life.dead and life.source
            for window in life.source.windows
            if window.locks
        ]
        waiting = []
        views = [life.source.view for life in self._lives.values() if not life.dead and life.source]
        for collection in self._altering:
            for view in views:
                if view is not None:
                    view.gives_way |= collection in view.collections
            if any(window.reads(collection) for window in readers):
                waiting.append(collection)
                for window in readers:
                    window.gives_way |= window.reads(collection)
            else:
                self.database.alter(collection)
                self.happened["definitions changed"] += 1
        self._altering = waiting

    def _jump(self, _life: Life, seconds: int) -> None:
        self._ahead_ms += 1000 * seconds
        self.happened["clock jumps"] += 1

    def _freeze(self, _life: Life, seconds: int) -> None:
        self.time_ms += 1000 * seconds
        self.happened["freezes"] += 1

    def _restart(self, life: Life) -> None:
        """A kill that comes between turns as well as within one."""
        self._crash(life)

    # The second job.

    def _rival(self, life: Life) -> None:
        """A second job starts, and the running one falls asleep."""
        if len(self._seats) > 1:
            self._switch(life)
            return
        if self._unfenced(life):
            return
        self.happened["second jobs"] += 1
        self._seats = {0: SimpleQueue(), 1: SimpleQueue()}
        thread = threading.Thread(target=self._second, daemon=True)
        self._threads.append(thread)
        thread.start()
        self._hand_over(life.seat, 1)

    def _second(self) -> None:
        self._seats[1].get()
        try:
            if not self.over:
                self._sit(1)
        except Violation as found:
            self._verdict = found
        finally:
            self.over = True
            for life in self._lives.values():
                life.dead = True
            self._running = 0
            self._seats[0].put(None)

    def _switch(self, life: Life) -> None:
        """The sleeper wakes, and the other one falls asleep."""
        if len(self._seats) > 1 and not self._unfenced(life):
            self.happened["sleepers woken"] += 1
            self._hand_over(life.seat, 1 - life.seat)

    def _unfenced(self, life: Life) -> bool:
        """Whether nothing could keep the running process from writing when it wakes.

        A sink that does not fence can't help a process that sleeps between its last look at the lease and
        the write itself. Anywhere else the look at the lease must do.
        """
        return not self.setup.knows and "commit" in life.ports

    def _hand_over(self, mine: int, other: int) -> None:
        self._running = other
        self._pardon()
        self.note(f"job {mine} sleeps, job {other} runs", "script")
        self._seats[other].put(None)
        self._seats[mine].get()
        self._running = mine

    def _end_threads(self) -> None:
        self.over = True
        for life in self._lives.values():
            life.dead = True
        for thread in self._threads:
            self._seats[1].put(None)
            thread.join()

    # The story.

    def note(self, text: str, column: str = "job") -> None:
        """Note a line of the story, if one is told."""
        if self._told is not None:
            self._told.append((column, text))


_SILENT = {"rival", "switch"}


@contextmanager
def _silent() -> Iterator[None]:
    """Log nothing meanwhile: a history fails in too many ways to tell of each."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


class _Nothing:
    """Nothing runs beside the turns: the world takes the steps itself."""

    def join(self, timeout: float | None = None) -> None:
        """Return at once."""


def nothing_beside(run: Callable[[], None], name: str) -> _Nothing:  # noqa: ARG001  nothing runs
    return _Nothing()


def _words(step: Step) -> str:
    return " ".join(str(part) for part in step)


def _shown(event: Event) -> str:
    if isinstance(event, Read):
        return f"READ {event.collection.parts[-1]} {event.key} = {event.value} (as of {event.at})"
    if event.collection == SIGNALS:
        return f"{event.at} signal"
    return f"{event.at} {event.op} {event.collection.parts[-1]} {event.old}→{event.key} {event.value}"
