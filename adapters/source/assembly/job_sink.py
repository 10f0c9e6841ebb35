"""Makes the sink that a job's settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from adapters.jdbc.sink import Holder, JdbcSink
from adapters.kafka.beside.row_task import is_portable
from adapters.kafka.sink import KafkaSink
from adapters.lake.table_name import Naming
from adapters.lakehouse.formats import LONGEST, dialect_of
from adapters.lakehouse.journal import Journal
from adapters.lakehouse.merger import Admission, Merger
from adapters.lakehouse.sink import LakeSink, Merging, Pace
from adapters.lakehouse.spark_tables import SparkTables
from adapters.sinks.console import ConsoleSink
from adapters.sinks.files import FilesSink
from adapters.sinks.null import NullSink
from adapters.system import start_thread, system_clock
from adapters.verify.table_copy import TableCopy
from engine.config.sinks.lake import FORMAT
from engine.config.sinks.settings import SinkKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.source.assembly.supplied import LeasedCheckpoint
    from engine.config.sinks.settings import LakeSettings, SinkSettings
    from engine.ports.executors import Executors
    from engine.ports.sink import Sink

_GATHERS_S: Final = 3.0
"""Turns of a lake gather so long at least: each write makes a file."""


def make_sink(
    settings: SinkSettings, stages: Staging, leased: LeasedCheckpoint, *, spark: SparkSession
) -> Sink:
    """The sink of the settings, for the job that holds these leases and stages in this way.

    A sink that stages does so in a directory of its own.
    """
    executors = stages.senders
    staging, name, tasks = (
        f"{leased.staging}/sink",
        leased.name,
        max(1, spark.sparkContext.defaultParallelism),
    )
    if settings.custom is not None:
        custom = settings.custom
        return custom.make(custom.settings, executors=executors, staging=staging, tasks=tasks, name=name)
    match kind := SinkKind(settings.kind):
        case SinkKind.FILES:
            return FilesSink(settings.directory, leased.sink_epoch, settings.mode)
        case SinkKind.CONSOLE:
            return ConsoleSink()
        case SinkKind.NULL:
            return NullSink()
        case SinkKind.KAFKA:
            senders = stages.row_senders(tasks) if stages.shared_disk or is_portable(settings.kafka) else None
            return KafkaSink(settings.kafka, executors, staging, tasks=tasks, name=name, senders=senders)
        case SinkKind.JDBC | SinkKind.DELTA | SinkKind.ICEBERG:
            return _sink_of_tables(kind, settings, leased, spark)
        case _:
            assert_never(kind)


def _sink_of_tables(
    kind: SinkKind, settings: SinkSettings, leased: LeasedCheckpoint, spark: SparkSession
) -> Sink:
    if kind is SinkKind.JDBC:
        return _VerifiedTables(settings.jdbc, f"{leased.staging}/sink", _holder(leased))
    return _lake_sink(kind, settings.lake, spark, leased.sink_epoch)


def _lake_sink(kind: SinkKind, settings: LakeSettings, spark: SparkSession, epoch: int) -> LakeSink:
    journal = Journal(settings.journal, epoch)
    tables = SparkTables(spark, dialect_of(kind, settings, journal.identity, epoch))
    naming = Naming(settings.table_format, FORMAT, LONGEST)
    merger, admission = Merger(journal, tables, settings, naming), Admission(tables, settings)
    pace = Pace(settings.upkeep_s, _GATHERS_S)
    merging = Merging(merger, start_thread, system_clock().monotonic, pace, admission.forget)
    return LakeSink(journal, merger, admission, naming, merging)


def _holder(leased: LeasedCheckpoint) -> Holder:
    return Holder(leased.job, leased.owner, leased.checkpoint, leased.epoch)


class _VerifiedTables(JdbcSink):
    """The sink with the copy that its tables are."""

    def copy(self, work: str, executors: Executors, database: str) -> TableCopy:
        """Its tables as a copy."""
        return TableCopy(self, work, executors, database)
