"""The tail of one database's log: plans and reads new spans through one connection.

Owns the capture instances as known while the log is read, and the messages when there is no greatest LSN.
Used by the log's thread alone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from adapters.sqlserver.log.capture_instances import (
    Instances,
    check_dropped,
    check_kept,
    check_reach,
    gone,
)
from adapters.sqlserver.log.reader import LogSlice
from adapters.sqlserver.log.span_planner import Bounds, plan_span, shares
from adapters.sqlserver.server.forks import check_same_fork
from engine.errors import TableBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from adapters.sqlserver.log.capture_instances import Mark
    from adapters.sqlserver.log.span_planner import PlannedSpan
    from adapters.sqlserver.log.span_reader import ChangeReader, ReadSpan
    from adapters.sqlserver.server.forks import Fork
    from adapters.sqlserver.server.position import LogPosition
    from adapters.sqlserver.server.questions import Questions
    from engine.clock import Clock
    from engine.model import CollectionId

_log = logging.getLogger("adapters")
_CLOCK_S = 10.0
_BUSY_TOLD_AFTER_S = 10.0
NOTHING_KNOWN = Instances()
NOT_RUNNING = "No maximum LSN in the database; SQL Server Agent is not running"
_NOTHING_YET = (
    "no maximum LSN in database %r: nothing has been captured yet, or everything captured was cleaned up"
)
_UNKNOWN = (
    "no maximum LSN in database %r: nothing has been captured yet, or SQL Server Agent is down; whether it"
    " runs can't be asked (VIEW SERVER STATE, database.sqlserver.agent.status.query)"
)


@dataclass(frozen=True, slots=True)
class LogBounds:
    """How much of the log is read at once. Up to `local_rows` are read through the metadata connection."""

    span_rows: int = 200_000
    span_bytes: int = 64 << 20
    local_rows: int = 2_000
    part_rows: int = 25_000
    parts: int = 4

    def shared(self, share: float) -> LogBounds:
        """The bounds for spans that may use a share of them."""
        rows, size = max(1, int(self.span_rows * share)), max(1, int(self.span_bytes * share))
        return replace(self, span_rows=rows, span_bytes=size)

    def of(self, row_bytes: float) -> Bounds:
        """The bounds in rows, for rows of this size."""
        rows = max(1, min(self.span_rows, int(self.span_bytes / row_bytes)))
        return Bounds(rows, min(self.local_rows, rows), max(1, min(self.part_rows, rows)), self.parts)


@dataclass(frozen=True, slots=True)
class LogContext:
    """The time, how much is read at once, and how to ask the server whether SQL Server Agent runs.

    `gone` are the capture instances already reported as dropped, also by earlier tails: a session that fails
    before it saves anything must not make the next one report them again. `unnumbered` are the instances
    already reported as lacking command ids. `never` are the tables that may lack no change. `captures` says
    which tables' changes are streamed. `fork` is the recovery fork that the log was opened on; None if the
    server does not tell.
    """

    clock: Clock
    bounds: LogBounds = LogBounds()
    agent_query: str = ""
    gone: set[tuple[str, int]] = field(default_factory=set)
    unnumbered: set[tuple[str, int]] = field(default_factory=set)
    never: Collection[CollectionId] = ()
    captures: Callable[[CollectionId], bool] = lambda _table: True
    fork: Fork | None = None


class DatabaseLogReader:
    """Reads one database's spans; see `reader.DatabaseLog`.

    `ask` opens a connection with a short lock timeout; it raises SourceError. `instances` are those that the
    source knows, `known` those of the saved state, if any.
    """

    def __init__(
        self,
        database: str,
        ask: Callable[[], Questions],
        reader: ChangeReader,
        asking: LogContext,
        instances: Instances = NOTHING_KNOWN,
        known: Sequence[Mark] = (),
    ) -> None:
        self._database, self._ask = database, ask
        self._reader, self._asking = reader, asking
        self._instances, self._known = instances, tuple(known) or instances.marks
        self._minutes, self._ahead_s, self._asked_s = 0, 0.0, float("-inf")
        self._questions: Questions | None = None
        self._silent = ""
        self._changed = False
        self._reach = instances.marks
        self._gaps: dict[CollectionId, str] = {}
        self._busy_since_s: float | None = None
        self._busy_told = False
        self._share = 1.0

    def next(self, after: LogPosition) -> LogSlice | None:
        """The next span after a position; None if there is none, or if a lock that the read needs is held."""
        try:
            taken = self._next(after)
        except TableBusy as error:
            self._note_busy(error, self._asking.clock.monotonic())
            return None
        self._busy_since_s, self._busy_told = None, False
        return taken

    def _note_busy(self, error: TableBusy, now_s: float) -> None:
        """Log once that the log waits for a lock, if it has waited for long."""
        if self._busy_since_s is None:
            self._busy_since_s = now_s
        if not self._busy_told and now_s - self._busy_since_s > _BUSY_TOLD_AFTER_S:
            self._busy_told = True
            _log.warning("the log of database %s waits for a lock: %s", self._database, error)

    def _next(self, after: LogPosition) -> LogSlice | None:
        questions = self._asking_now()
        polled_s = self._asking.clock.monotonic()
        # In this order: an instance made in between has no changes up to that LSN.
        upto = self._greatest(questions)
        if upto is None:
            return None
        # A change of the instances stays pending until a span reports it: the read may have to wait for a
        # lock.
        self._changed = self._look(questions, after, moved=upto > after) or self._changed
        if after >= upto and not self._changed and not self._gaps:
            if after > upto:
                check_same_fork(questions, self._asking.fork)
            return None
        planned = self._planned(questions, after, max(after, upto))
        read = self._reader.read(questions.changes, planned, self._instances.tables)
        self._check_kept(questions, after, planned)
        self._note_unnumbered(read)
        if read.rows:
            read = replace(read, clock_minutes=self._clock_minutes(questions))
        # The driver may have connected again by itself, to another server.
        check_same_fork(questions, self._asking.fork)
        behind = planned.end < upto and read.committed is not None
        told_s = self._ahead_s + polled_s
        if behind:
            told_s = unix_s(read.committed or "", read.clock_minutes)
        changed, self._changed = self._changed, False
        gaps, self._gaps = self._gaps, {}
        return LogSlice(planned.end, read, self._instances, told_s, changed, gaps, self._ahead_s)

    def limit(self, share: float) -> None:
        """Limit each read to this share of the bounds."""
        self._share = share

    def close(self) -> None:
        """Close the connection."""
        if self._questions is not None:
            self._questions.close()
            self._questions = None

    def _asking_now(self) -> Questions:
        if self._questions is None:
            questions = self._questions = self._ask()
            check_same_fork(questions, self._asking.fork)
        return self._questions

    def _planned(self, questions: Questions, after: LogPosition, upto: LogPosition) -> PlannedSpan:
        bounds = self._asking.bounds.shared(self._share).of(self._reader.row_bytes)
        return plan_span(self._instances.captures, after, upto, bounds, questions.changes)

    def _greatest(self, questions: Questions) -> LogPosition | None:
        found = questions.changes.greatest()
        if found is None:
            self._say_why(questions)
            return None
        self._silent = ""
        return found

    def _say_why(self, questions: Questions) -> None:
        """Log once why there is no greatest LSN."""
        running = self._agent_runs(questions)
        said = _UNKNOWN if running is None else _NOTHING_YET if running else NOT_RUNNING
        if said != self._silent:
            self._silent = said
            _log.error(said) if said == NOT_RUNNING else _log.warning(said, self._database)

    def _agent_runs(self, questions: Questions) -> bool | None:
        """Whether SQL Server Agent runs; None where this login may not see it, or there is no Agent."""
        if not self._asking.agent_query:
            return True
        if self._silent == _UNKNOWN:
            return None
        return questions.changes.agent_runs(self._asking.agent_query)

    def _look(self, questions: Questions, after: LogPosition, *, moved: bool) -> bool:
        """Read the instances again; whether any was made, dropped or changed."""
        captures = questions.catalog.captures(self._asking.captures)
        self._gaps |= check_reach(self._reach, captures, after, self._asking.never)
        self._gaps |= check_dropped(self._instances.begins, captures, after, self._asking.never)
        # A column may be altered or dropped under an instance. Rows captured after that have NULL in a column
        # that was NOT NULL, so the known columns must not be older than the rows.
        if captures == self._instances.captures and not moved:
            return False
        tables = questions.catalog.tables(captures)
        self._note_gone(gone(self._known, captures))
        found = Instances(
            captures, {capture.name: table for capture, table in zip(captures, tables, strict=True)}
        )
        changed = found != self._instances
        self._instances, self._known, self._reach = found, found.marks, found.marks
        return changed

    def _check_kept(self, questions: Questions, after: LogPosition, planned: PlannedSpan) -> None:
        """Note tables whose change rows the clean-up job may have removed since they were looked for.

        A span may begin at the first commit that was found: those before it may have been removed already.
        """
        asked = shares(self._instances.captures, after, planned.end)
        if not asked:
            return
        self._gaps |= check_kept(asked, questions.changes.least(), self._asking.never)

    def _note_unnumbered(self, read: ReadSpan) -> None:
        """Log once per instance that its changes have no reliable order inside a transaction."""
        for index in sorted(read.unnumbered):
            capture = self._instances.captures[index]
            if (capture.name, capture.object_id) not in self._asking.unnumbered:
                self._asking.unnumbered.add((capture.name, capture.object_id))
                _log.warning(
                    "capture instance %s of database %s has changes without __$command_id: inside a"
                    " transaction they are told in the order of __$seqval, which an update of keys does not"
                    " follow; recreate the instance on a server that is up to date",
                    *(capture.name, self._database),
                )

    def _note_gone(self, instances: Sequence[tuple[str, int]]) -> None:
        """Log once per instance that it is gone."""
        for name, _object_id in (instance for instance in instances if instance not in self._asking.gone):
            _log.warning(
                "capture instance %s of database %s is gone; its changes that were not read yet are lost",
                *(name, self._database),
            )
        self._asking.gone.update(instances)

    def _clock_minutes(self, questions: Questions) -> int:
        """How many minutes the server's clock is ahead of UTC. Daylight saving time may change it.

        Also records how far that clock is ahead of ours.
        """
        if self._asking.clock.monotonic() - self._asked_s > _CLOCK_S:
            clock = questions.changes.clock()
            self._minutes, self._asked_s = clock.minutes, self._asking.clock.monotonic()
            self._ahead_s = unix_s(clock.now, self._minutes) - self._asked_s
        return self._minutes


def unix_s(committed: str, minutes: int) -> float:
    """Unix seconds of a text `yyyy-mm-dd hh:mm:ss[.nnn]` from a clock that is `minutes` ahead of UTC."""
    zone = timezone(timedelta(minutes=minutes))
    return datetime.fromisoformat(committed).replace(tzinfo=zone).timestamp()
