"""What a job needs of Spark: its master, settings, packages and archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.lakehouse.formats import packages as lake_packages
from adapters.lakehouse.formats import session_settings
from adapters.spark.shared_session import SparkWanted

if TYPE_CHECKING:
    from engine.config.settings import Settings


def wanted_by(settings: Settings, packages: tuple[str, ...]) -> SparkWanted:
    """What a job needs of Spark."""
    job = settings.job
    return SparkWanted(
        job.spark_master,
        session_settings(settings.sink, dict(job.spark_conf)),
        (*packages, *lake_packages(settings.sink)),
        job.spark_archive,
    )
