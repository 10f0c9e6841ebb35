"""Makes the sink `jdbc` of a job, whose tables verifications can compare with the source's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.jdbc.sink import Holder, JdbcSink
from adapters.verify.tables.table_copy import TableCopy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.source.assembly.supplied import LeasedCheckpoint
    from engine.clock import Clock
    from engine.config.sinks.settings import SinkSettings
    from engine.ports.executors import Executors


def make(
    settings: SinkSettings, _stages: Staging, leased: LeasedCheckpoint, _spark: SparkSession, _clock: Clock
) -> JdbcSink:
    """The sink of the settings. It stages in a directory of its own."""
    holder = Holder(leased.job, leased.owner, leased.checkpoint, leased.epoch)
    return _VerifiedTables(settings.jdbc, f"{leased.staging}/sink", holder)


class _VerifiedTables(JdbcSink):
    """The sink with the copy that its tables are."""

    def copy(self, work: str, executors: Executors, database: str) -> TableCopy:
        """Its tables as a copy."""
        return TableCopy(self, work, executors, database)
