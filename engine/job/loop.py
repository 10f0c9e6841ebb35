"""The job: one turn after another, from the log to the sink. The only place that retries.

A turn takes a span of the log and writes its events to the sink. If a window's rows are read and the stream
has passed its watermark, the turn also writes the surviving READ events. The steps of turn n, and what the
next start (`settle`) does if the process dies after a step:

                                            saved states     crash after it: the next start …
    take, encode, obey signals, emit        n-1              repeats the turn; nobody saw its events
    save state n as pending                 n-1, n pending   asks the sink `applied(n)`: no; repeats the turn
    commit turn n in the sink               n-1, n pending   asks the sink `applied(n)`: yes; promotes n
    promote state n                         n                resumes after turn n
    acknowledge the log up to n             n                resumes after turn n
    open the next window                    n                resumes after turn n; the window is read again

Why no stop loses anything: the state moves only with the sink, because a pending state counts exactly if the
sink has committed its turn. The log is acknowledged last, so the database keeps every entry after the
newest promoted state. A sink that can't know after a restart whether it has committed answers no. The turn is
then sent again: at-least-once, where a sink that knows gives exactly-once. A repeated turn may end at another
position of the log than the first attempt.

The loop also turns when the log is silent, so a finished window never waits for traffic. This module knows
neither Spark nor a database nor a clock: they come in through the ports.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from engine.errors import (
    ExecutorsFailed,
    Loss,
    OtherServer,
    PositionLost,
    SinkError,
    SinkRefused,
    SourceError,
    StateError,
    StateNotSaved,
    TidemarkError,
    TopicsRefused,
)
from engine.isolation.incomplete import noted
from engine.job import recovery
from engine.job.circling import Circling
from engine.job.isolation import Isolation
from engine.job.new_collections import welcomed
from engine.job.outage import Outage
from engine.job.reports.observation import Observation
from engine.job.reports.progress_log import goes_on
from engine.job.saved import state_document as saved
from engine.job.saved.recovery import awaits_log
from engine.job.saved.state import State
from engine.job.snapshots.dry_runs import DryRuns
from engine.job.snapshots.queue_limits import refused
from engine.job.snapshots.window_scheduler import with_moved
from engine.job.snapshots.windows import Windows
from engine.job.turn_size import TurnSize
from engine.model import ExecuteSnapshot, LogMessage, PauseSnapshot, ResumeSnapshot, StopSnapshot
from engine.ports.source import Encoded
from engine.snapshot.groups import spread
from engine.snapshot.queue_entry import asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.isolation.incomplete import Incomplete
    from engine.job.parts import JobParts, Pace
    from engine.model import Appeared, CollectionId, Command, Part, Window
    from engine.ports.log import LogReader, Span
    from engine.ports.sink import PartWriter
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table

_log = logging.getLogger("engine")
_RELEASING_S = 2.0


class Job:
    """The loop of one source. Call `run`, or drive it by hand with `start` and `turn`."""

    def __init__(
        self, job_parts: JobParts, pace: Pace, observe: Callable[[Observation], None] = lambda _seen: None
    ) -> None:
        self._parts, self._pace, self._observe = job_parts, pace, observe
        self._windows = Windows(job_parts, pace)
        self._isolation = Isolation(job_parts, pace, self._windows)
        self.state: State = State()
        self._log: LogReader | None = None
        self._lag_s = 0.0
        self._saved = self.state
        self._saved_s = 0.0
        self._failures = 0
        self._circling, self._outage = Circling(), Outage()
        self._opened_s = 0.0
        self._was_open = False
        self._size = TurnSize()
        self._settled = False
        self._lost: PositionLost | None = None
        self._dry_runs = DryRuns(job_parts, pace, self._windows)

    @property
    def window(self) -> Window | None:
        """The window opened last, if any is in progress."""
        return self._windows.window

    def run(self, stopping: Callable[[], bool]) -> None:
        """Turn until `stopping`. After a failure that may pass, reopen the log, with growing pauses."""
        try:
            while not self._run_session(stopping):
                pass
        finally:
            self.close()
        _log.info("stopped after turn %d at %s", self._saved.turn, self._shown_position(self._saved))
        self._say_goes_on(" with the next start")

    def _shown_position(self, state: State) -> str:
        return self._parts.show(state.position) if state.position else "no position"

    def _say_goes_on(self, when: str) -> None:
        if line := goes_on(self._saved.snapshot.tables):
            _log.info("%s%s", line, when)

    def _run_session(self, stopping: Callable[[], bool]) -> bool:
        """Turn until `stopping` or until all is done. Returns False after a failure that may pass."""
        try:
            with self._undisturbed():
                self._turn_until(stopping)
        except TopicsRefused as refused:
            self._parts.tally.failed(refused)
            self._isolation.refused(refused)
            self.close()
            self._settled = False
            return False
        except SinkRefused:
            raise
        except PositionLost as lost:
            if not self._recovers(lost):
                raise
            # The next start saves the loss, and begins a new log.
            self._failures += 1
            self._parts.tally.failed(lost, ends=True)
            self.close()
            self._settled, self._lost = False, lost
            return False
        except (SourceError, SinkError, StateNotSaved) as error:
            if isinstance(error, ExecutorsFailed) and self._circling.noted(self._saved):
                raise
            self._failures += 1
            self._parts.tally.failed(error, ends=True)
            if isinstance(error, SinkError):
                self._size = self._size.failed()
            self.close()
            self._settled = False
            unopened = isinstance(error, SourceError) and not self._was_open
            most = self._pace.first_retries if unopened else self._pace.retries
            if most is not None and self._failures > most:
                raise
            pause_s = self._pace.pause_s(self._failures, was_open=self._was_open)
            self._outage.goes_on(error, pause_s, self._parts.clock())
            self._parts.sleep(pause_s)
            return False
        return True

    def _turn_until(self, stopping: Callable[[], bool]) -> None:
        if not self._settled:
            self.settle()
            if not self._failures:
                self._say_goes_on("")
        if not stopping():
            self.start()
        while not stopping() and not self._parts.done(self._saved):
            position = self.state.position
            further = self.turn() or self.state.position != position or self._has_held()
            if further and self._failures:
                self._failures = 0
                self._outage.is_over(self._parts.clock())

    def _has_held(self) -> bool:
        """Whether the session has lasted longer than any pause: silence proves little before."""
        return self._parts.clock() - self._opened_s > self._pace.longest_backoff_s

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Turn a failure into LeaseLost if another job has taken over: it removes files and ends sessions."""
        try:
            yield
        except TidemarkError:
            self._parts.lease.confirm()
            raise

    def settle(self) -> None:
        """Load the newest state. A pending state is promoted if the sink has committed its turn."""
        job_parts = self._parts
        job_parts.lease.check()
        states = job_parts.store.load()
        if states.pending is not None:
            turn = states.pending.turn
            if job_parts.sink.applied(turn):
                job_parts.store.promote(turn)
            else:
                job_parts.store.discard(turn)
            states = job_parts.store.load()
        state = State()
        if states.promoted is not None:
            state = saved.from_json(states.promoted.document, job_parts.store.load_beside)
        self.state = self._saved = self._at_destination(self._not_behind(state))
        self._settled = True
        job_parts.sink.resume(self.state.sink)
        job_parts.desk.resume(self.state.channels, self.state.turn)
        job_parts.notices.resume(self.state.snapshot)
        if job_parts.certificates is not None:
            self.state = self._saved = job_parts.certificates.kept(self.state)
        self.state = self._parts.verification.restarted(self.state)
        self.state = self._isolation.resume(self.state)
        self.state = self._without_excluded(self.state)

    def _without_excluded(self, state: State) -> State:
        """The state without queued collections that the settings now exclude."""
        tables = state.snapshot.tables
        excluded = [table for table in tables if self._parts.excluded(table.target.collection)]
        for table in excluded:
            self._parts.desk.stopped(table, "the settings leave the table out now")
            self._parts.notices.excluded(table)
        collections = {table.target.collection for table in excluded}
        return replace(state, snapshot=state.snapshot.without(excluded).forgot(collections))

    def _not_behind(self, state: State) -> State:
        """The state, if it is not behind the sink.

        Raises SinkRefused if the sink holds newer turns, since this job's turns would mix with them. With
        `Pace.repeats_behind_sink` the state takes the sink's turn number instead. With `Pace.recovers` it
        does so, too, and the log counts as lost, since nobody knows where those turns ended.
        """
        newest = self._parts.sink.newest()
        if newest is None or newest <= state.turn:
            return state
        if self._pace.repeats_behind_sink:
            _log.warning(
                "the sink holds turns up to %d, the checkpoint knows %d: going on behind them;"
                " what was sent since is sent again",
                newest,
                state.turn,
            )
            return replace(state, turn=newest)
        knows = f"ends at turn {state.turn}" if state.turn else "is empty"
        said = f"the sink holds turns up to {newest}, and the checkpoint {knows}"
        if self._pace.recovers:
            loss = Loss.CHECKPOINT_OLD if state.turn else Loss.CHECKPOINT_LOST
            self._lost = PositionLost(said, place="checkpoint", loss=loss)
            return replace(state, turn=newest)
        raise SinkRefused(
            said,
            place="checkpoint",
            hint="use the checkpoint that this sink belongs to, or an empty sink; or set"
            " tidemark.sink.ahead=repeat for one start, which goes on behind those turns and sends"
            " what came since the checkpoint again",
        )

    def _at_destination(self, state: State) -> State:
        """The state with its events' destination. Raises StateError if earlier events went elsewhere."""
        now = dict(self._parts.destination())
        moved = [
            f"{name} {then!r}, now {now[name]!r}"
            for name, then in state.destination.items()
            if now.get(name, then) != then
        ]
        if moved and self._pace.moves:
            _log.warning("what was sent before is not there, and is not sent again: %s", ", ".join(moved))
            state = self._isolation.moved(state)
        elif moved:
            raise StateError(
                f"the saved state belongs to events that went elsewhere: {', '.join(moved)}",
                hint="set it back; or use an empty checkpoint, which takes a new snapshot; or, where what was"
                " sent has been copied, set tidemark.destination=moved for one start",
            )
        return replace(state, destination=now)

    def start(self) -> None:
        """Open the log at the state's position; if it is lost, a new one, where the settings allow it."""
        if self._log is None:
            if self._lost is not None:
                self._save_lost(self._lost)
            before = self.state.snapshot
            try:
                self.state, self._log = self._parts.source.open_log(self.state)
            except (PositionLost, OtherServer) as error:
                lost = recovery.loss_of(error)
                if not self._recovers(lost):
                    raise
                self._save_lost(lost)
                before = self.state.snapshot
                self.state, self._log = self._parts.source.open_log(self.state)
            if awaits_log(self.state):
                self.state = recovery.begun(self.state, self._parts)
            self._keep_beginning()
            self._parts.notices.opened(before, self.state.snapshot)
            self._saved_s = self._opened_s = self._parts.clock()
            self._was_open = True
            tally = self._parts.tally
            tally.opened(self._log, self._parts.source.tables().captured() if tally.watched else ())
            if self._size.share < 1:
                self._log.limit(self._size.share)

    def _keep_beginning(self) -> None:
        """Save where a new log begins, before anything of it is sent.

        A sink may have taken the first turn, or part of it, and not say so. Without this state the next start
        would begin at what is then the end of the log, and consumers would lack what came in between. Where
        all rows are read first, the next start reads them again.
        """
        job_parts, state = self._parts, self.state
        if self._saved.position is not None or state.position is None or state.snapshot.initial:
            return
        job_parts.lease.check()
        job_parts.store.save_pending(state.turn, saved.to_json(state, self._pace.state_version))
        job_parts.lease.check()
        job_parts.store.promote(state.turn)
        self._saved = state

    def _recovers(self, lost: PositionLost) -> bool:
        """Whether a new log is to begin. Not before there was one, and not if that is just what fails."""
        known = self._saved.turn > 0 and not awaits_log(self._saved)
        return self._pace.recovers and lost.loss is not None and known

    def _save_lost(self, lost: PositionLost) -> None:
        """Save that the log is lost, in a turn of its own."""
        job_parts, since = self._parts, self._shown_position(self.state) if self.state.position else ""
        after = recovery.lost(self.state, lost, since)
        _log.error("%s", after.recovery)
        writer = job_parts.sink.writer(after.turn)
        if after.recovery is not None:
            job_parts.notices.lost(after.recovery)
        after = self._commit(after, job_parts.notices.write(writer, 0))
        self.state = self._saved = after
        self._lost = None
        job_parts.desk.tell(after.turn)
        job_parts.notices.saved()

    def close(self) -> None:
        """Close the windows and the session. The next start resumes from the saved state."""
        self._windows.close()
        self._parts.verification.close()
        self._parts.tally.closed()
        if self._log is not None:
            self._log.close()
            self._log = None

    # One turn.

    def turn(self) -> bool:
        """Take a span, send its events and a finished window's rows. Returns whether there was anything."""
        log = self._session()
        self._parts.tally.passes += 1
        released = self._release(log)
        found = [*self._parts.source.tick(self.state), *self._isolation.found(self.state)]
        appeared = self._parts.appeared()
        span = self._take(log)
        self.state = self._windows.poll(self.state)
        log.hurry(on=self._windows.read)
        sends = bool(span or found or appeared) or self._due() or self._windows.has_rows(self.state)
        if sends:
            self._send(log, span, found, appeared)
        self.state = self._parts.verification.poll(self.state, self._parts)
        self._repair(log)
        self._windows.send_beside(self.state)
        self.state = self._windows.consider(self.state, self._lag_s)
        return sends or released

    def _due(self) -> bool:
        """Whether a turn is due although the log is silent: for what is to be told, a heartbeat or a save."""
        job_parts = self._parts
        if job_parts.desk.pending() or job_parts.notices.waiting:
            return True
        return job_parts.pulse.due(job_parts.clock()) or self._unsaved_for_long()

    def _take(self, log: LogReader) -> Span | None:
        """The next span, or None. If only the position moved, it is noted and saved with the next turn."""
        if self._parts.source.holds_log(self.state):
            self._lag_s = 0.0  # what waits does not lag, and must not keep windows from opening
            self._parts.sleep(self._pace.waiting_s)
            return None
        span = log.take(self._patience_s())
        self._lag_s = max(0.0, self._parts.now() - span.committed_at_s) if span and span.entries else 0.0
        if span is None or not span.silent:
            return span
        self.state = replace(self.state, position=span.end)
        return None

    def _patience_s(self) -> float:
        """How long to wait for a silent log: not at all while rows can be emitted."""
        if self._windows.has_rows(self.state):
            return 0.0
        return self._pace.waiting_s if self.window else self._pace.idle_s

    def _session(self) -> LogReader:
        if self._log is None:
            self.start()
        if self._log is None:
            raise SourceError("the log did not open")
        return self._log

    def _unsaved_for_long(self) -> bool:
        """Whether the queue or the sink changed since the last save, or the state has waited `save_s`."""
        if self.state.snapshot != self._saved.snapshot and not self.window:
            return True
        if self._parts.sink.memory() != self._saved.sink:
            return True
        return self.state is not self._saved and self._parts.clock() - self._saved_s >= self._pace.save_s

    def _send(
        self,
        log: LogReader,
        span: Span | None,
        found: Sequence[Incomplete],
        appeared: Sequence[Appeared],
    ) -> None:
        job_parts, now, clock_s = self._parts, self._parts.now(), self._parts.clock()
        after = self.state.next_turn()
        writer = job_parts.sink.writer(after.turn)
        encoded = self._encode(span, writer, after, found) if span else Encoded()
        job_parts.tally.streamed(span.entries if span else 0, encoded)
        job_parts.notices.told(encoded.notices)
        if encoded.lag_s is not None:
            self._lag_s = encoded.lag_s
        encoded = replace(encoded, incomplete=(*found, *encoded.incomplete))
        after = replace(after, memory=dict(job_parts.source.memory()))
        if span:
            after = replace(after, position=span.end)
        after = self._isolation.note(after, encoded)
        refused = self._isolation.withheld(after)
        after = self._isolation.settle(self._obey(after, encoded))
        appeared = [*appeared, *job_parts.appeared()]
        job_parts.tally.appeared(new.collection for new in appeared)
        after = self._welcomed(after, appeared)
        after = self._note_moved(after, encoded)
        self._windows.supersede(encoded)
        parts = [*encoded.parts]
        if added := job_parts.added():
            parts.append(writer.write(_next_number(parts), added))
            after = replace(after, memory=dict(job_parts.source.memory()))
        events = sum(part.events for part in parts)
        after, emitted, read = self._windows.emit(after, writer, _next_number(parts))
        parts += emitted
        events += read
        if job_parts.pulse.due(clock_s):
            parts.append(job_parts.pulse.beat(writer, _next_number(parts), clock_s, now))
        parts += job_parts.notices.write(writer, _next_number(parts))
        after = self._isolation.withhold(after, parts, refused)
        self._windows.give_way(encoded)
        begun_s = job_parts.clock()
        after = self._commit(after, parts)
        if span:
            self._resize(log, job_parts.clock() - begun_s)
        self._windows.committed()
        self._committed(log, after, events, now, clock_s)

    def _committed(self, log: LogReader, after: State, events: int, now_s: float, clock_s: float) -> None:
        self._isolation.saved(self._saved, after)
        recovery.tell_end(self._saved, after)
        if self._parts.certificates is not None:
            after = self._parts.certificates.kept(after)
        self.state = self._saved = after
        self._saved_s = clock_s
        self._parts.desk.tell(after.turn)
        self._parts.notices.saved()
        if after.position is not None:
            log.acknowledge(after.position)
        seen = Observation(after, events, self._lag_s, now_s, self.window, clock_s)
        self._parts.tally.observed(seen)
        self._observe(seen)

    def _release(self, log: LogReader) -> bool:
        """Offer kept events to the topics that refused them, for 2 s at most. Returns whether any were taken.

        Each piece is a turn of its own. If it is refused, nothing else has to be sent again.
        """
        job_parts, begun_s, taken = self._parts, self._parts.clock(), False
        while job_parts.clock() - begun_s < _RELEASING_S and (
            piece := self._isolation.next_release(self.state)
        ):
            now_s, clock_s = job_parts.now(), job_parts.clock()
            self._windows.wait_for_rows()
            after = self.state.next_turn()
            writer = job_parts.sink.writer(after.turn)
            part = writer.write(0, [piece.events])
            after = replace(
                after, incomplete=piece.taken(after.incomplete), memory=dict(job_parts.source.memory())
            )
            try:
                after = self._commit(after, [part, *job_parts.notices.write(writer, 1)])
            except TopicsRefused as refused:
                job_parts.store.discard(after.turn)
                self._isolation.not_released(piece, refused)
                continue
            self._committed(log, after, part.events, now_s, clock_s)
            self._isolation.released(piece)
            taken = True
        return taken

    def _repair(self, log: LogReader) -> None:
        """Send the deletes that are due, each piece in a turn of its own, which takes no span."""
        job_parts = self._parts
        for deletes in job_parts.verification.due:
            now_s, clock_s = job_parts.now(), job_parts.clock()
            self._windows.wait_for_rows()
            after = self.state.next_turn()
            writer = job_parts.sink.writer(after.turn)
            part = writer.write(0, [deletes.events])
            after = replace(after, memory=dict(job_parts.source.memory()))
            after = self._commit(after, [part, *job_parts.notices.write(writer, 1)])
            self._committed(log, after, part.events, now_s, clock_s)
            deletes.sent()

    def _resize(self, log: LogReader, seconds: float) -> None:
        """Take smaller spans while the sink is slow, and larger ones again when it is fast."""
        size = self._size.took(seconds)
        if size != self._size:
            self._size = size
            log.limit(size.share)

    def _commit(self, after: State, parts: Sequence[Part]) -> State:
        """Save the state as pending, commit the turn, promote the state; each only while we hold the lease.

        A job may lose the lease between a check and the step after it. Then the step itself fails, because
        the new holder has taken away the file names that it needs: see `adapters/storage/lease.py`.
        """
        job_parts = self._parts
        job_parts.lease.check()
        after = replace(after, channels=dict(job_parts.desk.memory()), sink=job_parts.sink.memory())
        after = self._with_beside(after)
        job_parts.store.save_pending(after.turn, saved.to_json(after, self._pace.state_version))
        job_parts.lease.check()
        job_parts.sink.commit(after.turn, parts)
        job_parts.lease.check()
        job_parts.store.promote(after.turn)
        return after

    def _with_beside(self, after: State) -> State:
        """The state, with a large part that rarely changes in a document of its own."""
        if self._saved.beside and saved.same_beside(self._saved, after):
            return replace(after, beside=self._saved.beside)
        if not saved.is_long(after):
            return replace(after, beside="")
        beside = self._parts.store.save_beside(after.turn, saved.beside_to_json(after))
        return replace(after, beside=beside)

    def _encode(self, span: Span, writer: PartWriter, state: State, found: Sequence[Incomplete]) -> Encoded:
        hidden = self._isolation.hidden(noted(state.incomplete, found))
        return self._parts.source.encode(span, writer, hidden, state.snapshot.reading)

    def _welcomed(self, state: State, appeared: Sequence[Appeared]) -> State:
        job_parts = self._parts
        return welcomed(state, appeared, job_parts.listener, self._windows.tickets, reads=job_parts.reads_new)

    @staticmethod
    def _note_moved(state: State, encoded: Encoded) -> State:
        return replace(state, snapshot=with_moved(state.snapshot, encoded.moved))

    def _obey(self, state: State, encoded: Encoded) -> State:
        job_parts = self._parts
        queued = state.snapshot.tables
        tables = job_parts.source.tables()
        groups: dict[CollectionId, Sequence[CollectionId]] = {}

        def known() -> Sequence[CollectionId]:
            groups.update(tables.groups())
            return (*tables.captured(), *groups, *(table.target.collection for table in queued))

        self._dry_runs.begin_turn()
        position = partial(self._shown_position, state)
        for command in job_parts.desk.commands(encoded.signals, known, position):
            state = self._apply(state, spread(command, groups))
        return state

    def _apply(self, state: State, command: Command) -> State:
        match command:
            case ExecuteSnapshot():
                return self._execute(state, command)
            case StopSnapshot():
                return self._stop(state, command)
            case PauseSnapshot():
                return self._pause(state, command)
            case ResumeSnapshot():
                return self._resume(state, command)
            case LogMessage():
                return state

    def _execute(self, state: State, command: ExecuteSnapshot) -> State:
        desk = self._parts.desk
        if (refusal := refused(state.snapshot, command, self._pace)) is not None:
            desk.failed(asked(command, command.targets[0]), refusal)
            return state
        verifiable = self._verifiable(state, command)
        if verifiable is None:
            return state
        command = verifiable
        if command.dry_run:
            self._dry_runs.answer(command)
            return state
        snapshot = state.snapshot.execute(command, self._windows.tickets)
        self._parts.notices.queued(command)
        if ahead := snapshot.ahead_of(command):
            desk.queued(command.signal, command.id, len(command.targets), ahead)
        return replace(state, snapshot=snapshot)

    def _verifiable(self, state: State, command: ExecuteSnapshot) -> ExecuteSnapshot | None:
        """The command without collections that can't be verified, which are answered; None: no others."""
        kept = []
        for target in command.targets:
            collection = target.collection
            if target.compared and (
                refusal := self._parts.verification.refusal(state, collection, self._parts)
            ):
                self._parts.desk.failed(asked(command, target), refusal)
            else:
                kept.append(target)
        return replace(command, targets=tuple(kept)) if kept or not command.targets else None

    def _stop(self, state: State, command: StopSnapshot) -> State:
        changed = state.snapshot.stop(command)
        self._parts.notices.stopped(changed[1], named=command.collections is not None)
        return self._requeued(state, changed, self._parts.desk.stopped)

    def _pause(self, state: State, command: PauseSnapshot) -> State:
        changed = state.snapshot.pause(command)
        self._parts.notices.paused(changed[1])
        return self._requeued(state, changed, self._parts.desk.paused)

    def _resume(self, state: State, command: ResumeSnapshot) -> State:
        changed = state.snapshot.resume(command)
        self._parts.notices.resumed(changed[1])
        return self._requeued(state, changed, self._parts.desk.resumed)

    def _requeued(
        self, state: State, changed: tuple[Snapshot, tuple[Table, ...]], answer: Callable[[Table], None]
    ) -> State:
        """The state with a changed queue. Answers for the entries that changed; windows that read one end."""
        snapshot, tables = changed
        for table in tables:
            answer(table)
        self._windows.drop(tables)
        return replace(state, snapshot=snapshot)


def _next_number(parts: Sequence[Part]) -> int:
    return max((part.number for part in parts), default=-1) + 1
