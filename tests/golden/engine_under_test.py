"""The one seam between the recorded cases and the engine: a job in this process, on one SparkSession.

Leaves the database and the statements to `runner.py`. A case is run with the settings that its
recording had, plus a files sink and a checkpoint below the directory that it is given.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from adapters.postgres.job import Onlookers, run
from adapters.postgres.visibility import normalised
from adapters.spark.session import POSTGRES_JDBC, spark_session
from engine.config import parse
from tests.golden.event import Event, emitted_events

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from engine.job import Observation

_STOP_TIMEOUT_S = 30.0
_SEGMENT_BYTES = 16 << 20
_PAGE_BYTES = 8192


class Engine(Protocol):
    """A running engine, as a case needs it."""

    def drained(self, position: int) -> bool:
        """Whether everything up to a WAL position has been sent, and no snapshot is in progress.

        Raises what the engine died of.
        """

    def stop(self) -> None:
        """End it cleanly, so that it can start again where it stopped. Raises what it died of."""

    def events(self) -> tuple[Event, ...]:
        """Everything that was sent so far, by this engine and those before it in the directory."""


class Job:
    """Our job, in a thread."""

    def __init__(self, properties: Mapping[str, str], events_dir: Path) -> None:
        self._events_dir = events_dir
        self._settings = parse({**properties, **_own(events_dir)})
        self._stop = threading.Event()
        self._died_of: BaseException | None = None
        self._seen: Observation | None = None
        self._thread = threading.Thread(target=self._run, name="engine under test", daemon=True)
        self._thread.start()

    def drained(self, position: int) -> bool:
        """Whether a saved turn has passed `position` and left nothing to snapshot.

        A position that the stream passes in silence is saved with the next turn, at most ten
        seconds later.
        """
        self._raise_if_dead()
        seen = self._seen
        if seen is None or seen.state.position is None:
            return position == 0
        target = normalised(position, _SEGMENT_BYTES, _PAGE_BYTES)
        return int(seen.state.position.order[0]) >= target and not seen.state.snapshot.tables

    def stop(self) -> None:
        """Set the job's stop event and wait for its end."""
        self._stop.set()
        self._thread.join(_STOP_TIMEOUT_S)
        self._raise_if_dead()
        if self._thread.is_alive():
            raise RuntimeError(f"the job does not end within {_STOP_TIMEOUT_S:g} s of being asked to")

    def events(self) -> tuple[Event, ...]:
        """What the files sink has committed."""
        return emitted_events(self._events_dir)

    def _run(self) -> None:
        try:
            run(self._settings, spark=_spark(), stop=self._stop, onlookers=Onlookers(self._observe))
        except BaseException as exc:  # noqa: BLE001  (told to whoever asks next)
            self._died_of = exc

    def _observe(self, seen: Observation) -> None:
        self._seen = seen

    def _raise_if_dead(self) -> None:
        if self._died_of is not None:
            raise self._died_of


def start(properties: Mapping[str, str], events_dir: Path) -> Engine:
    """Start the engine with a connector's properties; it goes on where an earlier one stopped.

    Raises ConfigError when the settings are refused.
    """
    return Job(properties, events_dir)


def _own(events_dir: Path) -> dict[str, str]:
    return {
        "tidemark.sink": "files",
        "tidemark.sink.files.dir": str(events_dir),
        "tidemark.checkpoint": str(events_dir.with_name(f"{events_dir.name}-state")),
    }


def _spark() -> SparkSession:
    # the living one if there is one: a test of the session itself may have ended an earlier one
    return spark_session("local[2]", {}, (POSTGRES_JDBC,))
