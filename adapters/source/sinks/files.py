"""Puts the sink `files` into a job, whose events verifications can compare with the source's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.sinks.files import FilesSink
from adapters.sinks.settings import FilesSettings
from adapters.source.sinks.wiring import SinkWiring
from adapters.spark.cluster.preflight import Requirements
from adapters.verify.events.files_copy import FilesCopy
from adapters.verify.kept_events import NOT_SHARED

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
) -> FilesSink:
    files = settings.sink_as(FilesSettings)
    return _VerifiedFiles(files.directory, leased.sink_epoch, files.mode)


class _VerifiedFiles(FilesSink):
    """The sink with the copy that its events are."""

    def copy(self, tools: CopyTools, traits: Traits, /) -> FilesCopy | str:
        """Its events as a copy."""
        if not tools.shared_disk:
            return NOT_SHARED
        return FilesCopy(str(self._directory), f"{tools.work}/sorted", tools.executors, traits)


def _directory(settings: FilesSettings) -> str:
    return settings.directory


def _asks(settings: FilesSettings, shared_disk: bool) -> Requirements:  # noqa: FBT001
    return Requirements(directories=(("tidemark.sink.files.dir", settings.directory),) if shared_disk else ())


WIRING: Final = SinkWiring(_make, owned=_directory, asks=_asks)
