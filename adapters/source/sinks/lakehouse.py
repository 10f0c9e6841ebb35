"""Makes the sinks `delta` and `iceberg` of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.lake.table_name import Naming
from adapters.lakehouse.formats import LONGEST, dialect_of
from adapters.lakehouse.journal import Journal
from adapters.lakehouse.merger import Admission, Merger
from adapters.lakehouse.sink import LakeSink, Merging
from adapters.lakehouse.spark_tables import SparkTables
from adapters.system import start_thread, system_clock
from engine.config.sinks.lake import FORMAT
from engine.config.sinks.settings import SinkKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.source.assembly.supplied import LeasedCheckpoint
    from engine.config.sinks.settings import SinkSettings


def make(settings: SinkSettings, _stages: Staging, leased: LeasedCheckpoint, spark: SparkSession) -> LakeSink:
    """The sink of the settings."""
    lake, epoch = settings.lake, leased.sink_epoch
    journal = Journal(lake.journal, epoch)
    tables = SparkTables(spark, dialect_of(SinkKind(settings.kind), lake, journal.identity, epoch))
    naming = Naming(lake.table_format, FORMAT, LONGEST)
    merger, admission = Merger(journal, tables, lake, naming), Admission(tables, lake)
    monotonic = system_clock().monotonic
    merging = Merging(merger, start_thread, monotonic, lake.upkeep_s, admission.forget)
    return LakeSink(journal, merger, admission, naming, merging)
