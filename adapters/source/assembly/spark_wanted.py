"""What a job needs of Spark: its master, settings, packages and archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.source.assembly.job_sink import wiring_of
from adapters.spark.shared_session import SparkWanted

if TYPE_CHECKING:
    from engine.config.settings import Settings


def wanted_by(settings: Settings, packages: tuple[str, ...]) -> SparkWanted:
    """What a job needs of Spark."""
    job, sink = settings.job, wiring_of(settings.sink)
    return SparkWanted(
        job.spark_master,
        sink.session(settings.sink.own, dict(job.spark_conf)),
        (*packages, *sink.packages(settings.sink.own)),
        job.spark_archive,
    )
