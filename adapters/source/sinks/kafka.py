"""Makes the sink `kafka` of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.kafka.beside.row_task import is_portable
from adapters.kafka.sink import KafkaSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.source.assembly.supplied import LeasedCheckpoint
    from engine.config.sinks.settings import SinkSettings


def make(settings: SinkSettings, stages: Staging, leased: LeasedCheckpoint, spark: SparkSession) -> KafkaSink:
    """The sink of the settings. It stages in a directory of its own."""
    tasks = max(1, spark.sparkContext.defaultParallelism)
    senders = stages.row_senders(tasks) if stages.shared_disk or is_portable(settings.kafka) else None
    staging = f"{leased.staging}/sink"
    return KafkaSink(settings.kafka, stages.senders, staging, tasks=tasks, name=leased.name, senders=senders)
