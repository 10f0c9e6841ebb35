"""PostgreSQL's world: the real adapter, down to its typed questions, over a simulated server."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from adapters.postgres.events.relations import Relations
from adapters.postgres.events.span_encoder import PostgresSpans
from adapters.postgres.log_opening import LogOpening
from adapters.postgres.server.visibility import format_lsn
from adapters.postgres.server.watches.lock_watch import LockWatch
from adapters.postgres.snapshot.initial import SlotTools
from adapters.postgres.source import PostgresSource
from adapters.postgres.tools import SourceTools
from adapters.source.assembly.snapshotters import snapshotter
from adapters.source.initial import InitialSnapshot
from adapters.source.log.span_encoder import SpanEncoder
from adapters.staging.executor_blocks import ExecutorBlocks
from engine.clock import Clock
from engine.config import parse
from engine.errors import ConfigError, SourceError
from engine.events.batch import EventForm
from tests.simulation.answers import Asked
from tests.simulation.polled_pool import SimPool
from tests.simulation.postgres.cluster import Cluster, Slot
from tests.simulation.postgres.oracle import PostgresOracle
from tests.simulation.postgres.questions import SimQuestions
from tests.simulation.postgres.reading import SimChunks
from tests.simulation.postgres.server import SLOT, SimConnections, SimServer, log_opener
from tests.simulation.postgres.tables import SIGNALS, TABLES, B, P, T, U
from tests.simulation.source_world import RowsRead, SourceWorld
from tests.simulation.violation import Violation
from tests.simulation.world import Executors, Life, nothing_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.postgres.snapshot.slot_snapshot import HeldSnapshot
    from engine.config.settings import Settings
    from engine.errors import TidemarkError
    from engine.model import CollectionId, Scope
    from tests.simulation.postgres.script import PostgresSetup

_LOOK_MS = 250


@cache
def settings_of(mode: str, max_chunks: str) -> Settings:
    """The job's settings."""
    return parse(
        {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "simulated",
            "database.user": "u",
            "database.password": "p",
            "database.dbname": "db",
            "topic.prefix": "tm",
            "plugin.name": "pgoutput",
            "slot.name": SLOT,
            "snapshot.mode": mode,
            "publication.autocreate.mode": "disabled",
            "signal.data.collection": "public.signals",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "tombstones.on.delete": "false",
            "skipped.operations": "none",
            "incremental.snapshot.chunk.size": "2",
            "tidemark.window.max.chunks": max_chunks,
            "tidemark.sink": "files",
            "tidemark.sink.files.dir": "/simulated/events",
            "tidemark.checkpoint": "/simulated/state",
        }
    ).in_form(EventForm.RECORDS)


class PostgresWorld(SourceWorld):
    """Plays one history of PostgreSQL's world."""

    names: ClassVar[Mapping[str, CollectionId]] = {"t": T, "u": U, "b": B, "p": P}
    tables: ClassVar[tuple[CollectionId, ...]] = TABLES
    begins_ms: ClassVar[int] = 1_700_000_000_000
    initial: ClassVar[str] = "snapshot.mode"
    surrogate: ClassVar[Mapping[str, str]] = {"b": "n"}
    setup: PostgresSetup

    def _found(self) -> None:
        t, u, *p = tuple(self.setup.identities)
        identities = {T: (t,), U: (u,), B: ("f",), P: tuple(p)}
        self.database = Cluster(self.setup.xid, identities)
        self.server = SimServer(self.database, self.now)
        self.server.acknowledged, self.server.opened = self._flushed, self._log_opened
        self.oracle = PostgresOracle(self.database, knows=self.setup.knows)
        self.oracle.snapshots_of = self._snapshots_of
        self._changing: list[tuple[Any, str]] = []
        self._looked_ms = self._saved_at = self._copied_at = 0
        self._holder = ""
        self._incomplete: set[tuple[CollectionId, str]] = set()
        self._aside: set[CollectionId] = set()
        self._asked_at: dict[str, int] = {}

    def _snapshots_of(self, collection: CollectionId) -> int:
        return self.answers.snapshots_of(collection)

    def _begin(self) -> None:
        database = self.database
        for key in range(self.setup.rows):
            transaction = database.begin(9)
            for table in (T, P, *([U] if key % 2 else [])):
                database.change(transaction, table, "put", key)
            if key % 3 == 0:
                database.change(transaction, B, "put", key)
                database.change(transaction, B, "put", key)
            database.commit(9, visible=True)
        database.delivered = len(database.log)
        if not self.setup.initial:
            database.slots[SLOT] = Slot(database.lsn)
            self.begun(len(database.log))

    def _flushed(self, lsn: int) -> None:
        """A slot was made (-1), or may forget the log before an LSN: that must have been sent."""
        if lsn < 0:
            self.begun(len(self.database.log))
            return
        log, at = self.database.log, self.oracle.position
        if at < len(log) and lsn > log[at].commit_lsn:
            raise Violation(f"{lsn} was acknowledged, and entry {at} of {log[at].commit_lsn} was not sent")

    def source_of(self, life: Life) -> PostgresSource:
        """The adapter's source, whose tools are simulated where they would block."""
        mode = "initial" if self.setup.initial else "never"
        settings = settings_of(mode, "0" if self.setup.whole_rows else "1")
        server = SimConnections(self.server, life, f"process {life.number}")
        clock = Clock(self.now, self.clock, life.sleep, self.new_id)
        watch = LockWatch(lambda: SimQuestions(self.server.process(life)), clock.monotonic, nothing_beside)
        life.watch = watch
        chosen = snapshotter(settings.snapshot)
        first: InitialSnapshot[HeldSnapshot] = InitialSnapshot(
            settings.snapshot, chosen, clock.new_id(), clock.sleep
        )
        previous, self._holder = self._holder, f"process {life.number}"
        assert life.leases is not None
        tools = SlotTools(settings, server, chosen, clock, watch, previous, life.leases.confirm)
        encoder = SpanEncoder(Executors(life), ExecutorBlocks(), local_rows=1_000)
        own = SourceTools(
            PostgresSpans(settings.events, encoder, clock),
            SimChunks(self.server, life, self.staging),  # type: ignore[arg-type]  # it takes the place of Spark's
            first,
            tools,
            clock,
            Path("/simulated"),
            log_opener(self.server, life),
            lambda: SimPool(self.setup.reading_polls + self.straggling()),
            lambda: SimPool(self.setup.opening_polls, self.setup.joining_polls),
        )
        relations = partial(Relations, settings=settings.events)
        return PostgresSource(settings, own, LogOpening(settings, server, own, relations))

    def mended(self, error: TidemarkError) -> bool:
        """Create the publication, or wait until a reader that sleeps has lost the slot.

        A job has tried so often before it ends; the last attempt may have failed otherwise.
        """
        if isinstance(error, ConfigError) and self.database.publication is None:
            self.database.create_publication()
            return True
        in_use = re.search("is in use|is active for PID", error.message) or self._is_slot_held()
        if isinstance(error, SourceError) and in_use:
            self.pass_time(20.0)
            return True
        return False

    def _is_slot_held(self) -> bool:
        """Whether a job that sleeps reads the log, or a connection whose end the server has not heard of."""
        sleeping = (life for seat, life in self._lives.items() if seat != self._running)
        return any(life.log is not None and not life.dead for life in sleeping) or any(
            slot.reader for slot in self.database.slots.values()
        )

    def buried(self, life: Life) -> None:
        """A process has ended: its connections end with it."""
        if life.log is not None:
            life.log.close()
            life.log = None
        self.server.end_all(life)

    def meanwhile(self, life: Life) -> None:
        """The watch of locks looks, the log's reader reads, who waits to change a table tries again."""
        if self._changing:
            self._alter_now()
        if self.draining:
            self.database.delivered = len(self.database.log)
        self.server.end_silent(self.time_ms)
        if self.time_ms - self._looked_ms >= _LOOK_MS and life.watch is not None:
            self._looked_ms = self.time_ms
            life.watch.look()
        if self.setup.eager and life.log is not None and not life.dead:
            life.log.steps.advance(most=3)

    # What the job tells.

    def observe(self, seen: Any) -> None:
        """A turn was saved."""
        state = seen.state
        self._saved_at = int(state.position.order[0])
        self.note(f"turn {state.turn} saved at {format_lsn(self._saved_at)}", "turn")
        # A snapshot may take a table up in the turn that passes entries of it, the one that sets it aside or
        # a later one.
        faults = {(fault.collection, fault.why) for fault in state.incomplete}
        new = {collection for collection, _why in faults - self._incomplete}
        aside = {fault.collection for fault in state.incomplete if fault.aside}
        passed = aside | new | self._aside
        self.oracle.told |= new
        self._incomplete, self._aside = faults, aside
        self.oracle.pass_over(passed & self.oracle.unkeyed, int(state.position.order[0]))
        members = state.memory.get("members", {}).get("entries", {})
        self.database.watched |= {oid for oids in members.values() for oid in oids}

    def open_windows(self, life: Life) -> Sequence[Any]:
        """The windows in progress of a job."""
        opened = life.source._opening.opened if life.source else None
        return list(opened.windows.opened.values()) if opened else []

    def windows_hit(self, life: Life) -> Sequence[Any]:
        """The same, and the one that opens beside the stream."""
        opened = life.source._opening.opened if life.source else None
        return self.with_opening(life, opened.windows if opened else None)

    def rows_read(self, window: Any, index: int) -> RowsRead | None:
        """A table that a window reads."""
        oids = [oid for oid in sorted(window.oids) if self.database.tables[oid].id in self.tables]
        table = self.database.tables[oids[index % len(oids)]] if oids else None
        if table is None:
            return None
        name = "n" if table.id == B else "id"
        keys = sorted({version.values[name] for version in table.versions if not version.xmax})
        return RowsRead(table.id, keys) if keys else None

    # Steps.

    def _signal(
        self, kind: str, chosen: tuple[CollectionId, ...], text: str, scope: Scope | None = None
    ) -> None:
        database = self.database
        if not database.publishes(database.named(SIGNALS)):
            return  # the signal is in no log
        commit = database.insert_signal(tuple(text.split("|", 2)), visible=True)
        at = commit.entries[0].at
        hidden = {xid % 2**32 for xid in database.hidden}
        since = next((entry.at for entry in database.log if entry.xid in hidden), at)
        label = f"{format_lsn(commit.lsn)}/0"
        self._asked_at[label] = at
        self.answers.ask(label, Asked(kind, chosen, min(at, since), self.oracle.last_turn, scope))
        self.happened[f"signal: {kind}"] += 1

    def _alter(self, _life: Life, table: str, how: str = "rewrite") -> None:
        found = self.database.named(self.names[table])
        self._changing.append((found, how))
        self.server.waiting.append(found)

    def _alter_now(self) -> None:
        """Change definitions whose tables nobody reads or writes."""
        database = self.database
        left = []
        for table, how in self._changing:
            writes = any(
                change.table is table for other in database.open.values() for change in other.changes
            )
            if database.locked(table) or writes:
                left.append((table, how))
                continue
            if how == "truncate":
                self.server.waiting.remove(table)
                transaction = database.begin(7)
                if database.change(transaction, table.id, "truncate"):
                    database.commit(7, visible=True)
                else:
                    database.abort(7)
            else:
                database.alter(table, how)
                if how == "key":
                    self.oracle.unkeyed.add(table.id)
                self.server.waiting.remove(table)
            self.happened["definitions changed"] += 1
        self._changing = left

    def _unpublish(self, _life: Life, table: str) -> None:
        if table == "all":
            if self.database.publication is not None:
                self.database.drop_publication()
                self.happened["publications dropped"] += 1
            return
        self.database.publish(self.database.named(self.names[table]), on=False)
        self.happened["tables taken out of the publication"] += 1

    def _publish(self, _life: Life, table: str) -> None:
        if self.database.publication is None:
            self.database.create_publication()
        elif table != "all":
            self.database.publish(self.database.named(self.names[table]), on=True)

    def _end_session(self, _life: Life, index: int) -> None:
        """An administrator ends a session."""
        pids = sorted(self.server.processes)
        if pids:
            self._pardon()
            self.server.end(pids[-1 - index % len(pids)])
            self.happened["sessions ended"] += 1

    # What happens to the server's log.

    def _fail_over(self, _life: Life) -> None:
        """Promote the standby."""
        self._replace("failed over", promoted=True)

    def is_busy(self) -> bool:
        """Whether somebody waits to change a table."""
        return bool(self._changing)

    def end_sessions(self) -> None:
        """End all sessions of the server."""
        self.server.end_all()

    def put_in_place(self, found: Any, *, promoted: bool) -> None:
        """Let an older copy of the server go on in its place."""
        for slot in sorted(found.open):
            found.abort(slot)
        found.take_over(self.database, promoted=promoted)
        self.database = self.server.cluster = found

    def signalled_at(self, label: str) -> int:
        """The number of a signal's entry."""
        return self._asked_at.get(label, -1)

    def _keep_state(self, life: Life) -> None:
        super()._keep_state(life)
        self._copied_at = self._saved_at

    def _stale_state(self, life: Life) -> None:
        """Only where the sink or the slot tells: else the same turns are sent again, and nothing is lost."""
        slot = self.database.slots.get(SLOT)
        if self.setup.knows or (slot is not None and slot.confirmed > self._copied_at):
            super()._stale_state(life)

    def _drop_slot(self, _life: Life) -> None:
        """Somebody drops the slot."""
        self._damage("slots dropped", lambda: self.database.slots.pop(SLOT, None))

    def _invalidate_slot(self, _life: Life) -> None:
        """The server gives the slot up."""
        self._damage("slots given up", lambda: setattr(self.database.slots[SLOT], "lost", True))

    def _advance_slot(self, _life: Life) -> None:
        """Somebody else reads the slot."""
        self._damage(
            "slots advanced", lambda: setattr(self.database.slots[SLOT], "confirmed", self.database.lsn)
        )

    def _damage(self, what: str, change: Callable[[], object]) -> None:
        slot = self.database.slots.get(SLOT)
        if slot is not None:
            super()._damage(what, lambda: (self.server.end(slot.reader), change()))

    def _drain(self, life: Life) -> None:
        super()._drain(life)
        for other in self._lives.values():
            if other is not life:
                self.server.end_all(other)
        if self.database.publication is None:
            self.database.create_publication()
