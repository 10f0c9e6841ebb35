"""Builds a MongoDB job from its settings: its source, and the connection to the deployment.

`wiring` has what all jobs share. `run` serves the command line. `building` yields the job to Python code that
has its own Spark session.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from adapters.mongodb.log.position import shown
from adapters.mongodb.server.connection import Server, connection_of
from adapters.mongodb.server.questions import Questions
from adapters.mongodb.snapshot.chunk_reader import ChunkReader
from adapters.mongodb.source import MongoSource
from adapters.mongodb.tools import SourceTools
from adapters.source import wiring
from adapters.source.initial import InitialSnapshot
from adapters.source.span_encoder import SpanEncoder
from adapters.source.wiring import NOBODY, Onlookers, Places, Wired, run_jobs, tasks_of, trying
from adapters.spark.executors import SparkExecutors
from engine.snapshot.markers import Marker
from engine.snapshot.snapshotters import snapshotter

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from adapters.mongodb.snapshot.initial import Held
    from engine.config.settings import Settings
    from engine.job.loop import Job
    from engine.job.parts import JobParts

_LOCAL_CHANGES = 5_000
"""Up to this many change events are encoded by the driver, at 20 to 40 µs each; a Spark job costs 0.2 s."""


def run(
    settings: Settings,
    *,
    stop: threading.Event,
    spark: SparkSession | None = None,
    onlookers: Onlookers = NOBODY,
) -> None:
    """Run the job until `stop` is set, on `spark` if given, else on a session made for it.

    Raises a TidemarkError when the job can't continue. A session made here is stopped at the end.
    """
    with trying(), closing(Questions(Server(connection_of(settings.mongodb)))) as questions:
        questions.identity()
    run_jobs(settings, (), spark, stop, onlookers, building)


@contextmanager
def building(
    settings: Settings,
    spark: SparkSession,
    onlookers: Onlookers,
    *,
    sleep: Callable[[float], object] = time.sleep,
    wrap: Callable[[JobParts], JobParts] = lambda job_parts: job_parts,
) -> Iterator[Job]:
    """Build the job without starting it; see `wiring.building`."""
    wire = partial(_wired, settings, spark)
    with wiring.building(settings, spark, onlookers, wire, sleep=sleep, wrap=wrap) as job:
        yield job


def _wired(settings: Settings, spark: SparkSession, places: Places) -> Wired:
    source = make_source(settings.in_form(places.form), spark, places)
    return Wired(source, source.close, shown, done=source.done, marks=frozenset({Marker.LAST}))


def make_source(
    settings: Settings,
    spark: SparkSession,
    places: Places,
) -> MongoSource:
    """The source of the settings."""
    connection = connection_of(settings.mongodb)
    encoder = SpanEncoder(SparkExecutors(spark), places.spans, local_rows=_LOCAL_CHANGES)
    fetch = settings.snapshot.fetch_size
    reader = ChunkReader(spark, connection, places.windows, tasks=tasks_of(spark), batch_rows=fetch)
    questions = Questions(Server(connection))
    clock = places.clock
    first: InitialSnapshot[Held] = InitialSnapshot(
        settings.snapshot, snapshotter(settings.snapshot), clock.new_id(), clock.sleep
    )
    return MongoSource(settings, questions, SourceTools(encoder, reader, first, clock))
