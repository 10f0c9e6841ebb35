"""SQL Server's world: the real adapter, down to its typed questions, over a simulated server."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from adapters.source.assembly.snapshotters import snapshotter
from adapters.source.initial import InitialSnapshot
from adapters.source.log.span_encoder import SpanEncoder
from adapters.sqlserver.databases import Databases
from adapters.sqlserver.job import parts_of
from adapters.sqlserver.log.database_log import LogBounds
from adapters.sqlserver.server.position import positions_of, shown
from adapters.sqlserver.snapshot.opening_window import OpeningWatch
from adapters.sqlserver.source import SqlServerSource
from adapters.sqlserver.tools import SourceTools
from adapters.staging.executor_blocks import ExecutorBlocks
from engine.clock import Clock
from engine.config import parse
from engine.errors import LogRemoved, OtherHistory, SinkRefused, SourceError, TableBusy
from engine.events.batch import EventForm
from tests.simulation.answers import Asked
from tests.simulation.polled_pool import SimPool
from tests.simulation.source_world import RowsRead, SourceWorld
from tests.simulation.sqlserver.database import Database
from tests.simulation.sqlserver.oracle import SqlServerOracle
from tests.simulation.sqlserver.questions import SimInstance, SimServer
from tests.simulation.sqlserver.reading import SimChunks, change_reader, log_opener
from tests.simulation.sqlserver.tables import DATABASE, NAMES, TABLES, lsn
from tests.simulation.world import ALL_ROWS, Executors, Life

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from adapters.sqlserver.snapshot.initial import HeldSnapshot
    from engine.config.settings import Settings
    from engine.errors import TidemarkError
    from engine.job.saved.state import State
    from engine.model import CollectionId, Scope
    from signals.answers import Answer
    from tests.simulation.sqlserver.script import SqlServerSetup

_IDLE_MS = 5_000
"""CDC writes an entry of its own so long after the last one; a server does after five minutes."""
_ENDS: Mapping[str, type[TidemarkError]] = {
    "restored": OtherHistory,
    "forced over": OtherHistory,
    "change tables emptied": LogRemoved,
    "stale states": SinkRefused,
}
"""What a job may end with, by what has happened to the log or the checkpoint."""


@cache
def settings_of(setup: SqlServerSetup) -> Settings:
    """The job's settings."""
    return parse(
        {
            "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
            "database.hostname": "simulated",
            "database.user": "u",
            "database.password": "p",
            "database.names": DATABASE,
            "topic.prefix": "tm",
            "include.schema.changes": "false",
            "snapshot.mode": "initial" if setup.initial else "schema_only",
            "snapshot.isolation.mode": setup.isolation,
            "signal.data.collection": f"{DATABASE}.dbo.signals",
            **(
                {"read.only": "true"}
                if setup.marks == "read_only"
                else {"incremental.snapshot.watermarking.strategy": setup.marks}
            ),
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "tombstones.on.delete": "false",
            "skipped.operations": "none",
            "incremental.snapshot.chunk.size": "2",
            "tidemark.window.max.chunks": "0" if setup.whole_rows else "1",
            "tidemark.sink": "files",
            "tidemark.sink.files.dir": "/simulated/events",
            "tidemark.checkpoint": "/simulated/state",
        }
    ).in_form(EventForm.RECORDS)


class SqlServerWorld(SourceWorld):
    """Plays one history of SQL Server's world."""

    names: ClassVar[Mapping[str, CollectionId]] = NAMES
    tables: ClassVar[tuple[CollectionId, ...]] = TABLES
    begins_ms: ClassVar[int] = 1_700_000_000_000
    initial: ClassVar[str] = "snapshot.mode"
    surrogate: ClassVar[Mapping[str, str]] = {"b": "n"}
    setup: SqlServerSetup

    def _found(self) -> None:
        setup = self.setup
        self.database = Database(self.now, setup.minutes)
        self.server = SimInstance(self.database, opened=self._log_opened)
        self.oracle = SqlServerOracle(self.database, knows=setup.knows)
        self._changing: list[tuple[CollectionId, str]] = []
        self._signals: dict[str, int] = {}
        self._idle_ms = 0
        self._saved, self._whole = "", True
        local = min(setup.local, setup.span_rows)
        self._bounds = LogBounds(setup.span_rows, 1 << 20, local, part_rows=1, parts=3)

    def _begin(self) -> None:
        database = self.database
        database.set_up()
        for key in range(self.setup.rows):
            for name in ("t", *("u" * (key % 2)), *("b" * (key % 3 == 0))):
                database.change(database.begin(9), NAMES[name], "put", key)
                database.commit(9, visible=True)
        database.delivered = len(database.log)
        database.capture()

    def source_of(self, life: Life) -> SqlServerSource:
        """The adapter's source, whose tools are simulated where they would block."""
        settings = settings_of(self.setup)
        server = SimServer(self.server, life)
        clock = Clock(self.now, self.clock, life.sleep, self.new_id)
        chosen = snapshotter(settings.snapshot)
        first: InitialSnapshot[HeldSnapshot] = InitialSnapshot(
            settings.snapshot, chosen, clock.new_id(), clock.sleep
        )
        chunks: Any = SimChunks(self.server, life, self.staging)  # it takes the place of Spark's
        tools = SourceTools(
            SpanEncoder(Executors(life), ExecutorBlocks(), local_rows=1_000),
            chunks,
            change_reader(life),
            self._bounds,
            clock,
            None,
            log_opener(life),
            lambda: SimPool(self.setup.reading_polls + self.straggling()),
            lambda: SimPool(self.setup.opening_polls, self.setup.joining_polls),
        )
        databases = Databases(settings, server, chosen.statement)
        parts = parts_of(settings, databases, tools, first)
        source = _Source(settings, server, databases, tools, parts)
        source.world = self
        return source

    def began(self, state: State) -> None:
        """The log was opened: until a turn was saved, it begins where it does now."""
        if self.oracle.last_turn and not self._state_is_new():
            return
        self.oracle.forget()
        at = self.entries_before(state)
        # What was sent before is in no log.
        kept = {label: asked for label, asked in self.answers.asked.items() if self.signalled_at(label) >= at}
        delivered = self.database.delivered
        self.answers.asked.clear()
        self.begun(at)
        self.database.delivered = delivered
        self.answers.asked.update(kept)

    def entries_before(self, state: State) -> int:
        """How many entries the log has up to a state's position."""
        assert state.position is not None
        (position,) = positions_of(state.position)
        return sum(lsn(entry.commit) <= position.commit for entry in self.database.log)

    def mended(self, error: TidemarkError) -> bool:
        """Start the job again once nobody writes to the tables that it is to lock.

        It has tried so often before it ends; the last attempt may have failed otherwise.
        """
        if isinstance(error, TableBusy) or (type(error) is SourceError and self._state_is_new()):
            self.pass_time(5.0)
            return True
        return False

    def excused(self, error: TidemarkError) -> bool:
        """A job may end only with the error of what has happened, and for a fork only behind its point."""
        if not isinstance(error, _ENDS.get(self.blow, ())):
            return False
        if isinstance(error, OtherHistory) and self._saved < self.database.fork.point:
            return self._sent_undone and super().excused(error)
        return super().excused(error)

    def buried(self, life: Life) -> None:
        """A process has ended: its connections end with it."""
        life.log = None
        for session in life.sessions:
            session.release()

    def meanwhile(self, life: Life) -> None:
        """The capture job and the log's reader read; who waits to change a table tries again."""
        database = self.database
        if self._changing:
            self._alter_now()
        if self.draining:
            database.delivered = len(database.log)
        if self.time_ms - self._idle_ms >= _IDLE_MS:
            self._idle_ms = self.time_ms
            database.idle()
        if not self.setup.late:
            database.delivered = len(database.log)
        database.capture()
        if self.setup.eager and life.log is not None and not life.dead:
            life.log.steps.advance(most=3)

    def _hurry(self) -> None:
        """Read the rest of the log at once."""
        super()._hurry()
        for name in ("span_rows", "local_rows"):
            object.__setattr__(self._bounds, name, ALL_ROWS)

    # What the job tells.

    def observe(self, seen: Any) -> None:
        """A turn was saved."""
        state = seen.state
        self.note(f"turn {state.turn} saved at {shown(state.position)}", "turn")
        self.oracle.told |= {fault.collection for fault in state.incomplete}
        (position,) = positions_of(state.position)
        self._saved, self._whole = position.commit, position.whole
        if position.whole:
            self.oracle.pass_over(position.commit)

    def _unread(self) -> int:
        """The first entry that the job may have to read: it reads again what it has not saved."""
        log, commit = self.database.log, self._saved
        behind = sum(
            1 for entry in log if lsn(entry.commit) < commit or (self._whole and lsn(entry.commit) == commit)
        )
        unread: int = min(self.oracle.position, behind)
        return unread

    def hear(self, answer: Answer) -> None:
        """An answer was given."""
        if "the gap in its log is closed" in answer.text:
            # Told and made up for within one turn, it is in no saved state.
            self.oracle.told |= {table for table in self.tables if answer.text.startswith(f"{table} ")}
        super().hear(answer)

    def open_windows(self, life: Life) -> Sequence[Any]:
        """The windows in progress of a job."""
        return list(life.source._windows.opened.values()) if life.source else []

    def windows_hit(self, life: Life) -> Sequence[Any]:
        """The same, and the one that opens beside the stream."""
        return self.with_opening(life, life.source._windows if life.source else None)

    def rows_read(self, window: Any, index: int) -> RowsRead | None:
        """A table that a window reads."""
        names = sorted(name for name in _tables_of(window) if name in self.tables)
        if not names:
            return None
        collection = names[index % len(names)]
        keys = sorted(self.database.tables[collection].rows)
        return RowsRead(collection, keys) if keys else None

    # Steps.

    def _signal(
        self, kind: str, chosen: tuple[CollectionId, ...], text: str, scope: Scope | None = None
    ) -> None:
        name, type_, data = [*text.split("|", 2), "", ""][:3]
        entry = self.database.signal({"id": name, "type": type_, "data": data})
        label = f"{DATABASE}:{lsn(entry.commit)}/{entry.command}/{lsn(entry.change)}/2"
        self._signals[label] = entry.at
        self.answers.ask(label, Asked(kind, chosen, entry.at, self.oracle.last_turn, scope))
        self.happened[f"signal: {kind}"] += 1

    def signalled_at(self, label: str) -> int:
        """The number of a signal's entry."""
        return self._signals.get(label, -1)

    def _alter(self, _life: Life, table: str, how: str = "instance") -> None:
        if how == "clean":
            self._clean(self.names[table])
            return
        self._changing.append((self.names[table], how))

    def _clean(self, name: CollectionId) -> None:
        """Somebody cleans one change table up."""
        self.database.clean_up([self.database.tables[name]], self._unread())
        self.happened["change tables cleaned up"] += 1

    def _alter_now(self) -> None:
        """Change definitions of tables that nobody reads or writes."""
        left = []
        for name, how in self._changing:
            if self._is_used(name):
                left.append((name, how))
            elif self._changed(name, how):
                self.happened["definitions changed"] += 1
        self._changing = left

    def _is_used(self, name: CollectionId) -> bool:
        database = self.database
        table = database.tables[name]
        return database.writes(table) or bool(database.readers.get(name)) or name in database.whole

    def _changed(self, name: CollectionId, how: str) -> bool:
        """Change a definition now; returns whether there was something to change."""
        database, table = self.database, self.database.tables[name]
        instances = table.instances
        if how == "column":
            database.widen(table)
        elif how == "instance" and len(instances) < 2:
            database.enable(table)
        elif how in {"drop", "early"} and len(instances) == 2 and instances[1].start >= 0:
            # Who does it in time waits until the stream has come to the younger one.
            passed = self.oracle.position == len(database.log)
            if how == "drop" and not passed:
                return False
            self.happened["capture instances dropped early"] += not passed
            database.disable(table, since=self._unread())
        else:
            return False
        return True

    def _end_session(self, _life: Life, _index: int) -> None:
        """All sessions end."""
        self._pardon()
        self.end_sessions()
        self.happened["sessions ended"] += 1

    def end_sessions(self) -> None:
        """End all sessions of the server."""
        self.server.generation += 1
        self.database.whole.clear()

    def _back_up(self, life: Life) -> None:
        """What a sink that forgets had taken of a turn that was not saved is in no state."""
        if self.setup.knows:
            super()._back_up(life)

    def copied(self) -> Database:
        """A copy of the database."""
        found: Database = self.database.copied()
        return found

    def _fail_over(self, _life: Life) -> None:
        """Force the availability group over to the replica that lags."""
        self._replace("forced over", promoted=True)

    def put_in_place(self, found: Any, *, promoted: bool) -> None:  # noqa: ARG002  both make a fork
        """Let an older copy of the database go on in its place."""
        found.take_over(self.database)
        self.database = self.server.database = found

    def is_busy(self) -> bool:
        """Whether somebody waits to change a table."""
        return bool(self._changing)

    def _stale_state(self, life: Life) -> None:
        """A sink that forgets takes again what it had: nothing tells an old state from the newest one."""
        if self.setup.knows:
            super()._stale_state(life)

    def _clean_up(self, _life: Life) -> None:
        """The clean-up job removes change rows that the job has not read."""
        database = self.database
        self._damage(
            "change tables emptied",
            lambda: database.clean_up(list(database.tables.values()), self._unread()),
        )

    def _drain(self, life: Life) -> None:
        super()._drain(life)
        for other in self._lives.values():
            if other is not life:
                for session in other.sessions:
                    session.release()


def _tables_of(window: Any) -> Collection[CollectionId]:
    """The tables of a window, or of what the stream carries while one opens."""
    found: Collection[CollectionId] = window.tables if isinstance(window, OpeningWatch) else window.merges
    return found


class _Source(SqlServerSource):
    """The adapter's source, which says where its log begins."""

    world: SqlServerWorld
    opens_log = False

    def open_log(self, state: State) -> Any:
        """Open the log."""
        self.opens_log = True
        try:
            state, log = super().open_log(state)
        finally:
            self.opens_log = False
        self.world.began(state)
        return state, log
