"""Builds a MongoDB job from its settings: its source, and the connection to the deployment.

`adapters.source.assembly.job` has what all jobs share. `run` serves the command line. `building` yields the
job to Python code that has its own Spark session.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from adapters.mongodb.log.position import numbers, shown
from adapters.mongodb.log_opening import LogOpening
from adapters.mongodb.server.connection import Server, connection_of, members
from adapters.mongodb.server.questions import Questions
from adapters.mongodb.settings import MongoSettings
from adapters.mongodb.snapshot.chunk_reader import ChunkReader
from adapters.mongodb.snapshot.foreign_collections import ForeignCollections
from adapters.mongodb.snapshot.windows import OpenWindows
from adapters.mongodb.source import MongoSource
from adapters.mongodb.streamed_spans import StreamedSpans
from adapters.mongodb.tools import SourceTools
from adapters.source.assembly.job import SourceJob, trying
from adapters.source.assembly.snapshotters import snapshotter
from adapters.source.assembly.supplied import SuppliedSource
from adapters.source.assembly.verifying import Verifiable
from adapters.source.initial import InitialSnapshot
from adapters.source.log.span_encoder import SpanEncoder
from adapters.spark.cluster.slots import slots_of
from adapters.verify.events.copied_events import Traits
from engine.config.sinks.against import MongoTarget
from engine.snapshot.markers import Marker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.mongodb.snapshot.initial import HeldSnapshot
    from adapters.source.assembly.supplied import Locations
    from adapters.verify.tables.foreign_tables import ForeignTables
    from engine.config.settings import Settings
    from engine.config.sinks.against import Against

_LOCAL_CHANGES = 5_000
"""Up to this many change events are encoded by the driver, at 20 to 40 µs each; a Spark job costs 0.2 s."""


def _prepare(settings: Settings) -> None:
    """Ask the server who it is."""
    with trying(), closing(Questions(Server(connection_of(settings.source_as(MongoSettings))))) as questions:
        questions.identity()


def _wired(settings: Settings, spark: SparkSession, locations: Locations) -> SuppliedSource:
    source = make_source(settings.in_form(locations.form), spark, locations)
    return SuppliedSource(
        source,
        source.close,
        shown,
        done=source.done,
        marks=frozenset({Marker.LAST}),
        take_appeared=source.take_appeared,
        numbers=numbers,
        figures=source.figures,
        within=source.replica_set,
        verifiable=Verifiable(
            Traits(looked_up=True),
            source.deletes,
            why=_not_compared(settings),
            others=partial(_others, source),
        ),
    )


def _others(source: MongoSource, target: Against) -> ForeignTables | str:
    """The collections of a target that somebody else keeps, or why there are none."""
    if not isinstance(target.database, MongoTarget):
        return "collections of MongoDB are compared with collections of MongoDB only"
    if target.marker is not None:
        return "a collection of MongoDB can't tell by markers how far it is: only PostgreSQL's tables can"
    return ForeignCollections(target.database, source.document_reads)


def _not_compared(settings: Settings) -> str:
    """Why events don't say what documents are like, if they don't."""
    mongodb = settings.source_as(MongoSettings)
    if not mongodb.capture_mode.looks_up:
        return f"capture.mode {mongodb.capture_mode.value} leaves the document out of updates"
    if mongodb.matches:
        return "cursor.pipeline may leave changes out"
    return ""


def make_source(
    settings: Settings,
    spark: SparkSession,
    locations: Locations,
) -> MongoSource:
    """The source of the settings."""
    connection = connection_of(settings.source_as(MongoSettings))
    encoder = SpanEncoder(locations.encoders, locations.spans, local_rows=_LOCAL_CHANGES)
    fetch = settings.snapshot.fetch_size
    reader = ChunkReader(spark, connection, locations.windows, slots=slots_of(spark), batch_rows=fetch)
    questions = Questions(Server(connection))
    clock = locations.clock
    first: InitialSnapshot[HeldSnapshot] = InitialSnapshot(
        settings.snapshot, snapshotter(settings.snapshot), clock.new_id(), clock.sleep
    )
    tools = SourceTools(encoder, reader, first, clock)
    windows = OpenWindows(settings, questions, tools)
    opening = LogOpening(settings, questions, tools, windows)
    spans = StreamedSpans(settings, tools, windows, opening.streamed)
    return MongoSource(questions, first, opening, spans, settings.signals.collection)


def _addresses(settings: Settings) -> list[tuple[str, int]]:
    return members(connection_of(settings.source_as(MongoSettings)))


_JOB = SourceJob(_wired, prepare=_prepare, addresses=_addresses)
run, building, packages = _JOB.run, _JOB.building, _JOB.packages
