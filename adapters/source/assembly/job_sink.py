"""Makes the sink that a job's settings name, and tells how it is put into the job.

Only the module of that sink is loaded, as with sources: a client may be large.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from adapters.source.sinks.wiring import SinkWiring
from adapters.spark.cluster import slots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.source.assembly.supplied import LeasedCheckpoint
    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.config.sinks.settings import MakeSink, SinkSettings
    from engine.ports.sink import Sink


def wiring_of(sink: SinkSettings) -> SinkWiring:
    """What a job must know of its sink. Sinks of other packages need nothing more than a directory."""
    if isinstance(sink.make, str):
        return cast("SinkWiring", import_module(sink.make).WIRING)
    return SinkWiring(_Foreign(sink.make))


def make_sink(
    settings: Settings, stages: Staging, leased: LeasedCheckpoint, clock: Clock, *, spark: SparkSession
) -> Sink:
    """The sink of the settings, for the job that holds these leases and stages in this way."""
    return wiring_of(settings.sink).make(settings, stages, leased, spark, clock)


@dataclass(frozen=True, slots=True)
class _Foreign:
    """Makes a sink of another package."""

    made: MakeSink

    def __call__(
        self,
        settings: Settings,
        stages: Staging,
        leased: LeasedCheckpoint,
        spark: SparkSession,
        _clock: Clock,
        /,
    ) -> Sink:
        return self.made(
            settings.sink.own,
            executors=stages.senders,
            staging=f"{leased.staging}/sink",
            tasks=slots.now(spark.sparkContext),
            name=leased.name,
        )
