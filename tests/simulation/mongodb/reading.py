"""The log's reader and the reader of windows on a simulated replica set: no thread, no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapters.mongodb.log.reader import MongoLog
from adapters.mongodb.snapshot.chunk_reader import ReadRuns
from tests.simulation.log_steps import LogSteps
from tests.simulation.mongodb.client import SimConnection
from tests.simulation.window_chunks import WindowChunks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.mongodb.log.reader import LogBounds, Polls
    from adapters.mongodb.log.stream import ChangeStream
    from adapters.mongodb.snapshot.chunk_reader import RunRead
    from engine.model import Position, StagedRun
    from engine.staging.rows import StagingArea
    from tests.simulation.mongodb.client import SimClient
    from tests.simulation.world import Life


class SimLog(MongoLog):
    """The adapter's log reader, which waits for nothing."""

    thread = LogSteps
    idle = closed = False

    @property
    def steps(self) -> LogSteps:
        """What reads."""
        steps = self._thread
        assert isinstance(steps, LogSteps)
        return steps

    def _read(self) -> None:
        if not self._has_room() or self.on_its_way():
            self.idle = True
            return
        before = self._end
        super()._read()
        self.idle = self._end == before

    def on_its_way(self) -> bool:
        """Whether the answer to the next question has not come yet."""
        raise NotImplementedError

    def close(self) -> None:
        """End the stream; the world may do so, too, when the job has died."""
        if not self.closed:
            self.closed = True
            super().close()


def log_opener(life: Life, client: SimClient) -> Callable[..., MongoLog]:
    """What reads the stream of a job."""

    class Log(SimLog):
        """The log of this job."""

        def on_its_way(self) -> bool:
            stream = client.streams.get(self._stream._cursor)
            return stream is not None and stream.on_its_way

    def opened(
        stream: ChangeStream,
        position: Position,
        monotonic: Callable[[], float],
        bounds: LogBounds,
        polls: Polls,
    ) -> MongoLog:
        log = Log(stream, position, monotonic, bounds, polls)
        log.steps.log, log.steps.life = log, life
        life.log = log
        return log

    return opened


class SimChunks(WindowChunks):
    """What reads windows, in the place of Spark."""

    def __init__(self, client: SimClient, life: Life, area: StagingArea) -> None:
        super().__init__(life, area)
        self._client = client
        self._connection: Any = SimConnection(client)

    @property
    def jobs(self) -> SimChunks:
        """What has the windows' places and ends their tasks."""
        return self

    def read(
        self,
        window_id: str,
        reads: Sequence[RunRead],
        at: tuple[int, int],
        *,
        most_tasks: int = 0,  # noqa: ARG002  one reads
    ) -> list[StagedRun]:
        """Read and stage all runs, one after the other, by the adapter's task."""
        self.fail_by("failed", "gone", "login", "room")
        found: list[tuple[int, StagedRun]] = []
        for read in reads:
            self.refuse_cancelled(window_id)
            found += ReadRuns(self._connection, at, self.area(window_id), 2)([read])
        return [staged for _index, staged in sorted(found, key=lambda run: run[0])]
