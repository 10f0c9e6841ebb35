"""PostgreSQL's world: the real adapter, down to its typed questions, over a simulated server."""

from __future__ import annotations

import copy
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from adapters.postgres.events.span_encoder import PostgresSpans
from adapters.postgres.server.visibility import format_lsn
from adapters.postgres.server.watches.lock_watch import LockWatch
from adapters.postgres.snapshot.initial import SlotTools
from adapters.postgres.source import PostgresSource
from adapters.postgres.tools import SourceTools
from adapters.source.initial import InitialSnapshot
from adapters.source.log.span_encoder import SpanEncoder
from adapters.staging.executor_blocks import ExecutorBlocks
from engine.clock import Clock
from engine.config import parse
from engine.errors import ConfigError, PositionLost, SinkRefused, SourceError, StateError
from engine.events.batch import EventForm
from engine.snapshot.snapshotters import snapshotter
from signals.answers import Outcome
from signals.parse.scope import scope_of
from tests.simulation.answers import Asked
from tests.simulation.postgres.cluster import Cluster, Slot
from tests.simulation.postgres.oracle import ALL, PostgresOracle, shown
from tests.simulation.postgres.questions import SimQuestions
from tests.simulation.postgres.reading import SimChunks, SimPool
from tests.simulation.postgres.server import SLOT, SimConnections, SimServer, log_opener
from tests.simulation.postgres.sink import RecordSink
from tests.simulation.postgres.tables import SIGNALS, TABLES, B, P, T, U
from tests.simulation.violation import Violation
from tests.simulation.world import Executors, Life, World, nothing_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.postgres.snapshot.slot_snapshot import Held
    from engine.config.settings import Settings
    from engine.errors import TidemarkError
    from engine.job.loop import Job
    from engine.model import CollectionId, Scope
    from signals.answers import Answer
    from tests.simulation.postgres.script import PostgresSetup
    from tests.simulation.sink import SimSink

_LOOK_MS = 250
_HINTS = re.compile(r"\(did you mean [^)]*\)")


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


class PostgresWorld(World):
    """Plays one history of PostgreSQL's world."""

    names: ClassVar[Mapping[str, CollectionId]] = {"t": T, "u": U, "b": B, "p": P}
    tables: ClassVar[tuple[CollectionId, ...]] = TABLES
    begins_ms: ClassVar[int] = 1_700_000_000_000
    initial: ClassVar[str] = "snapshot.mode"
    setup: PostgresSetup

    def _found(self) -> None:
        t, u, *p = tuple(self.setup.identities)
        identities = {T: (t,), U: (u,), B: ("f",), P: tuple(p)}
        self.database = Cluster(self.setup.xid, identities)
        self.server = SimServer(self.database, self.now)
        self.server.acknowledged, self.server.opened = self._flushed, self._log_opened
        self.oracle = PostgresOracle(self.database, knows=self.setup.knows)
        self._changing: list[tuple[Any, str]] = []
        self._looked_ms = 0
        self._holder = self._lacks = ""
        self._asked_at: dict[str, int] = {}
        self._moved = False
        self._next_log: Cluster | None = None
        self._copy: Cluster | None = None
        self._states: dict[str, bytes] | None = None

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
        first: InitialSnapshot[Held] = InitialSnapshot(settings.snapshot, chosen, clock.new_id(), clock.sleep)
        previous, self._holder = self._holder, f"process {life.number}"
        tools = SlotTools(settings, server, chosen, clock, watch, previous)
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
        return PostgresSource(settings, server, own)

    def sink_of(self, life: Life) -> SimSink:
        """A sink that takes rendered events."""
        return RecordSink(self.sent, life, life.epoch)

    def shown(self, event: Any) -> str:
        """An event in the story."""
        return shown(event)

    def excused(self, error: TidemarkError) -> bool:
        """A job must end where its log may be lost."""
        if isinstance(error, PositionLost | StateError | SinkRefused) and self._moved:
            self.happened["ends because the log is lost"] += 1
            return True
        return False

    def mended(self, error: TidemarkError) -> bool:
        """Create the publication, or wait until a reader that sleeps has lost the slot."""
        if isinstance(error, ConfigError) and self.database.publication is None:
            self.database.create_publication()
            return True
        if isinstance(error, SourceError) and "is in use" in error.message:
            self.pass_time(20.0)
            return True
        return False

    def _judge(self, turn: int, epoch: int, events: Any) -> None:
        if self._lacks and any(event.op != "r" for event in events):
            raise Violation(f"turn {turn} goes on with a log that lacks what was sent: {self._lacks}")
        super()._judge(turn, epoch, events)

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
        self.note(f"turn {state.turn} saved at {format_lsn(int(state.position.order[0]))}", "turn")
        self.oracle.told |= {fault.collection for fault in state.incomplete}
        aside = {fault.collection for fault in state.incomplete if fault.aside}
        self.oracle.pass_over(aside & self.oracle.unkeyed, int(state.position.order[0]))
        members = state.memory.get("members", {}).get("entries", {})
        self.database.watched |= {oid for oids in members.values() for oid in oids}

    def hear(self, answer: Answer) -> None:
        """An answer was given; one that accepts a signal may refuse some of its names at once."""
        # A table that is measured as empty is finished at once, a moment before the last deletions arrive.
        self.oracle.measured_empty = ": 0 rows read" in answer.text
        super().hear(answer)
        asked = self.answers.asked[answer.label]
        if answer.outcome is Outcome.ACCEPTED and "no collection matches" in answer.text:
            refused = _HINTS.sub("", answer.text.partition("no collection matches")[2])
            for collection in asked.collections:
                if f"'{collection}'" in refused:
                    asked.outcomes.setdefault(str(collection), []).append(Outcome.REJECTED)

    def tickets_of(self, label: str) -> tuple[int]:  # noqa: ARG002  READs don't tell
        """What all READs have."""
        return (ALL,)

    def turn_begins(self, life: Life, job: Job) -> bool:
        """Whether the job is to stop: at the end of the history, once it has come to rest."""
        self.step(life, "turn")
        windows = len(life.source._open.windows.opened) if life.source._open else 0
        if windows > self._windows:
            self.happened["windows"] += windows - self._windows
            self.happened["overlapping windows"] += windows > 1
            self.note(f"window opens, {windows} in progress", "window")
        self._windows = windows
        return self.rests(job)

    _windows = 0

    def at_rest(self, job: Job) -> bool:
        """Whether everything was sent and answered."""
        return (
            self.oracle.position == len(self.database.log)
            and not job.state.snapshot.tables
            and not self.answers.waiting()
            and not self.oracle.untold
        )

    # Steps.

    def _hit(self, life: Life, newest: int, what: str, index: int, other: int, visible: int) -> None:
        """Change a row of a table that a window in progress reads."""
        opened = life.source._open if life.source else None
        windows = [window.oids for window in opened.windows.opened.values()] if opened else []
        if opened and opened.windows.meanwhile:
            windows.append(opened.windows.meanwhile.oids)
            self.happened["windows opening beside the stream"] += 1
        found = sorted(windows[-1 if newest else 0]) if windows else []
        oids = [oid for oid in found if self.database.tables[oid].id in self.tables]
        if not oids:
            self._tx(life, ("t", what, index, other), visible)
            return
        table = self.database.tables[oids[index % len(oids)]]
        name = "n" if table.id == B else "id"
        keys = sorted({one.values[name] for one in table.versions if not one.xmax})
        if not keys:
            return
        number = keys[index % len(keys)]
        if table.id != B and what in {"move", "slip"} and other % 3 == 0:
            other = number + 1
        self._tx(life, (table.id.parts[1], what, number, other), visible)
        self.happened["rows hit in a window"] += 1

    def _execute(self, _life: Life, mask: int, type_: str = "incremental") -> None:
        chosen = tuple(table for bit, table in enumerate(self.tables) if mask >> bit & 1)
        if type_ == "incremental":
            # A table without a key must be told by what it is cut.
            keyed = tuple(table for table in chosen if table != B)
            if B in chosen:
                self._ask((B,), {"surrogate-key": "n"})
            if keyed:
                self._ask(keyed, {})
            return
        self._ask(chosen, {"type": type_})

    def _ask(
        self, chosen: tuple[CollectionId, ...], more: Mapping[str, Any], scope: Scope | None = None
    ) -> None:
        fields = {**more, "data-collections": [f"public.{one.parts[1]}" for one in chosen]}
        data = orjson.dumps(fields).decode()
        if "keys" in fields or "ranges" in fields:
            scope = scope_of(data, fields)
        self._signal("execute", chosen, f"s{self._at}|execute-snapshot|{data}", scope)

    def _execute_some(self, _life: Life, table: str, form: int, *rest: int) -> None:
        """Ask for some rows of a table, or for all of them by another key."""
        first, second, third, priority, rows_per_s = rest
        fields: dict[str, Any] = {"priority": priority}
        if rows_per_s:
            fields["max-rows-per-second"] = rows_per_s
        if form == 0:
            fields["keys"] = [[key] for key in (first, second, third)]
        elif form == 3:
            fields["surrogate-key"] = "pos"
        else:
            ends = sorted((first, second))
            fields["ranges"] = [{"from": [ends[0]], "to": [ends[1] + 1]}, {"from": [third]}][: form + 1]
        self._ask((self.names[table],), fields)

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

    def _poison(self, _life: Life, table: str, key: int) -> None:
        self.poisoned.add((self.names[table], key))
        self.happened["rows that can't be read"] += 1

    def _heal(self, _life: Life) -> None:
        self.poisoned.clear()

    def _alter(self, _life: Life, table: str, how: str = "rewrite") -> None:
        found = self.database.named(self.names[table])
        self._changing.append((found, how))
        self.server.waiting.append(found)

    def _alter_now(self) -> None:
        """Change definitions whose tables nobody reads or writes."""
        database = self.database
        left = []
        for table, how in self._changing:
            writes = any(one.table is table for other in database.open.values() for one in other.changes)
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

    def _back_up(self, _life: Life) -> None:
        """Copy the server: a backup, or a standby that lags behind from now on."""
        if self._copy is None and self.oracle.started:
            self._copy = copy.deepcopy(self.database)

    def _restore(self, life: Life) -> None:
        """Put the backup in the server's place."""
        self._replace(life, "restored", promoted=False)

    def _fail_over(self, life: Life) -> None:
        """Promote the standby."""
        self._replace(life, "failed over", promoted=True)

    def _replace(self, life: Life, how: str, *, promoted: bool) -> None:
        found, self._copy = self._copy, None
        if found is None or self._changing or len(self._seats) > 1 or self._moved:
            return
        self.happened[how] += 1
        self._moved = True
        self.server.end_all()
        for slot in sorted(found.open):
            found.abort(slot)
        found.take_over(self.database, promoted=promoted)
        self.database = self.server.cluster = self._next_log = found
        lost = {label for label, at in self._asked_at.items() if at >= len(found.log)}
        for label in lost & self.answers.asked.keys():
            # The signal is in no log any more; but it may have been obeyed before.
            self.answers.asked[label].kind = "lost"
            self.answers.asked[label].outcomes.setdefault("", [])
        del life

    def _log_opened(self) -> None:
        """The log is opened. What was taken from the one before belongs to a turn that has ended by now."""
        if self._next_log is not None:
            self.oracle.cluster, self._next_log = self._next_log, None
            if self.oracle.position > len(self.oracle.cluster.log):
                self._lacks = "it was restored or promoted"

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
        if slot is None or self._moved or self.oracle.last_turn < 2 or self._state_is_new():
            return
        self.happened[what] += 1
        self._moved = True
        self.server.end(slot.reader)
        change()

    def _state_is_new(self) -> bool:
        """Whether no turn was saved yet."""
        return not any(re.fullmatch(r"turn-\d+\.json", name) for name in self.directory.files)

    def _keep_state(self, _life: Life) -> None:
        """Copy the checkpoint."""
        if not self._state_is_new():
            self._states = dict(self.directory.files)

    def _stale_state(self, life: Life) -> None:
        """Put the copy of the checkpoint in its place, while no job runs."""
        if self._states is None or self._moved or len(self._seats) > 1:
            return
        self.happened["stale states"] += 1
        self._moved = True
        self._crash(life)
        self.directory.files.clear()
        for name, content in self._states.items():
            self.directory.write(name, content)

    def _drain(self, life: Life) -> None:
        super()._drain(life)
        for other in self._lives.values():
            if other is not life:
                self.server.end_all(other)
        if self.database.publication is None:
            self.database.create_publication()
