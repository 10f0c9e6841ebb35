"""Makes the sink that a job's settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from adapters.kafka.sink import KafkaSink
from adapters.sinks.console import ConsoleSink
from adapters.sinks.files import FilesSink
from adapters.sinks.null import NullSink
from engine.config.settings import SinkKind

if TYPE_CHECKING:
    from engine.config.settings import SinkSettings
    from engine.ports import Executors, Sink


def make_sink(
    settings: SinkSettings,
    executors: Executors,
    staging: str,
    *,
    tasks: int,
    name: str = "tidemark",
    epoch: int = 0,
) -> Sink:
    """The sink of the settings; a sink that stages does so in a directory of its own.

    `name` distinguishes the job from others; `epoch` is that of the lease on the sink.
    """
    if settings.custom is not None:
        custom = settings.custom
        return custom.make(custom.settings, executors=executors, staging=staging, tasks=tasks, name=name)
    match kind := SinkKind(settings.kind):
        case SinkKind.FILES:
            return FilesSink(settings.directory, epoch, settings.mode)
        case SinkKind.CONSOLE:
            return ConsoleSink()
        case SinkKind.NULL:
            return NullSink()
        case SinkKind.KAFKA:
            return KafkaSink(settings.kafka, executors, staging, tasks=tasks, name=name)
        case _:
            assert_never(kind)
