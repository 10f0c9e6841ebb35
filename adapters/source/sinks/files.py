"""Puts the sink `files` into a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.sinks.files import FilesSink
from adapters.sinks.settings import FilesSettings
from adapters.source.sinks.wiring import SinkWiring
from adapters.spark.cluster.preflight import Requirements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.source.assembly.supplied import LeasedCheckpoint
    from engine.clock import Clock
    from engine.config.settings import Settings


def _make(
    settings: Settings,
    _stages: Staging,
    leased: LeasedCheckpoint,
    _spark: SparkSession,
    _clock: Clock,
    /,
) -> FilesSink:
    files = settings.sink_as(FilesSettings)
    return FilesSink(files.directory, leased.sink_epoch, files.mode)


def _directory(settings: FilesSettings) -> str:
    return settings.directory


def _asks(settings: FilesSettings, shared_disk: bool) -> Requirements:  # noqa: FBT001
    return Requirements(directories=(("tidemark.sink.files.dir", settings.directory),) if shared_disk else ())


WIRING: Final = SinkWiring(_make, owned=_directory, asks=_asks)
