"""MongoDB's world: the real adapter, down to the driver's commands, over a simulated replica set."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from adapters.mongodb.log.position import has_passed, shown, time_of
from adapters.mongodb.log_opening import LogOpening
from adapters.mongodb.server.questions import Questions
from adapters.mongodb.snapshot.windows import OpenWindows
from adapters.mongodb.source import MongoSource
from adapters.mongodb.streamed_spans import StreamedSpans
from adapters.mongodb.tools import SourceTools
from adapters.source.assembly.snapshotters import snapshotter
from adapters.source.initial import InitialSnapshot
from adapters.source.log.span_encoder import SpanEncoder
from adapters.staging.executor_blocks import ExecutorBlocks
from engine.clock import Clock
from engine.config import parse
from engine.events.batch import EventForm
from engine.model import CollectionId
from tests.simulation.answers import Asked
from tests.simulation.mongodb.client import SimClient, SimDeployment, SimServer
from tests.simulation.mongodb.oracle import MongoOracle
from tests.simulation.mongodb.reading import SimChunks, log_opener
from tests.simulation.mongodb.replica_set import DATABASE, NAMES, TABLES, ReplicaSet, is_mark
from tests.simulation.polled_pool import SimPool
from tests.simulation.source_world import RowsRead, SourceWorld
from tests.simulation.world import Executors, Life

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.mongodb.snapshot.initial import HeldSnapshot
    from engine.config.settings import Settings
    from engine.model import Scope
    from signals.answers import Answer
    from tests.simulation.mongodb.script import MongoSetup

_IDLE_MS = 10_000


@cache
def settings_of(setup: MongoSetup) -> Settings:
    """The job's settings."""
    return parse(
        {
            "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
            "mongodb.connection.string": "mongodb://simulated/?replicaSet=rs0",
            "topic.prefix": "tm",
            "capture.mode": setup.mode,
            "capture.scope": setup.scope,
            **({"capture.target": DATABASE} if setup.scope == "database" else {}),
            "cursor.oversize.handling.mode": setup.oversize,
            "collection.exclude.list": "db.w",
            "snapshot.mode": "initial" if setup.initial else "never",
            "signal.data.collection": "db.signals",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "tombstones.on.delete": "false",
            "skipped.operations": "none",
            "incremental.snapshot.chunk.size": "2",
            "incremental.snapshot.watermarking.strategy": setup.marks,
            "tidemark.window.max.chunks": "0" if setup.whole_rows else "1",
            "tidemark.span.max.rows": str(setup.span_rows),
            "tidemark.sink": "files",
            "tidemark.sink.files.dir": "/simulated/events",
            "tidemark.checkpoint": "/simulated/state",
        }
    ).in_form(EventForm.RECORDS)


class MongoWorld(SourceWorld):
    """Plays one history of MongoDB's world."""

    names: ClassVar[Mapping[str, CollectionId]] = NAMES
    tables: ClassVar[tuple[CollectionId, ...]] = TABLES
    bag: ClassVar[CollectionId] = CollectionId((DATABASE, "none"))
    begins_ms: ClassVar[int] = 1_700_000_000_000
    initial: ClassVar[str] = "snapshot.mode"
    setup: MongoSetup

    def _found(self) -> None:
        setup = self.setup
        self.database = ReplicaSet(self.clock)
        self.server = SimDeployment(self.database, historic=setup.historic, poisoned=self.poisoned)
        self.server.began, self.server.opened = self._began, self._log_opened
        self.oracle = MongoOracle(
            self.database,
            knows=setup.knows,
            looks_up="update_full" in setup.mode,
            skips=setup.oversize == "skip",
        )
        self._signals: dict[str, int] = {}
        self._listed = True

    def _begin(self) -> None:
        database = self.database
        for key in range(self.setup.rows):
            for name in ("t", "c", *("u" * (key % 2))):
                database.begin(9)
                database.change(9, NAMES[name], "put", key)
                database.commit(9, visible=True)
        database.noop()
        database.delivered = len(database.log)

    def _began(self, at: int) -> None:
        """A stream begins at the end of the log, for the first time or anew."""
        if self.setup.initial and self._state_is_new():
            self.oracle.forget()  # a turn that was sent and not saved: all is read again
        if self.oracle.last_turn == 0:
            self.answers.asked.clear()  # what was sent before is in no stream
            self.begun(at)
            self._listed = not self.setup.initial

    def source_of(self, life: Life) -> MongoSource:
        """The adapter's source, whose tools are simulated where they would block."""
        settings = settings_of(self.setup)
        client = SimClient(self.server, life)
        clock = Clock(self.now, self.clock, life.sleep, self.new_id)
        chosen = snapshotter(settings.snapshot)
        first: InitialSnapshot[HeldSnapshot] = InitialSnapshot(
            settings.snapshot, chosen, clock.new_id(), clock.sleep
        )
        chunks: Any = SimChunks(client, life, self.staging)  # it takes the place of Spark's
        tools = SourceTools(
            SpanEncoder(Executors(life), ExecutorBlocks(), local_rows=1_000),
            chunks,
            first,
            clock,
            log_opener(life, client),
            lambda: SimPool(self.setup.reading_polls + self.straggling()),
            lambda: SimPool(self.setup.opening_polls, self.setup.joining_polls),
        )
        questions = Questions(SimServer(client))
        windows = OpenWindows(settings, questions, tools)
        opening = LogOpening(settings, questions, tools, windows)
        spans = StreamedSpans(settings, tools, windows, opening.streamed)
        return MongoSource(questions, first, opening, spans, settings.signals.collection)

    def buried(self, life: Life) -> None:
        """A process has ended."""
        life.log = None

    def meanwhile(self, life: Life) -> None:
        """The primary writes when it is idle, and the log's reader reads."""
        database = self.database
        if self.time_ms / 1000 - database.clock[0] >= _IDLE_MS / 1000:
            database.noop()
        if self.draining:
            database.majority = database.delivered = len(database.log)
        if self.setup.eager and life.log is not None and not life.dead:
            life.log.steps.advance(most=3)

    # What the job tells.

    def observe(self, seen: Any) -> None:
        """A turn was saved."""
        state = seen.state
        self.note(f"turn {state.turn} saved at {shown(state.position)}", "turn")
        if not self._listed:
            self._list({table.target.collection for table in state.snapshot.tables if table.initial})
        self.oracle.told |= {fault.collection for fault in state.incomplete}
        upto = time_of(state.position)
        whole, mark = has_passed(state.position, upto), is_mark(state.position.order[0])
        self.oracle.pass_over(upto, whole=whole, alone=whole or not mark)

    def _list(self, queued: set[CollectionId]) -> None:
        """The initial snapshot is of the collections that there were when it began."""
        asked, self._listed = self.answers.asked[self.initial], True
        asked.collections = tuple(
            collection
            for collection in asked.collections
            if collection in queued or str(collection) in asked.outcomes
        )

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
        """A collection that a window reads."""
        names = sorted(window.collections)
        collection = names[index % len(names)]
        stored = self.database.newest.get(collection)
        keys = sorted(stored.docs) if stored and collection in self.tables else []
        return RowsRead(collection, keys) if keys else None

    # Steps.

    def _signal(
        self, kind: str, chosen: tuple[CollectionId, ...], text: str, scope: Scope | None = None
    ) -> None:
        name, type_, data = [*text.split("|", 2), "", ""][:3]
        entry = self.database.signal({"_id": name, "type": type_, "data": data})
        self._signals[entry.text] = entry.at
        self.answers.ask(entry.text, Asked(kind, chosen, entry.at, self.oracle.last_turn, scope))
        self.happened[f"signal: {kind}"] += 1

    def signalled_at(self, label: str) -> int:
        """The number of a signal's entry."""
        return self._signals.get(label, -1)

    def _stale_state(self, life: Life) -> None:
        """A sink that forgets takes again what it had: nothing tells an old state from the newest one."""
        if self.setup.knows:
            super()._stale_state(life)

    def _drop(self, _life: Life, table: str, visible: int) -> None:
        self.database.drop(self.names[table], visible=bool(visible))
        self.happened["collections dropped"] += 1

    def _rename(self, _life: Life, table: str, to: str, visible: int) -> None:
        self._count_over(self.names[to])
        self.database.rename(self.names[table], self.names[to], visible=bool(visible))
        self.happened["collections renamed"] += 1

    def _out(self, _life: Life, to: str, visible: int) -> None:
        self._count_over(self.names[to])
        self.database.out(self.names[to], visible=bool(visible))
        self.happened["collections renamed"] += 1

    def _count_over(self, to: CollectionId) -> None:
        life = self._lives[self._running]
        windows = self.open_windows(life)
        self.happened["renames over windows"] += any(to in window.collections for window in windows)

    def _drop_database(self, _life: Life) -> None:
        self.database.drop_database(visible=True)
        self.happened["databases dropped"] += 1

    def _elect(self, _life: Life) -> None:
        """Another primary is elected; what the majority lacks is undone."""
        self._pardon()
        self.happened["elections"] += 1
        majority = self.database.majority
        undone = self.database.elect()
        if self.oracle.position > majority:
            self._began(majority)  # behind entries that are undone, and no stream had them
        self.happened["entries undone"] += undone
        self.end_sessions()
        # One that a restore has lost may have been obeyed before.
        undone_signals = [
            label
            for label, at in self._signals.items()
            if at >= len(self.database.log) - 1 and self.answers.asked[label].kind != "lost"
        ]
        for label in undone_signals:
            del self._signals[label], self.answers.asked[label]

    def _end_session(self, _life: Life, _index: int) -> None:
        """All sessions end."""
        self._pardon()
        self.end_sessions()
        self.happened["sessions ended"] += 1

    def copied(self) -> ReplicaSet:
        """A copy of the replica set; what it holds is never changed in place."""
        database: ReplicaSet = self.database
        return replace(database, log=list(database.log), states=list(database.states), open={})

    def end_sessions(self) -> None:
        """End all sessions of the server."""
        self.server.sessions += 1

    def put_in_place(self, found: Any, *, promoted: bool) -> None:  # noqa: ARG002  a replica set elects
        """Let an older copy of the replica set go on in its place."""
        found.take_over(self.database)
        self.database = self.server.replica_set = found
        self.oracle.unsure = True

    def _shorten_log(self, _life: Life) -> None:
        """The oplog becomes too small for what the job has not read."""
        database = self.database
        if self.oracle.position >= database.streamable:
            return
        last = min(database.majority, len(database.log) - 1)  # an oplog is never empty
        self._damage("oplogs shortened", lambda: setattr(database, "kept", last))
        if self.blow == "oplogs shortened":
            self.end_sessions()

    def _drain(self, life: Life) -> None:
        super()._drain(life)
        self.database.majority = self.database.delivered = len(self.database.log)
