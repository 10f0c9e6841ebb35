"""Makes the sink that a job's settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from adapters.jdbc.sink import Holder, JdbcSink
from adapters.kafka.sink import KafkaSink
from adapters.sinks.console import ConsoleSink
from adapters.sinks.files import FilesSink
from adapters.sinks.null import NullSink
from engine.config.sinks.settings import SinkKind

if TYPE_CHECKING:
    from adapters.source.assembly.wiring import LeasedCheckpoint
    from engine.config.sinks.settings import SinkSettings
    from engine.ports.executors import Executors
    from engine.ports.sink import Sink


def make_sink(settings: SinkSettings, executors: Executors, leased: LeasedCheckpoint, *, tasks: int) -> Sink:
    """The sink of the settings, for the job that holds these leases.

    A sink that stages does so in a directory of its own.
    """
    staging, name = f"{leased.staging}/sink", leased.name
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
            return KafkaSink(settings.kafka, executors, staging, tasks=tasks, name=name)
        case SinkKind.JDBC:
            return JdbcSink(settings.jdbc, staging, _holder(leased))
        case _:
            assert_never(kind)


def _holder(leased: LeasedCheckpoint) -> Holder:
    return Holder(leased.job, leased.owner, leased.checkpoint, leased.epoch)
