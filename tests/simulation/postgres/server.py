"""The server as the adapter reaches it: connections, each with a process, and the log's walsender."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from adapters.postgres.log.reader import PostgresLog
from adapters.postgres.log.stream_opening import open_stream
from adapters.postgres.server.connection import Identity, Server
from adapters.postgres.server.text_settings import reader_name
from adapters.postgres.server.visibility import format_lsn
from engine.errors import Loss, PositionLost, SourceError
from tests.simulation.fallible_calls import fallible
from tests.simulation.log_steps import LogSteps
from tests.simulation.postgres import messages
from tests.simulation.postgres.cluster import Slot
from tests.simulation.postgres.questions import SimQuestions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from adapters.postgres.log.reader import SessionTools
    from adapters.postgres.log.stream.subscription import Start, Subscription
    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.server.visibility import Visibility
    from engine.config.settings import Settings
    from tests.simulation.postgres.cluster import Cluster
    from tests.simulation.postgres.tables import Logged, SimTable
    from tests.simulation.world import Life

SLOT = "slot"
_SENDER_TIMEOUT_MS = 60_000


@dataclass(slots=True)
class SimServer:
    """The server of a world, over promotions. `waiting` are tables that somebody waits to change."""

    cluster: Cluster
    now_s: Callable[[], float]
    waiting: list[SimTable] = field(default_factory=list)
    processes: dict[int, Process] = field(default_factory=dict)
    snapshots: dict[str, Process] = field(default_factory=dict)
    _pids: Iterator[int] = field(default_factory=lambda: count(1))
    acknowledged: Callable[[int], None] = lambda _lsn: None
    opened: Callable[[], None] = lambda: None

    def process(self, life: Life) -> Process:
        """A new process for a connection."""
        found = Process(self, life, next(self._pids))
        self.processes[found.pid] = found
        return found

    def end(self, pid: int) -> None:
        """End a process."""
        if pid in self.processes:
            self.processes[pid].close()

    def end_silent(self, now_ms: int) -> None:
        """End readers of the log from which nothing was heard for a minute, as wal_sender_timeout says."""
        for slot in self.cluster.slots.values():
            process = self.processes.get(slot.reader)
            if process is not None and now_ms - process.heard_ms > _SENDER_TIMEOUT_MS:
                process.close()

    def end_all(self, life: Life | None = None) -> None:
        """End the processes of a job that has died, or all."""
        for process in list(self.processes.values()):
            if life is None or process.life is life:
                process.close()

    def export(self, process: Process) -> str:
        """A name for a process's snapshot."""
        name = f"{process.pid:08X}-{len(self.snapshots):08X}-1"
        self.snapshots[name] = process
        return name

    def exported(self, name: str) -> tuple[str, Visibility]:
        """The snapshot of this name, while its process holds it."""
        process = self.snapshots.get(name)
        if process is None or process.closed or process.held is None:
            raise SourceError(f"invalid snapshot identifier: {name!r}")
        return process.held


class Process:
    """A process of the server, behind one connection."""

    def __init__(self, server: SimServer, life: Life, pid: int) -> None:
        self.server, self.life, self.pid = server, life, pid
        self.held: tuple[str, Visibility] | None = None
        self.closed = False
        self.heard_ms = life.world.time_ms

    @property
    def cluster(self) -> Cluster:
        """The server's data."""
        return self.server.cluster

    def asked(self, port: str = "ask") -> None:
        """A question arrives."""
        if self.closed:
            raise SourceError("the connection is closed")
        with fallible(self.life, port):
            pass
        if self.closed:
            raise SourceError("the server closed the connection unexpectedly")

    def begun(self) -> None:
        """A transaction begins."""
        self.end_transaction()

    def end_transaction(self) -> None:
        """Release snapshot and locks."""
        self.held = None
        self.cluster.locks.pop(self.pid, None)

    def snapshot(self) -> Visibility:
        """What a query sees now."""
        return (self.held or self.cluster.visibility())[1]

    def close(self) -> None:
        """End."""
        self.closed = True
        self.end_transaction()
        self.server.processes.pop(self.pid, None)
        for slot in self.cluster.slots.values():
            if slot.reader == self.pid:
                slot.reader, slot.application = 0, ""


class SimConnections(Server):
    """The adapter's `Server` for one job."""

    def __init__(self, server: SimServer, life: Life, owner: str) -> None:
        self._server, self._life, self._owner = server, life, owner
        self.database = "db"
        self._times_lost = 0

    @property
    def log_conninfo(self) -> str:
        """Who reads the log."""
        return reader_name(self._owner)

    def admission(self) -> AbstractContextManager[None]:
        """Everybody is let in."""
        return nullcontext()

    def open(self, *, within_s: float | None = None) -> Questions:  # noqa: ARG002  answers come at once
        """A connection to ask over."""
        with fallible(self._life, "connect"):
            return SimQuestions(self._server.process(self._life))

    def identity(self, *, replicates: bool = True) -> Identity:  # noqa: ARG002  it is told anyway
        """Which server this is, and where its log ends."""
        with fallible(self._life, "open_log"):
            cluster = self._server.cluster
            return Identity("7000", cluster.timeline, "db", cluster.flushed)

    def history(self, timeline: int) -> str:  # noqa: ARG002  of the newest
        """The history of the timeline."""
        return self._server.cluster.history

    @contextmanager
    def replication(self) -> Iterator[Any]:
        """A connection for replication commands."""
        with fallible(self._life, "connect"):
            process = self._server.process(self._life)
        try:
            yield _Commands(process)
        finally:
            process.close()


class _Result:
    """The answer to a command that creates a slot."""

    status = 2  # PGRES_TUPLES_OK

    def __init__(self, *values: bytes | None) -> None:
        self._values, self.nfields = values, len(values)

    def get_value(self, _row: int, column: int) -> bytes | None:
        """A value."""
        return self._values[column]


class _Commands:
    """libpq's face of a replication connection that creates a slot."""

    socket = -1

    def __init__(self, process: Process) -> None:
        self._process, self._result = process, _Result()

    def send_query(self, text: bytes) -> None:
        """Create a slot. Its snapshot shows all that committed before it, and nothing else."""
        process = self._process
        process.asked()
        cluster = process.cluster
        if SLOT in cluster.slots:
            raise SourceError(f"replication slot {SLOT!r} already exists")
        # The server waits until everybody who writes has ended.
        for xid in list(cluster.hidden):
            cluster.show(xid)
        for slot in sorted(cluster.open):
            cluster.commit(slot, visible=True)
        cluster.slots[SLOT] = Slot(cluster.lsn)
        process.held = cluster.visibility()
        process.server.acknowledged(-1)
        name = process.server.export(process).encode() if b" EXPORT" in text else b""
        self._result = _Result(b"slot", format_lsn(cluster.lsn).encode(), name, b"pgoutput")

    def is_busy(self) -> bool:
        """It has answered."""
        return False

    def get_result(self) -> _Result:
        """The answer."""
        return self._result


class WalSender:
    """libpq's face of a session that sends the log of a slot, message by message."""

    server_version = 180_000
    socket = -1
    error_message = b"terminating connection due to administrator command"

    def __init__(self, process: Process, slot: Slot, lsn: int) -> None:
        self._process, self._slot = process, slot
        start = max(lsn, slot.confirmed)
        cluster = process.cluster
        self._next = next(
            (at for at, commit in enumerate(cluster.commits) if commit.lsn >= start), len(cluster.commits)
        )
        self._out: deque[tuple[int, bytes]] = deque()
        self._relations: dict[int, Logged] = {}
        self._asked = self.spoke = False
        self.told = start

    def get_copy_data(self, _nonblocking: int) -> tuple[int, bytes]:
        """The next message: its size, 0 if there is none now, -1 at the end."""
        if self._process.closed:
            return -1, b""
        cluster = self._process.cluster
        while not self._out and self._next < len(cluster.commits):
            commit = cluster.commits[self._next]
            if commit.entries and commit.entries[0].at >= cluster.delivered:
                break
            self._next += 1
            if commit.entries:
                self._decode(commit)
            else:
                self.told = commit.end
        if self._out and self._out[0][0] < cluster.delivered:
            payload = self._out.popleft()[1]
            self.spoke = True
            return len(payload), payload
        if not self._out and self._asked:
            self._asked, self.spoke = False, True
            if self._next == len(cluster.commits):
                self.told = max(self.told, cluster.flushed)
            payload = messages.keepalive(self.told)
            return len(payload), payload
        return 0, b""

    def _decode(self, commit: Any) -> None:
        """A commit's messages; each waits until the entry of its number is delivered."""
        out = self._out.append
        out((commit.entries[0].at, messages.begin(commit)))
        for entry in commit.entries:
            if self._relations.get(entry.relation.oid) != entry.relation:
                self._relations[entry.relation.oid] = entry.relation
                out((entry.at, messages.relation(entry.relation, entry.lsn)))
            out((entry.at, messages.entry(entry)))
        out((commit.entries[-1].at, messages.end(commit)))
        self.told = commit.end

    def put_copy_data(self, status: bytes) -> None:
        """A status of the reader: what is safe, and whether it wants an answer."""
        if self._process.closed:
            return
        self._process.heard_ms = self._process.life.world.time_ms
        flushed = int.from_bytes(status[9:17], "big")
        if flushed > self._slot.confirmed:
            self._process.server.acknowledged(flushed)
            self._slot.confirmed = flushed
        self._asked |= bool(status[-1])

    def flush(self) -> int:
        """Everything is sent at once."""
        return 0

    def consume_input(self) -> None:
        """Everything has arrived."""

    def get_result(self) -> None:
        """No result."""


class _Session:
    """A session of the log."""

    def __init__(self, process: Process, pgconn: WalSender) -> None:
        self.pgconn, self._process = pgconn, process

    def close(self) -> None:
        """End it."""
        self._process.close()


class SimLog(PostgresLog):
    """The adapter's log reader, whose connection is simulated and which waits for nothing."""

    thread = LogSteps
    idle = closed = False

    def _wait(self, until_s: float) -> None:  # noqa: ARG002  the caller waits
        self.idle = True
        sender: Any = self._intake.connection
        if sender.spoke:
            sender.spoke, self._silence.heard_s = False, self._clock.monotonic()

    def close(self) -> None:
        """End the session; the world may do so, too, when the job has died."""
        if not self.closed:
            self.closed = True
            super().close()

    @property
    def steps(self) -> LogSteps:
        """What reads."""
        steps = self._thread
        assert isinstance(steps, LogSteps)
        return steps


def log_opener(server: SimServer, life: Life) -> Callable[..., PostgresLog]:
    """What opens the log of the simulated server."""

    def replicate(application: str, _subscription: Subscription, lsn: int, seen: Identity | None) -> _Session:
        with fallible(life, "open_log"):
            process = server.process(life)
            cluster = server.cluster
            slot = cluster.slots.get(SLOT)
            problem = ""
            if slot is None:
                problem = "replication slot does not exist"
            elif slot.reader:
                problem = f"replication slot is active for PID {slot.reader}"
            elif cluster.publication is None:
                problem = "the publication does not exist"
            elif seen is not None and cluster.timeline != seen.timeline:
                problem = "it was promoted meanwhile"
            elif seen is not None and cluster.flushed < (seen.lsn or 0):
                problem = "it was restored meanwhile"
            if slot is None or problem:
                process.close()
                raise SourceError(problem)
            if slot.lost:
                process.close()
                raise PositionLost("replication slot was invalidated", loss=Loss.SLOT_INVALIDATED)
            slot.reader, slot.application = process.pid, application
            server.opened()
            return _Session(process, WalSender(process, slot, lsn))

    def opened(
        settings: Settings, connections: Server, start: Start, silence_s: float, tools: SessionTools
    ) -> PostgresLog:
        tools = replace(tools, replicate=cast("Any", replicate))
        log = open_stream(settings, connections, start, silence_s, tools, SimLog)
        assert isinstance(log, SimLog)
        log.steps.log, log.steps.life = log, life
        life.log = log
        return log

    return opened
