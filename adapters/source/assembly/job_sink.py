"""Makes the sink that a job's settings name.

A sink with a client or a table format of its own is made by a module of `adapters/source/sinks`. Only the one
that the settings name is loaded, as with sources.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from adapters.sinks.console import ConsoleSink
from adapters.sinks.files import FilesSink
from adapters.sinks.null import NullSink
from engine.config.sinks.settings import SinkKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.source.assembly.supplied import LeasedCheckpoint
    from engine.clock import Clock
    from engine.config.sinks.settings import SinkSettings
    from engine.ports.sink import Sink

Make: TypeAlias = "Callable[[SinkSettings, Staging, LeasedCheckpoint, SparkSession, Clock], Sink]"
MODULES: Final = {
    SinkKind.KAFKA: "adapters.source.sinks.kafka",
    SinkKind.JDBC: "adapters.source.sinks.jdbc",
    SinkKind.DELTA: "adapters.source.sinks.lakehouse",
    SinkKind.ICEBERG: "adapters.source.sinks.lakehouse",
}
"""The module whose `make` makes a sink."""


def make_sink(
    settings: SinkSettings, stages: Staging, leased: LeasedCheckpoint, clock: Clock, *, spark: SparkSession
) -> Sink:
    """The sink of the settings, for the job that holds these leases and stages in this way.

    A sink that stages does so in a directory of its own.
    """
    if settings.custom is not None:
        return settings.custom.make(
            settings.custom.settings,
            executors=stages.senders,
            staging=f"{leased.staging}/sink",
            tasks=max(1, spark.sparkContext.defaultParallelism),
            name=leased.name,
        )
    match kind := SinkKind(settings.kind):
        case SinkKind.FILES:
            return FilesSink(settings.directory, leased.sink_epoch, settings.mode)
        case SinkKind.CONSOLE:
            return ConsoleSink()
        case SinkKind.NULL:
            return NullSink()
        case SinkKind.KAFKA | SinkKind.JDBC | SinkKind.DELTA | SinkKind.ICEBERG:
            make = cast("Make", import_module(MODULES[kind]).make)
            return make(settings, stages, leased, spark, clock)
