"""Puts the sink `kafka` into a job, whose topics verifications can compare with the source's rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from adapters.kafka.beside.lease_answers import LeaseAnswers
from adapters.kafka.beside.row_task import is_portable
from adapters.kafka.beside.senders import ExecutorSenders
from adapters.kafka.settings import Fencing, KafkaSettings
from adapters.kafka.sink import KafkaSink
from adapters.kafka.turn_sending import Producers
from adapters.source.sinks.wiring import SinkWiring
from adapters.spark.cluster import slots
from adapters.spark.cluster.preflight import Requirements
from adapters.verify.events.files_copy import FilesCopy
from adapters.verify.events.topic_copy import TopicCopy
from adapters.verify.kept_events import NOT_SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.source.assembly.supplied import LeasedCheckpoint
    from adapters.verify.events.copied_events import Traits
    from adapters.verify.kept_events import CopyTools
    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.ports.state_store import Lease


def _make(
    settings: Settings,
    stages: Staging,
    leased: LeasedCheckpoint,
    spark: SparkSession,
    clock: Clock,
    /,
) -> KafkaSink:
    kafka, tasks = settings.sink_as(KafkaSettings), slots.now(spark.sparkContext)
    senders = stages.row_senders(tasks) if stages.shared_disk or is_portable(kafka) else None
    if isinstance(senders, ExecutorSenders) and kafka.fencing is Fencing.TRANSACTIONS:
        senders.answer_with(_answers(leased.leases, spark))
    staging = f"{leased.staging}/sink"
    producers = Producers(tasks, leased.name)
    sink = _VerifiedTopics(
        kafka,
        stages.senders,
        staging,
        monotonic=clock.monotonic,
        producers=producers,
        senders=senders,
    )
    sink.settings = kafka
    return sink


class _VerifiedTopics(KafkaSink):
    """The sink with the copy that its topics are."""

    settings: KafkaSettings

    def copy(self, tools: CopyTools, traits: Traits, /) -> TopicCopy | str:
        """Its topics as a copy. A topic may be compacted."""
        if not tools.shared_disk:
            return NOT_SHARED
        traits, executors = replace(traits, thins=True), tools.executors

        def files(directory: str, in_order: bool) -> FilesCopy:  # noqa: FBT001
            return FilesCopy(directory, f"{tools.work}/sorted", executors, replace(traits, in_order=in_order))

        return TopicCopy(self.settings, tools.work, tools.verified, executors, files, tools.clock)


def _answers(lease: Lease, spark: SparkSession) -> LeaseAnswers:
    """Answers to executors, which reach this machine as they reach Spark's driver."""
    conf = spark.sparkContext.getConf()
    host = conf.get("spark.driver.host") or "localhost"
    return LeaseAnswers(lease, host.strip("[]"), (conf.get("spark.driver.bindAddress") or host).strip("[]"))


def _asks(settings: KafkaSettings, shared_disk: bool) -> Requirements:  # noqa: FBT001
    """The brokers where tasks send, too."""
    return Requirements(tuple(_brokers(settings)) if shared_disk or is_portable(settings) else ())


def _brokers(settings: KafkaSettings) -> Iterator[tuple[str, str, int]]:
    for server in settings.servers.split(","):
        host, _colon, port = server.strip().rpartition(":")
        if port.isdecimal():
            yield "the broker", host.strip("[]"), int(port)


WIRING: Final = SinkWiring(_make, asks=_asks)
