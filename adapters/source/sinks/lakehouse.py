"""Puts the sinks `delta` and `iceberg` into a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.jdbc.placeholders import placeholders_of
from adapters.lake.table_name import TableNaming
from adapters.lakehouse.formats import LONGEST, dialect_of, package_of, session_settings
from adapters.lakehouse.journal import Journal
from adapters.lakehouse.merger import Admission, Merger
from adapters.lakehouse.properties import FORMAT
from adapters.lakehouse.settings import LakeSettings
from adapters.lakehouse.sink import LakeSink, MergeThread, Pace
from adapters.lakehouse.tables.spark_tables import SparkTables
from adapters.source.sinks.wiring import SinkWiring
from adapters.system import start_thread
from adapters.verify.kept_events import NOT_SHARED
from adapters.verify.tables.lake_copy import LakeCopy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.source.assembly.supplied import LeasedCheckpoint
    from adapters.verify.events.copied_events import Traits
    from adapters.verify.kept_events import CopyTools
    from engine.clock import Clock
    from engine.config.settings import Settings

_GATHERS_S: Final = 3.0
"""Turns gather so long at least: each write makes a file."""


def _make(
    settings: Settings,
    _stages: Staging,
    leased: LeasedCheckpoint,
    spark: SparkSession,
    clock: Clock,
    /,
) -> LakeSink:
    lake, epoch = settings.sink_as(LakeSettings), leased.sink_epoch
    journal = Journal(lake.journal, epoch)
    tables = SparkTables(spark, dialect_of(lake.format, lake, journal.identity, epoch))
    naming = TableNaming(lake.table_format, FORMAT, LONGEST)
    merger = Merger(journal, tables, lake, naming, placeholders_of(settings.events))
    admission = Admission(tables, lake)
    pace = Pace(lake.upkeep_s, _GATHERS_S)
    merging = MergeThread(merger, start_thread, clock, pace, admission.forget)
    reads = SparkTables(spark, dialect_of(lake.format, lake, journal.identity, epoch))
    sink = _VerifiedTables(journal, merger, admission, naming, merging)
    sink.reads, sink.settings = reads, lake
    return sink


class _VerifiedTables(LakeSink):
    """The sink with the copy that its tables are. `reads` has a session of its own."""

    reads: SparkTables
    settings: LakeSettings

    def copy(self, tools: CopyTools, _traits: Traits, /) -> LakeCopy | str:
        """Its tables as a copy."""
        if not tools.shared_disk:
            return NOT_SHARED
        return LakeCopy(self, self.reads, self.settings, (tools.work, tools.executors, tools.database))


def _journal(settings: LakeSettings) -> str:
    return settings.journal


def _packages(settings: LakeSettings) -> tuple[str, ...]:
    return (package_of(settings.format),)


WIRING: Final = SinkWiring(_make, owned=_journal, packages=_packages, session=session_settings)
