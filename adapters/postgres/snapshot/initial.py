"""The initial snapshot on PostgreSQL: the slot that a start finds or creates, and the tables to read.

`adapters/source/initial.py` has the steps of a start; `slot_snapshot.py` opens the snapshot that is read.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.postgres.log.assembler import Commit
from adapters.postgres.log.forks import check_fork, check_reach
from adapters.postgres.log.slots.slot import Slot, allow_failover, check_slot, drop_slot, find_slot
from adapters.postgres.log.slots.takeover import Takeover
from adapters.postgres.log.stream.subscription import SentBefore
from adapters.postgres.server.position import lsn_of, position_at
from adapters.postgres.server.visibility import format_lsn
from adapters.postgres.settings import GeneratedColumns, PostgresSettings
from adapters.postgres.snapshot.slot_snapshot import LogStart, begin_log, create_slot, hold
from adapters.source.initial import FoundLog
from engine.config.sources.selection import select_for
from engine.errors import ConfigError, PositionLost
from engine.snapshot.initial import to_read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.postgres.log.forks import Fork
    from adapters.postgres.log_session import LogSession
    from adapters.postgres.server.connection import Identity, Server
    from adapters.postgres.server.questions.layouts import Layouts
    from adapters.postgres.server.watches.lock_watch import LockWatch
    from adapters.postgres.snapshot.slot_snapshot import HeldSnapshot
    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.job.saved.state import State
    from engine.model import CollectionId, Position
    from engine.snapshot.initial import Snapshotter

_log = logging.getLogger("adapters")


@dataclass(frozen=True, slots=True)
class SlotTools:
    """What every start works with.

    `watch` makes the snapshot give way to sessions that wait for a table, where the log can make up for it.
    `previous` held the job's lease before, and may still be using the slot. `confirm` raises LeaseLost if
    another job holds the lease by now: the slot may be that job's.
    """

    settings: Settings
    server: Server
    snapshotter: Snapshotter
    clock: Clock
    watch: LockWatch
    previous: str = ""
    confirm: Callable[[], None] = lambda: None

    def statement(self, collection: CollectionId) -> str | None:
        """The SELECT that returns a table's rows; None for all of them."""
        overrides = self.settings.snapshot.select_overrides
        return select_for(overrides, collection) or self.snapshotter.statement(collection)

    @property
    def subscription(self) -> str:
        """The settings that decide what the slot brings; kept with the state."""
        postgres = self.settings.source_as(PostgresSettings)
        return f"{postgres.slot} {postgres.publication} {postgres.stream_params}"


class SlotStart:
    """A start on a server of this identity. `lost` says why the log can't continue, if the log itself told.

    `sent` is what the log must bring again before it continues. `takeover` is a slot that was found without a
    saved state.
    """

    def __init__(self, tools: SlotTools, identity: Identity, lost: PositionLost | None = None) -> None:
        self._tools, self._identity, self._lost = tools, identity, lost
        self._settings, self._server = tools.settings, tools.server
        self._streams = tools.snapshotter.should_stream()
        self._slot: Slot | None = None
        self._may_be_there = True
        self._left: Fork | None = None
        self.sent: SentBefore | None = None
        self.takeover: Takeover | None = None

    def find_log(self, state: State) -> FoundLog:
        """Look for the slot, and for the state's position in this server's history."""
        begins_at, lost = state.memory.get("first", {}).get("begins_at"), self._lost
        if self._streams and lost is None:
            try:
                state = self._with_slot(state)
            except PositionLost as error:
                lost = error
        return FoundLog(
            state,
            begins_at,
            lost,
            kept=self._slot is not None,
            streamed=begins_at is None or state.position is None or state.position > position_at(begins_at),
        )

    def _with_slot(self, state: State) -> State:
        """The state at a position that this server has, once the slot is found."""
        postgres = self._settings.source_as(PostgresSettings)
        slot = find_slot(self._server, postgres.slot, self._tools.clock, self._tools.previous)
        self._may_be_there = slot is not None
        if state.position is not None:
            begun = state.position
            state = self._on_this_timeline(state)
            slot = check_slot(slot, postgres.slot, begun, self._left)
            self.sent = self._sent_before(state, slot)
        if slot is not None and postgres.slot_failover:
            allow_failover(self._server, postgres.slot)
        self._slot = slot
        return state

    def _on_this_timeline(self, state: State) -> State:
        """The state and its attempt, moved back to the fork if the server was promoted.

        Raises PositionLost.
        """
        positions = [self._there(known, known.position) for known in state.perhaps_sent if known.position]
        if self._left is not None:
            _log.warning(
                "the server was promoted at %s: timeline %d goes on from what was sent of timeline %s",
                *(format_lsn(self._left.lsn), self._identity.timeline, state.identity["timeline"]),
            )
        return state.at(*positions)

    def _there(self, state: State, position: Position) -> Position:
        """Its position, moved back to the fork. Raises PositionLost if the server lacks what was sent."""
        identity = self._identity
        lsn, sequence = (int(element) for element in position.order)
        saved = int(state.identity.get("timeline", identity.timeline))
        if saved != identity.timeline:
            commit, loose = _last_commit(state), state.memory.get("last_commit_end") or 0
            # For a transaction that was sent in part, the server must have its commit, too.
            ends = lsn + 1 if sequence else lsn if commit is None else max(commit.end, loose)
            fork = check_fork(saved, identity.timeline, self._server.history(identity.timeline), ends)
            self._left = fork
            if not sequence and lsn > fork.lsn:
                lsn, position = fork.lsn, position_at(fork.lsn)
        check_reach(lsn, identity.lsn or 0)
        return position

    def _sent_before(self, state: State, slot: Slot) -> SentBefore | None:
        """What comes again if the session begins where the slot does, before the saved position.

        It begins there even if nothing was sent from there on: what comes then below the saved position was
        committed by a server that was restored, and is new.
        """
        same = state.memory.get("subscription") == self._tools.subscription
        if not same or state.position is None or slot.confirmed_lsn >= lsn_of(state.position):
            return None
        commit = _last_commit(state)
        again = commit if commit and slot.confirmed_lsn < commit.end else None
        return SentBefore(again, slot.confirmed_lsn)

    def check_again(self, position: Position, session: LogSession) -> None:
        """Check the slot once more, now that this job reads it and nobody else can move it.

        Whoever moved it between the first check and the beginning of the stream would leave a gap that the
        server does not report. Raises PositionLost.
        """
        name = self._settings.source_as(PostgresSettings).slot
        found = session.questions.slots.find(name)
        check_slot(Slot(found.confirmed_lsn) if found else None, name, position, self._left)

    def give_up(self) -> None:
        """Drop the slot of the log before."""
        self._tools.confirm()
        drop_slot(self._server, self._settings.source_as(PostgresSettings).slot)
        self._slot = self.sent = None

    def first_position(self) -> Position:
        """Where the slot that was found begins; if there is none, it is created."""
        if self._slot is None:
            return position_at(create_slot(self._server, self._beginning()))
        self._take_over(self._slot)
        return position_at(self._slot.confirmed_lsn)

    def _take_over(self, slot: Slot) -> None:
        """Continue from a slot of which only the confirmed position is known."""
        name = self._settings.source_as(PostgresSettings).slot
        with self._server.open() as questions:
            ends = questions.transactions.insert_end()
        self.takeover = Takeover(name, slot.confirmed_lsn, ends)
        _log.info("no saved state; reading from slot %s at %s", name, format_lsn(slot.confirmed_lsn))

    def begin(self, state: State) -> HeldSnapshot:
        """Hold the snapshot of a new slot; without a log, a snapshot of its own."""
        self.sent = None
        # Before the old slot is dropped: the settings may be wrong.
        tables = self.collections(state)
        if not self._streams:
            return hold(self._server, tables, self._settings.snapshot.lock_timeout_ms, self._tools.clock)
        if self._may_be_there:
            # A slot that was not there, and is now, belongs to a job that took over: creating one fails.
            self._tools.confirm()
            drop_slot(self._server, self._settings.source_as(PostgresSettings).slot)
        return begin_log(self._server, self._beginning(), lambda: self.collections(state))

    def _beginning(self) -> LogStart:
        tools, timeout_ms = self._tools, self._settings.snapshot.lock_timeout_ms
        postgres = self._settings.source_as(PostgresSettings)
        failover = postgres.slot_failover
        return LogStart(postgres.slot, timeout_ms, tools.clock, tools.watch, failover, tools.confirm)

    def collections(self, _state: State) -> Sequence[CollectionId]:
        """The tables to read, in order. Raises ConfigError if one can't be read as the settings say."""
        with self._server.open() as questions:
            found = questions.layouts.readable(self._settings.source_as(PostgresSettings).publication)
            chosen = to_read(found, self._settings.capture, self._settings.snapshot.include_tables)
            hidden = ", ".join(str(table) for table in chosen if not found[table])
            if hidden:
                raise ConfigError(
                    f"the role may not read {hidden}", hint="GRANT SELECT, or leave them out of the lists"
                )
            for table in chosen:
                self._check_statement(questions.layouts, table)
        return chosen

    def _check_statement(self, layouts: Layouts, collection: CollectionId) -> None:
        statement = self._tools.statement(collection)
        if statement is None:
            return
        given = layouts.columns_of(statement, collection)
        stored = self._settings.source_as(PostgresSettings).generated_columns is GeneratedColumns.STORED
        lacking = [repr(name) for name in layouts.columns(collection, stored=stored) if name not in given]
        if lacking:
            raise ConfigError(
                f"the SELECT for {collection} does not give the table's columns {', '.join(lacking)}"
            )


def _last_commit(state: State) -> Commit | None:
    saved = state.memory.get("last_commit")
    return Commit(*saved) if saved else None
