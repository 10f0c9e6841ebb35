"""Puts the sink `jdbc` into a job, whose tables verifications can compare with the source's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.jdbc.placeholders import placeholders_of
from adapters.jdbc.settings import JdbcSettings
from adapters.jdbc.sink import Holder, JdbcSink
from adapters.source.sinks.wiring import SinkWiring
from adapters.spark.executors import ThreadExecutors
from adapters.verify.tables.table_copy import TableCopy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.source.assembly.supplied import LeasedCheckpoint
    from adapters.verify.events.copied_events import Traits
    from adapters.verify.kept_events import CopyTools
    from engine.clock import Clock
    from engine.config.settings import Settings


def _make(
    settings: Settings,
    _stages: Staging,
    leased: LeasedCheckpoint,
    _spark: SparkSession,
    _clock: Clock,
    /,
) -> JdbcSink:
    holder = Holder(leased.job, leased.owner, leased.checkpoint, leased.epoch)
    jdbc, staging = settings.sink_as(JdbcSettings), f"{leased.staging}/sink"
    return _VerifiedTables(jdbc, staging, holder, placeholders_of(settings.events))


class _VerifiedTables(JdbcSink):
    """The sink with the copy that its tables are."""

    def copy(self, tools: CopyTools, _traits: Traits, /) -> TableCopy:
        """Its tables as a copy. Without a shared disk the driver compares."""
        executors = tools.executors if tools.shared_disk else ThreadExecutors(1)
        return TableCopy(self, tools.work, executors, tools.database)


WIRING: Final = SinkWiring(_make)
