"""The job under torture, in a process that may be killed at any time: `python -m tests.torture.child`.

Reads orders from its standard input, a line of JSON each, and tells in a journal what it does: `play`
runs a job until `stop`, beginning it anew from its saved state whenever it drops it; `drop` has it
dropped at the next step. The SparkSession serves one job after the other.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import orjson

from adapters.mongodb.chunks import ChunkReader as MongoReader
from adapters.mongodb.job import building as building_mongodb
from adapters.postgres.chunks import ChunkReader as PostgresReader
from adapters.postgres.job import building as building_postgres
from adapters.spark.session import POSTGRES_JDBC, spark_session
from adapters.sqlserver.chunks import ChunkReader as SqlServerReader
from adapters.wiring import Onlookers
from engine.config import parse
from tests.torture.journal import Journal
from tests.torture.mutants import MUTANTS, switched_off
from tests.torture.script import Fuse
from tests.torture.sqlserver_mutants import SQLSERVER_MUTANTS
from tests.torture.sqlserver_reach import building_on_stand_in
from tests.torture.steps import Dropped, Fuses, Lull, Lulls, Turns, stepped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from engine.job import Job, Observation
    from signals.answers import Answer


_GUARDS = {**MUTANTS, **SQLSERVER_MUTANTS}


@dataclass(slots=True)
class Play:
    """One `play`: what it was told, and whether it shall stop."""

    order: dict[str, Any]
    journal: Journal
    fuses: Fuses
    lulls: Lulls
    stop: threading.Event = field(default_factory=threading.Event)
    turns: Turns = field(default_factory=Turns)
    wrecks: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, order: dict[str, Any]) -> Play:
        """A play, from its order."""
        path = Path(order["journal"])
        journal = Journal(path)
        lulls = Lulls(order["lulls"], Random(order["seed"]), path.parent)
        return cls(order, journal, Fuses([Fuse(**one) for one in order["fuses"]], journal), lulls)

    def run(self, spark: SparkSession) -> None:
        """Run the job until it is to stop, whatever becomes of it on the way."""
        while not self.stop.is_set():
            try:
                self._begin(spark).run(self.stop.is_set)
            except Dropped:
                continue
            except Exception as error:  # noqa: BLE001  whatever it dies of is what we are here to tell
                self.journal.note("died", error=f"{type(error).__name__}: {error}")
                break

    def end(self) -> None:
        """Let go of what was dropped: only now, since a crash cleans nothing up."""
        for wreck in self.wrecks:
            wreck.__exit__(None, None, None)
        self.journal.note("stopped")
        self.journal.close()

    def _begin(self, spark: SparkSession) -> Job:
        properties = self.order["properties"]
        building_job = building_of(properties)(
            parse(properties),
            spark,
            Onlookers(self._observed, self._answered),
            sleep=self.stop.wait,
            wrap=lambda seams: stepped(seams, self.fuses, self.lulls, self.turns),
        )
        job: Job = building_job.__enter__()
        self.wrecks.append(building_job)
        self.journal.note("started")
        return job

    def _observed(self, seen: Observation) -> None:
        state = seen.state
        position = list(state.position.order) if state.position else None
        self.journal.note(
            "turn", turn=state.turn, position=position, queued=len(state.snapshot.tables), events=seen.events
        )

    def _answered(self, answer: Answer) -> None:
        self.journal.note(
            "answer",
            turn=self.turns.committed,
            id=answer.id,
            outcome=str(answer.outcome),
            text=answer.text,
        )


def building_of(properties: dict[str, str]) -> Callable[..., Any]:
    """How a job of these properties is built."""
    if "mongodb.connection.string" in properties:
        return building_mongodb
    if properties.get("connector.class", "").endswith("SqlServerConnector"):
        return building_on_stand_in
    return building_postgres


@contextlib.contextmanager
def slow_reading(lull: Lull) -> Iterator[None]:
    """Have Spark begin to read a window late, now and then, as when its executors are busy."""
    readers: tuple[Any, ...] = (PostgresReader, MongoReader, SqlServerReader)
    reads = [reader.read for reader in readers]

    def late(read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(*args: Any, **more: Any) -> Any:
            lull.pass_slowly()
            return read(*args, **more)

        return reading

    for reader, read in zip(readers, reads, strict=True):
        reader.read = late(read)
    try:
        yield
    finally:
        for reader, read in zip(readers, reads, strict=True):
            reader.read = read


class Stage:
    """Follows orders; the plays run one after the other in the main thread."""

    def __init__(self) -> None:
        self._spark: SparkSession | None = None
        self._play: Play | None = None
        self._next = threading.Condition()
        self._orders: list[dict[str, Any] | None] = []

    def listen(self) -> None:
        """Take orders in until the input ends, and with it everything."""
        for line in sys.stdin:
            order = orjson.loads(line)
            with self._next:
                if order["do"] == "play":
                    self._orders.append(order)
                elif self._play is not None and order["do"] == "stop":
                    self._play.stop.set()
                elif self._play is not None and order["do"] == "drop":
                    self._play.fuses.drop = True
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
            self._spark = self._spark or spark_session("local[2]", {}, (POSTGRES_JDBC,))
            try:
                with slow_reading(play.lulls.of("read")), switched_off(_GUARDS.get(order.get("mutant", ""))):
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
    stage = Stage()
    threading.Thread(target=stage.listen, name="orders", daemon=True).start()
    stage.run()


if __name__ == "__main__":
    main()
