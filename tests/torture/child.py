"""The job under torture, in a process that may be killed at any time: `python -m tests.torture.child`.

Reads orders from standard input, one line of JSON each, and writes what it does to a journal. `play` runs a
job until `stop`, restarting it from its saved state whenever it is dropped. `drop` drops it at the next step.
One SparkSession serves all jobs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import logging
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

import orjson

from adapters.kafka import topics as kafka_topics
from adapters.mongodb.documents import extended_json
from adapters.mongodb.documents.bson_walk import Kind
from adapters.mongodb.job import building as building_mongodb
from adapters.mongodb.snapshot.chunk_reader import ChunkReader as MongoReader
from adapters.postgres.job import building as building_postgres
from adapters.postgres.server import connection as postgres_server
from adapters.postgres.server.watches import column_watch, membership
from adapters.postgres.snapshot.chunk_reader import ChunkReader as PostgresReader
from adapters.source.assembly.supplied import Onlookers
from adapters.sqlserver.snapshot.chunk_reader import ChunkReader as SqlServerReader
from adapters.system import system_clock
from engine.config import parse
from engine.errors import ConfigError, LeaseLost
from engine.snapshot.pace.slices import Slices
from tests.torture.clock import DriversClock
from tests.torture.guards import GUARDS
from tests.torture.journal import Journal
from tests.torture.mutants import switched_off
from tests.torture.on_cluster import session
from tests.torture.script import Fuse
from tests.torture.sqlserver_reach import building_on_stand_in
from tests.torture.steps import Dropped, Fuses, Lull, Lulls, Turns, stepped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from engine.job.loop import Job
    from engine.job.parts import JobParts
    from engine.job.reports.observation import Observation
    from signals.answers import Answer


_TAKEN_OVER_WITHIN_S = 6.0
_BUILDING: dict[str, Callable[..., Any]] = {
    "postgres": building_postgres,
    "mongodb": building_mongodb,
    "sqlserver": building_on_stand_in,
}


@dataclass(slots=True)
class OneJob:
    """One run of the job, from its lease to its end. Set `stop` to end it."""

    order: dict[str, Any]
    journal: Journal
    lulls: Lulls
    fuses: Fuses
    stop: threading.Event
    turns: Turns = field(default_factory=Turns)
    lease: Any = None
    building: Any = None

    def run(self, spark: SparkSession) -> None:
        """Run it. Raises Dropped at a fuse, and LeaseLost if it may not continue."""
        properties = self.order["properties"]
        building = _BUILDING[source_of(properties)](
            parse(properties),
            spark,
            Onlookers(self._observed, self._answered),
            clock=system_clock(self.stop.wait),
            wrap=self._stepped,
        )
        job: Job = building.__enter__()
        self.building = building
        if self.order["slice_bytes"]:
            job._windows._emitter._slices = Slices(job._pace.slice_s, self.order["slice_bytes"])
        releases = job._isolation.topics._releases
        releases._first_s, releases._longest_s = 0.2, 1.0
        self.journal.note("started")
        job.run(self.stop.is_set)

    def _stepped(self, job_parts: JobParts) -> JobParts:
        self.lease = job_parts.lease
        return stepped(job_parts, self.fuses, self.lulls, self.turns)

    def close(self) -> None:
        """Release everything, like a job that ends normally."""
        if self.building is not None:
            self.building, building = None, self.building
            building.__exit__(None, None, None)

    def _observed(self, seen: Observation) -> None:
        state = seen.state
        position = list(state.position.order) if state.position else None
        self.journal.note(
            "turn",
            turn=state.turn,
            position=position,
            queued=len(state.snapshot.tables),
            events=seen.events,
            incomplete=[str(entry.collection) for entry in state.incomplete],
            aside=[str(entry.collection) for entry in state.incomplete if entry.aside],
            letters={
                str(entry.collection): entry.kept + entry.dropped
                for entry in state.incomplete
                if not entry.streamed
            },
        )

    def _answered(self, answer: Answer) -> None:
        self.journal.note(
            "answer",
            turn=self.turns.committed,
            id=answer.id,
            outcome=str(answer.outcome),
            text=answer.text,
        )


@dataclass(slots=True)
class Play:
    """One `play`: its order, and whether to stop.

    A job that falls asleep is taken over by a `rival`, a second job with the same properties, which runs
    until the first one notices.
    """

    order: dict[str, Any]
    journal: Journal
    lulls: Lulls
    fuses: Fuses = field(init=False)
    stop: threading.Event = field(default_factory=threading.Event)
    spark: SparkSession | None = None
    job: OneJob | None = None
    rival: Rival | None = None
    wrecks: list[OneJob] = field(default_factory=list)

    def __post_init__(self) -> None:
        fuses = [Fuse(**fuse) for fuse in self.order["fuses"]]
        self.fuses = Fuses(fuses, self.journal, self._sleep)

    @classmethod
    def of(cls, order: dict[str, Any]) -> Play:
        """A play, from its order."""
        path = Path(order["journal"])
        return cls(order, Journal(path), Lulls(order["lulls"], Random(order["seed"]), path.parent))

    def run(self, spark: SparkSession) -> None:
        """Run the job until `stop`, whatever happens to it on the way."""
        self.spark = spark
        while not self.stop.is_set():
            self.job = job = OneJob(self.order, self.journal, self.lulls, self.fuses, self.stop)
            try:
                job.run(spark)
            except Dropped:
                # As when a process ends: nothing is cleaned up, and others see that it is gone.
                job.lease.release()
                self.wrecks.append(job)
                continue
            except LeaseLost:
                self.journal.note("lost")
                job.close()
                continue
            except ConfigError as error:
                if not self._comes_back(job, error):
                    break
                continue
            except Exception as error:  # noqa: BLE001  whatever kills it goes into the journal
                self._die(job, error)
                break
            finally:
                self._end_rival()
            job.close()

    def _comes_back(self, job: OneJob, error: ConfigError) -> bool:
        """Whether the error is temporary: without a publication no job can start."""
        if "publication" not in error.message:
            self._die(job, error)
            return False
        # As when a process ends: a lease that is renewed forever would block the next job.
        job.close()
        self.stop.wait(0.1)
        return True

    def _die(self, job: OneJob, error: Exception) -> None:
        self.journal.note("died", error=f"{type(error).__name__}: {error}")
        self.wrecks.append(job)

    def _sleep(self) -> None:
        """Pause like a stopped process, until another job has taken over and made some turns."""
        assert self.job is not None
        assert self.spark is not None
        self.job.lease.abandon()
        self.rival = Rival(self, self.spark)
        self.rival.start()
        self.rival.await_turns(self.stop)

    def _end_rival(self) -> None:
        if self.rival is not None:
            self.rival.end()
            self.rival = None
            self.journal.note("relieved")

    def end(self) -> None:
        """Release what was dropped. Only now, since a crash cleans nothing up."""
        for wreck in self.wrecks:
            wreck.close()
        self.journal.note("stopped")
        self.journal.close()


class Rival:
    """A second job in its own thread, without fuses."""

    def __init__(self, play: Play, spark: SparkSession) -> None:
        self._play, self._spark, self._stop = play, spark, threading.Event()
        fuses = Fuses([], play.journal, lambda: None)
        self._job = OneJob(play.order, play.journal, play.lulls, fuses, self._stop)
        self._thread = threading.Thread(target=self._run, name="rival")

    def start(self) -> None:
        """Start it in standby, to take over."""
        self._thread.start()

    def await_turns(self, stop: threading.Event) -> None:
        """Wait until it has taken over, or a few seconds if it has nothing to send."""
        until = time.monotonic() + _TAKEN_OVER_WITHIN_S
        while not self._job.turns.committed and self._thread.is_alive() and not stop.is_set():
            if time.monotonic() > until:
                break  # there is nothing to send
            time.sleep(0.02)

    def end(self) -> None:
        """Stop it, and wait for it to end."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._job.run(self._spark)
        except Exception as error:  # noqa: BLE001  whatever kills it goes into the journal
            if not (isinstance(error, LeaseLost) and self._stop.is_set()):
                self._play.journal.note("died", error=f"{type(error).__name__}: {error}")
        finally:
            self._job.close()


def source_of(properties: dict[str, str]) -> str:
    """The source that a job with these properties reads."""
    if "mongodb.connection.string" in properties:
        return "mongodb"
    connector = properties.get("connector.class", "")
    return "sqlserver" if connector.endswith("SqlServerConnector") else "postgres"


class NoWriter(Exception):
    """A document holds a value that this process can't write."""


def _writers_without_code() -> list[Any]:
    """The value writers of a process that does not know BSON code. Spark's workers do know it."""

    def refuse(*_value: object) -> str:
        raise NoWriter

    return [refuse if kind == Kind.CODE else writer for kind, writer in enumerate(extended_json._WRITERS)]


@contextlib.contextmanager
def slow_reading(lull: Lull, folder: Path) -> Iterator[None]:
    """Make Spark start reading a window late now and then, as if its executors were busy.

    The file `reads` in `folder` grows by a byte with each window that was read.
    """
    readers: tuple[Any, ...] = (PostgresReader, MongoReader, SqlServerReader)
    reads = [reader.read for reader in readers]

    def late(read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(*args: Any, **more: Any) -> Any:
            lull.pass_slowly()
            found = read(*args, **more)
            with (folder / "reads").open("ab") as reads_done:
                reads_done.write(b".")
            return found

        return reading

    for reader, read in zip(readers, reads, strict=True):
        reader.read = late(read)
    try:
        yield
    finally:
        for reader, read in zip(readers, reads, strict=True):
            reader.read = read


@contextlib.contextmanager
def patient_for(silence_s: float) -> Iterator[None]:
    """Make a job give up a server after this silence; 0 keeps its own limits."""
    if not silence_s:
        yield
        return
    with (
        mock.patch.object(postgres_server, "_LEAST_SILENCE_S", silence_s),
        mock.patch.object(postgres_server, "_MOST_SILENCE_S", silence_s),
        mock.patch.object(postgres_server.Server, "silence_s", return_value=silence_s),
    ):
        yield


class Stage:
    """Follows orders. The plays run one after the other in the main thread."""

    def __init__(self) -> None:
        self._clock = DriversClock()
        self._spark: SparkSession | None = None
        self._play: Play | None = None
        self._next = threading.Condition()
        self._orders: list[dict[str, Any] | None] = []

    def listen(self) -> None:
        """Read orders until the input ends, then exit."""
        for line in sys.stdin:
            order = orjson.loads(line)
            with self._next:
                if order["do"] == "play":
                    self._orders.append(order)
                elif self._play is not None and order["do"] == "stop":
                    self._play.stop.set()
                elif self._play is not None and order["do"] == "drop":
                    self._play.fuses.drop = True
                elif order["do"] == "skew":
                    self._clock.ahead_s = order["ahead_s"]
                self._next.notify_all()
        os._exit(0)

    def run(self) -> None:
        """Play what is ordered."""
        while True:
            with self._next:
                self._next.wait_for(lambda: self._orders)
                order = self._orders.pop(0)
                assert order is not None
                self._play = play = Play.of(order)
            self._spark = self._spark or session()
            self._clock.ahead_s = order["ahead_s"]
            guards = GUARDS[source_of(order["properties"])]
            try:
                with (
                    slow_reading(play.lulls.of("read"), Path(order["journal"]).parent),
                    self._clock.shown(),
                    patient_for(order["silence_s"]),
                    mock.patch.object(membership, "_EVERY_S", 0.0),
                    mock.patch.object(column_watch, "_EVERY_S", 0.3),
                    mock.patch.object(kafka_topics, "_LOOK_EVERY_S", 1.0),
                    mock.patch.object(extended_json, "_WRITERS", _writers_without_code()),
                    switched_off(guards.get(order.get("mutant", ""))),
                ):
                    play.run(self._spark)
            finally:
                play.end()
            gc.collect()


def main() -> None:
    """Serve until the standard input ends."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    stage = Stage()
    threading.Thread(target=stage.listen, name="orders", daemon=True).start()
    stage.run()


if __name__ == "__main__":
    main()
