"""The snapshot before the log, on PostgreSQL: how a start proceeds, and what is held for it.

Leads from a saved state and a slot to a state with tables queued, and owns the snapshot that they are read in
while it is held. After a crash, or when a session waits to change a table, it is no longer held; what is left
is then read in ordinary windows while the log is streamed. `engine/snapshot/initial.py` decides what a mode
asks for; the windows decide how rows are read.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, LiteralString, assert_never
from uuid import uuid4

import psycopg

from adapters.postgres.events.source_block import ReadPlace
from adapters.postgres.log.assembler import Commit
from adapters.postgres.log.forks import check_fork, check_reach
from adapters.postgres.log.reader import Sent
from adapters.postgres.log.takeover import Takeover
from adapters.postgres.server.connection import Slot, check_slot, drop_slot, find_slot, source_errors
from adapters.postgres.server.visibility import format_lsn
from adapters.postgres.snapshot.slot_snapshot import Beginning, begin_log, create_slot, hold
from engine.config.settings import GeneratedColumns, SnapshotRestart
from engine.errors import ConfigError, PositionLost, SourceError
from engine.events.record.envelope import PLAIN
from engine.model import CollectionId, Position
from engine.snapshot.initial import Log, Standing, Start, start, to_read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.postgres.log.reader import PostgresLog
    from adapters.postgres.server.connection import Identity, Server
    from adapters.postgres.server.lock_watch import LockWatch
    from adapters.postgres.snapshot.slot_snapshot import Held
    from adapters.postgres.snapshot.watermark import Exported
    from engine.config.settings import Settings
    from engine.job.state import State
    from engine.snapshot.initial import Snapshotter

_log = logging.getLogger("adapters")
_LABEL = "snapshot.mode"
_LOOK_S, _TOLD_AFTER_S = 0.2, 5.0
_TABLES: LiteralString = (
    "SELECT n.nspname, c.relname,"
    " has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relpersistence IN ('p', 'u')"
    " AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
    " AND (c.relkind = 'r' OR (c.relkind = 'p'"
    "  AND EXISTS (SELECT FROM pg_publication WHERE pubname = %s AND pubviaroot)))"
)
"""A partitioned table is listed as its partitions, unless changes come under its own name."""


class InitialSnapshot:
    """The initial snapshot of one run of the job. Only the job's thread uses it.

    `pause` waits some seconds and returns true when the job is to stop. `previous` held the job's lease
    before, and may still be using the slot. `watch` makes the snapshot give way to sessions that wait for a
    table, where the log can make up for it. After `start`, `sent` is what the log must bring again before it
    continues. `takeover` is a slot that was found without a saved state.
    """

    def __init__(
        self,
        settings: Settings,
        server: Server,
        snapshotter: Snapshotter,
        pause: Callable[[float], object],
        previous: str = "",
        watch: LockWatch | None = None,
    ) -> None:
        self._settings, self._server = settings, server
        self._snapshotter, self._pause, self._previous = snapshotter, pause, previous
        self._watch = watch
        self._run = uuid4().hex
        self.sent: Sent | None = None
        self._begins_at: int | None = None
        self._held: Held | None = None
        self.takeover: Takeover | None = None

    # What other modules ask.

    @property
    def streams(self) -> bool:
        """Whether the log is streamed at all."""
        return self._snapshotter.should_stream()

    @property
    def snapshot_id(self) -> str:
        """The snapshot that is held; empty when none is held."""
        return self._held.snapshot.exported.id if self._held else ""

    @property
    def session(self) -> psycopg.Connection | None:
        """The session that holds it; None when none is held."""
        return self._held.snapshot.session if self._held else None

    def statement(self, collection: CollectionId) -> str | None:
        """The SELECT that returns a table's rows; None for all of them."""
        overrides = self._settings.snapshot.select_overrides
        return overrides.get(str(collection)) or self._snapshotter.statement(collection)

    @property
    def holds_log(self) -> bool:
        """Whether the log must wait."""
        return not self.streams or self._held is not None

    def done(self, state: State) -> bool:
        """Whether a job that streams no log has read everything."""
        return not self.streams and state.position is not None and not state.snapshot.initial

    def memory(self) -> dict[str, Any]:
        """What must be saved: which run began the snapshot, and where the log began."""
        return {"run": self._run, "begins_at": self._begins_at}

    @property
    def held(self) -> Held | None:
        """The snapshot to read in; None if what is left is read in windows."""
        return self._held

    @property
    def gave_way(self) -> bool:
        """Whether it was released for another session that waited for one of its locks."""
        return self._held is not None and self._held.snapshot.gave_way

    def stops(self, reader: Callable[[], None]) -> None:
        """Register a reader's callback; another thread calls it when the snapshot gives way."""
        if self._held is not None:
            self._held.snapshot.stops(reader)

    @property
    def alive(self) -> bool:
        """Whether a snapshot is held by a session that is still alive."""
        return self._held is not None and self._held.alive

    # What changes what is held.

    def tick(self, state: State, *, reading: bool) -> None:
        """Release the snapshot once all is read in it, or if it gave way and no window is `reading` in it."""
        if self._held is None:
            return
        if self.gave_way and not reading:
            _log.warning(
                "the initial snapshot is given up: another session waited to change one of its tables;"
                " what is left is read while the log is streamed"
            )
            self.release()
        elif self.streams and not state.snapshot.initial:
            _log.info(
                "the initial snapshot is complete; the log is streamed from %s", format_lsn(self._held.lsn)
            )
            self.release()

    def release_if_ended(self) -> None:
        """Release the snapshot if its transaction has ended. Raises SourceError where no log follows."""
        if self._held is None or self._held.alive:
            return
        self.release()
        if not self.streams:
            raise SourceError("the snapshot's transaction has ended", hint="it begins again from nothing")
        _log.warning("the initial snapshot's transaction has ended; what is left is read in windows")

    def release(self) -> None:
        """Release the snapshot and its locks."""
        if self._held is not None:
            self._held.snapshot.close()
            self._held = None

    def place(self, exported: Exported) -> ReadPlace:
        """The position and time that READs of a window under this snapshot carry."""
        own = self._held is not None and self._held.snapshot.exported is exported
        ts_ms, lsn = (
            (self._held.ts_ms, self._held.lsn)
            if own and self._held
            else (int(time.time() * 1000), exported.horizon)
        )
        return ReadPlace(ts_ms, tx_id=exported.visibility.xmax, lsn=lsn, snapshot=PLAIN)

    # Starting.

    def start(self, state: State, identity: Identity, lost: PositionLost | None = None) -> State:
        """The state to continue from: with a position, and with the tables queued that are to be read.

        `lost` says why the log can't continue, if that is known. Raises PositionLost if it can't continue and
        no mode asks to start from scratch.
        """
        self.sent = None
        continued = self._continued(state)
        if continued is not None:
            return continued
        self.release()
        self._begins_at = state.memory.get("first", {}).get("begins_at")
        state, slot, lost = self._slot(state, identity, lost)
        standing = self._standing(state, slot, lost)
        way = start(self._snapshotter, standing, redo=self._settings.snapshot.restart is SnapshotRestart.REDO)
        match way:
            case Start.LOST:
                raise lost or PositionLost("the log is lost")
            case Start.END:
                _log.info("the initial snapshot has been taken, and no log is streamed: nothing to do")
                state = self._noted(state)
            case Start.STREAM:
                state = self._stream(state, slot)
            case Start.BESIDE:
                state = self._beside(state, slot)
            case Start.AT_LOG:
                self.sent = None
                state = self._at_log(state, standing)
            case Start.ALONE:
                state = self._alone(state)
            case _:
                assert_never(way)
        return state

    def _continued(self, state: State) -> State | None:
        """The state in the snapshot that is still held from before a fault, if there is one."""
        if self._held is None or not self._held.alive:
            return None
        mine = state.memory.get("first", {}).get("run") == self._run
        if not mine or state.position != Position((self._held.lsn, 0)):
            # It was saved before the snapshot was taken.
            return self._queued(state, self._held)
        return state if state.snapshot.initial else None

    def _slot(
        self, state: State, identity: Identity, lost: PositionLost | None
    ) -> tuple[State, Slot | None, PositionLost | None]:
        """The state at a position that this server has, the slot, and why the log can't continue."""
        postgres = self._settings.postgres
        if not self.streams or lost is not None:
            return state, None, lost
        try:
            slot = find_slot(self._server, postgres.slot, postgres.database, self._previous)
            if state.position is not None:
                slot = check_slot(slot, postgres.slot, state.position)
                state = self._on_this_timeline(state, identity)
                self.sent = self._sent_before(state, slot)
        except PositionLost as error:
            return state, None, error
        return state, slot, None

    def _on_this_timeline(self, state: State, identity: Identity) -> State:
        """The state, moved back to the fork if the server was promoted. Raises PositionLost."""
        if state.position is None:
            return state
        lsn, sequence = (int(element) for element in state.position.order)
        saved = int(state.identity.get("timeline", identity.timeline))
        if saved != identity.timeline:
            commit, loose = _last_commit(state), state.memory.get("last_commit_end") or 0
            # For a transaction that was sent in part, the server must have its commit, too.
            ends = lsn + 1 if sequence else lsn if commit is None else max(commit.end, loose)
            fork = check_fork(saved, identity.timeline, self._server.history(identity.timeline), ends)
            _log.warning(
                "the server was promoted at %s: timeline %d goes on from what was sent of timeline %d",
                *(format_lsn(fork), identity.timeline, saved),
            )
            if not sequence and lsn > fork:
                lsn = fork
                state = replace(state, position=Position((lsn, 0)))
        check_reach(lsn, identity.lsn or 0)
        return state

    def _sent_before(self, state: State, slot: Slot) -> Sent | None:
        """The last commit that was sent, if the slot begins before it and will bring it again unchanged."""
        commit = _last_commit(state)
        same = state.memory.get("subscription") == self.subscription
        return (
            Sent(commit, slot.confirmed_lsn) if commit and same and slot.confirmed_lsn < commit.end else None
        )

    @property
    def subscription(self) -> str:
        """The settings that decide what the slot brings; kept with the state."""
        postgres = self._settings.postgres
        return f"{postgres.slot} {postgres.publication} {postgres.stream_params}"

    def _standing(self, state: State, slot: Slot | None, lost: PositionLost | None) -> Standing:
        memory, position = state.memory.get("first", {}), state.position
        log = Log.LOST if lost else Log.KEPT if slot else Log.NONE
        return Standing(
            saved=position is not None,
            log=log,
            left=state.snapshot.initial,
            streamed=position is None or self._begins_at is None or position > Position((self._begins_at, 0)),
            begun=memory.get("run") == self._run,
        )

    def _stream(self, state: State, slot: Slot | None) -> State:
        if state.snapshot.initial:
            _log.info("what is left of the initial snapshot is read in windows while the log is streamed")
        position = state.position
        if position is None:
            if slot is not None:
                self._take_over(slot)
            slot = slot or Slot(create_slot(self._server, self._beginning()))
            position = Position((slot.confirmed_lsn, 0))
        return self._noted(replace(state, position=position))

    def _take_over(self, slot: Slot) -> None:
        """Continue from a slot of which only the confirmed position is known."""
        name = self._settings.postgres.slot
        with self._server.connect() as connection, source_errors("asking where the log ends"):
            row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
        self.takeover = Takeover(name, slot.confirmed_lsn, int(row[0]) if row else slot.confirmed_lsn)
        _log.info("no saved state; reading from slot %s at %s", name, format_lsn(slot.confirmed_lsn))

    def _beside(self, state: State, slot: Slot | None) -> State:
        self._wait_before()
        position = state.position or Position((slot.confirmed_lsn if slot else 0, 0))
        if state.position is None and slot is not None:
            self._take_over(slot)
        collections = self._collections()
        _log.info(
            "an initial snapshot of %d tables is taken while the log is streamed from %s",
            len(collections),
            format_lsn(int(position.order[0])),
        )
        snapshot = state.snapshot.begin(collections, _LABEL)
        return self._noted(replace(state, position=position, snapshot=snapshot))

    def _at_log(self, state: State, standing: Standing) -> State:
        self._wait_before()
        postgres = self._settings.postgres
        self._collections()
        if standing.log is Log.LOST:
            _log.warning("the log is lost; it begins anew: of rows deleted meanwhile nothing is told")
        elif standing.left:
            _log.warning(
                "the initial snapshot begins anew; what was sent of the one before stays in the sink"
            )
        drop_slot(self._server, postgres.slot)
        self._held = begin_log(self._server, self._beginning(), self._collections)
        self._begins_at = self._held.lsn
        return self._queued(state, self._held)

    def _beginning(self) -> Beginning:
        postgres, timeout_ms = self._settings.postgres, self._settings.snapshot.lock_timeout_ms
        return Beginning(postgres.slot, timeout_ms, lambda: self._pause(0.0), self._watch)

    def _alone(self, state: State) -> State:
        self._wait_before()
        if state.snapshot.initial:
            _log.warning("the initial snapshot begins again from nothing: no log could tell what has changed")
        self._held = hold(self._server, self._collections(), self._settings.snapshot.lock_timeout_ms)
        return self._queued(state, self._held)

    def _queued(self, state: State, held: Held) -> State:
        """Queue all tables at the beginning of a log.

        Nothing known of an earlier snapshot applies any more.
        """
        tables, lsn = held.tables, held.lsn
        _log.info("an initial snapshot of %d tables is taken at %s", len(tables), format_lsn(lsn))
        snapshot = state.snapshot.anew().begin(tables, _LABEL)
        return self._noted(replace(state, position=Position((lsn, 0)), snapshot=snapshot, memory={}))

    def _noted(self, state: State) -> State:
        return replace(state, memory={**state.memory, "first": self.memory()})

    def _wait_before(self) -> None:
        delay_s = self._settings.snapshot.delay_ms / 1000
        if delay_s and self._pause(delay_s):
            raise SourceError("stopped before the initial snapshot began")

    def await_past(self, log: PostgresLog) -> None:
        """Return once the log has brought again what was sent before.

        Raises PositionLost if it does not come.
        """
        tell_at = time.monotonic() + _TOLD_AFTER_S
        while not log.await_past(_LOOK_S):
            if self._pause(0.0):
                raise SourceError("stopped while the log passed over what was sent before")
            if self.sent and time.monotonic() >= tell_at:
                tell_at = float("inf")
                _log.info("passing over what was sent before, up to %s", format_lsn(self.sent.commit.end))

    # What is read.

    def _collections(self) -> Sequence[CollectionId]:
        """The tables to read, in order. Raises ConfigError if one can't be read as the settings say."""
        with self._server.connect() as connection:
            with source_errors("listing tables"):
                rows = connection.execute(_TABLES, [self._settings.postgres.publication]).fetchall()
            found = {CollectionId((schema, name)): readable for schema, name, readable in rows}
            chosen = to_read(found, self._settings.capture, self._settings.snapshot.include_tables)
            hidden = ", ".join(str(one) for one in chosen if not found[one])
            if hidden:
                raise ConfigError(
                    f"the role may not read {hidden}", hint="GRANT SELECT, or leave them out of the lists"
                )
            for one in chosen:
                self._check_statement(connection, one)
        return chosen

    def _check_statement(self, connection: psycopg.Connection, collection: CollectionId) -> None:
        statement = self.statement(collection)
        if statement is None:
            return
        try:
            # Prepared: the extended protocol accepts only one statement.
            described = connection.execute(
                f"SELECT * FROM ({statement}\n) AS t LIMIT 0".encode(), prepare=True
            )
        except psycopg.Error as error:
            said = (error.diag.message_primary or str(error)).strip()
            raise ConfigError(f"the SELECT for {collection} is refused: {said}") from error
        given = {column.name for column in described.description or ()}
        kinds = ["", "s"] if self._settings.snapshot.generated_columns is GeneratedColumns.STORED else [""]
        table = connection.execute(_COLUMNS, [*collection.parts, kinds]).fetchall()
        lacking = ", ".join(repr(name) for (name,) in table if name not in given)
        if lacking:
            raise ConfigError(f"the SELECT for {collection} does not give the table's columns {lacking}")


def _last_commit(state: State) -> Commit | None:
    saved = state.memory.get("last_commit")
    return Commit(*saved) if saved else None


_COLUMNS: LiteralString = (
    "SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s"
    " AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ANY (%s)"
)
