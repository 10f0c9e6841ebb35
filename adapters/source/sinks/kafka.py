"""Makes the sink `kafka` of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.kafka.beside.lease_answers import LeaseAnswers
from adapters.kafka.beside.row_task import is_portable
from adapters.kafka.beside.senders import ExecutorSenders
from adapters.kafka.sink import KafkaSink
from adapters.kafka.turn_sending import Producers
from engine.config.sinks.settings import Fencing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.source.assembly.supplied import LeasedCheckpoint
    from engine.clock import Clock
    from engine.config.sinks.settings import SinkSettings
    from engine.ports.state_store import Lease


def make(
    settings: SinkSettings, stages: Staging, leased: LeasedCheckpoint, spark: SparkSession, clock: Clock
) -> KafkaSink:
    """The sink of the settings. It stages in a directory of its own."""
    tasks = max(1, spark.sparkContext.defaultParallelism)
    senders = stages.row_senders(tasks) if stages.shared_disk or is_portable(settings.kafka) else None
    if isinstance(senders, ExecutorSenders) and settings.kafka.fencing is Fencing.TRANSACTIONS:
        senders.answer_with(_answers(leased.leases, spark))
    staging = f"{leased.staging}/sink"
    producers = Producers(tasks, leased.name)
    return KafkaSink(
        settings.kafka,
        stages.senders,
        staging,
        monotonic=clock.monotonic,
        producers=producers,
        senders=senders,
    )


def _answers(lease: Lease, spark: SparkSession) -> LeaseAnswers:
    """Answers to executors, which reach this machine as they reach Spark's driver."""
    conf = spark.sparkContext.getConf()
    host = conf.get("spark.driver.host") or "localhost"
    return LeaseAnswers(lease, host.strip("[]"), (conf.get("spark.driver.bindAddress") or host).strip("[]"))
