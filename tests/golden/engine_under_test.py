"""The one seam between the recorded cases and the engine: a job in this process, on one SparkSession.

Leaves the database and the statements to `runner.py`. A case is run with the settings that its
recording had, plus a files sink and a checkpoint below the directory that it is given.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from adapters.mongodb.job import run as run_mongodb
from adapters.mongodb.log.position import has_passed
from adapters.postgres.job import run as run_postgres
from adapters.postgres.server.visibility import normalised
from adapters.source.assembly.supplied import Onlookers
from adapters.spark.session import POSTGRES_JDBC, spark_session
from engine.config import parse
from tests.golden.roads import FilesRoad

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from engine.job.reports.observation import Observation
    from engine.model import Position
    from tests.golden.event import Event
    from tests.golden.roads import Road

Place_contra = TypeVar("Place_contra", contravariant=True)
"""A place in the log as a runner knows it: a WAL position, or a cluster time."""

FILES = FilesRoad()
_STOP_TIMEOUT_S = 120.0
_SEGMENT_BYTES = 16 << 20
_PAGE_BYTES = 8192


class Engine(Protocol[Place_contra]):
    """A running engine, as a case needs it. What asks about it raises what it died of."""

    def drained(self, place: Place_contra) -> bool:
        """Whether everything up to a place in the log has been sent, and no snapshot is in progress."""

    def ended(self) -> bool:
        """Whether it has come to its end by itself. Raises what it died of."""

    def stop(self) -> None:
        """End it cleanly, so that it can start again where it stopped. Raises what it died of."""

    def events(self) -> tuple[Event, ...]:
        """Everything that was sent so far, by this engine and those before it in the directory."""


class WatchedEngine(Engine[Place_contra], Protocol[Place_contra]):
    """One that can also be asked how it is getting on."""

    def started(self) -> bool:
        """Whether it has saved where its log begins."""

    def passed(self, place: Place_contra) -> bool:
        """Whether everything up to a place in the log has been sent."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[Place_contra]):
    """A source's way to run a job, and whether a position has reached a place."""

    run: Callable[..., None]
    reached: Callable[[Position, Place_contra], bool]


class Job(Generic[Place_contra]):
    """Our job, in a thread."""

    def __init__(
        self, kind: Kind[Place_contra], properties: Mapping[str, str], events_dir: Path, road: Road
    ) -> None:
        self._kind, self._events_dir, self._road = kind, events_dir, road
        self._settings = parse({**properties, **_own(events_dir), **road.properties(events_dir)})
        self._stop = threading.Event()
        self._died_of: BaseException | None = None
        self._seen: Observation | None = None
        self._thread = threading.Thread(target=self._run, name="engine under test", daemon=True)
        self._thread.start()

    def started(self) -> bool:
        """Whether a turn has been saved."""
        self._raise_if_dead()
        return self._seen is not None

    def passed(self, place: Place_contra) -> bool:
        """Whether a saved turn has passed `place`.

        A place that the stream passes in silence is saved with the next turn, a second later.
        """
        self._raise_if_dead()
        position = self._seen.state.position if self._seen else None
        return position is not None and self._kind.reached(position, place)

    def drained(self, place: Place_contra) -> bool:
        """Whether a saved turn has passed `place` and left nothing to snapshot."""
        return self.passed(place) and self._seen is not None and not self._seen.state.snapshot.tables

    def ended(self) -> bool:
        """Whether the thread is done though nobody asked it to stop."""
        self._raise_if_dead()
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Set the job's stop event and wait for its end."""
        self._stop.set()
        self._thread.join(_STOP_TIMEOUT_S)
        self._raise_if_dead()
        if self._thread.is_alive():
            raise RuntimeError(f"the job does not end within {_STOP_TIMEOUT_S:g} s of being asked to")

    def events(self) -> tuple[Event, ...]:
        """What the sink has committed."""
        return self._road.events(self._events_dir)

    def _run(self) -> None:
        try:
            self._kind.run(
                self._settings, spark=_spark(), stop=self._stop, onlookers=Onlookers(self._observe)
            )
        except BaseException as exc:  # noqa: BLE001  (told to whoever asks next)
            self._died_of = exc

    def _observe(self, seen: Observation) -> None:
        self._seen = seen

    def _raise_if_dead(self) -> None:
        if self._died_of is not None:
            raise self._died_of


def start(properties: Mapping[str, str], events_dir: Path, road: Road = FILES) -> Engine[int]:
    """Start the engine with a connector's properties; it goes on where an earlier one stopped.

    Raises ConfigError when the settings are refused.
    """
    return Job(Kind(run_postgres, _reached_lsn), properties, events_dir, road)


def start_mongodb(
    properties: Mapping[str, str], events_dir: Path, road: Road = FILES
) -> WatchedEngine[tuple[int, int]]:
    """The same for a MongoDB connector's properties."""
    return Job(Kind(run_mongodb, has_passed), properties, events_dir, road)


def _reached_lsn(position: Position, place: int) -> bool:
    return int(position.order[0]) >= normalised(place, _SEGMENT_BYTES, _PAGE_BYTES)


def _own(events_dir: Path) -> dict[str, str]:
    return {"tidemark.checkpoint": str(events_dir.with_name(f"{events_dir.name}-state"))}


def _spark() -> SparkSession:
    # the living one if there is one: a test of the session itself may have ended an earlier one
    return spark_session("local[2]", {}, (POSTGRES_JDBC,))
