"""Tidemark for Python: run a job or start one beside other work, check a configuration, name the errors.

    import tidemark

    with tidemark.start("orders.properties", spark=spark) as job:
        job.wait(job.signal("execute-snapshot", ["public.orders"])).check()

Everything else is Tidemark's own and may change with any release.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from threading import Event
from typing import TYPE_CHECKING, TypeAlias, cast

from tidemark import installation  # first of all: it refuses another package's `engine`

# isort: split

from engine.config import Explained, Settings, explain, load, parse
from engine.config import read as read_file
from engine.errors import (
    ConfigError,
    InvariantError,
    LeaseHeld,
    LeaseLost,
    PositionLost,
    SignalError,
    SinkError,
    SourceError,
    StateError,
    TidemarkError,
)
from engine.job.running_job import JobStatus, RunningJob, SentSignal, SignalAnswer, SignalResult
from engine.snapshot.initial import Snapshotter

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "ConfigError",
    "Explained",
    "InvariantError",
    "JobStatus",
    "LeaseHeld",
    "LeaseLost",
    "PositionLost",
    "Report",
    "RunningJob",
    "SentSignal",
    "Settings",
    "SignalAnswer",
    "SignalError",
    "SignalResult",
    "SinkError",
    "Snapshotter",
    "SourceError",
    "StateError",
    "TidemarkError",
    "change_rows",
    "change_schema",
    "check",
    "read",
    "register_format",
    "run",
    "start",
]

Config: TypeAlias = "str | PathLike[str] | Mapping[str, str] | Settings"
"""A `.properties`, `.json` or `.yaml` file, properties as a mapping, or settings that were read before."""
_log = logging.getLogger("engine")


@dataclass(frozen=True, slots=True)
class Report:
    """How each property is handled, and the warnings."""

    properties: tuple[Explained, ...]
    warnings: tuple[str, ...]


def read(config: Config) -> Settings:
    """The settings of a configuration. References such as `${env:NAME}` are resolved in files alone.

    Raises ConfigError with every problem.
    """
    if isinstance(config, Settings):
        return config
    return parse(config) if isinstance(config, Mapping) else read_file(str(config))


def check(config: str | PathLike[str] | Mapping[str, str], *, defaults: bool = False) -> Report:
    """Check a configuration without connecting to anything; with `defaults`, list what applies unsaid, too.

    Raises ConfigError with every problem.
    """
    settings = read(config)
    import_module("adapters.storage.workspace").check(settings)
    properties = config if isinstance(config, Mapping) else load(str(config))
    return Report(explain(properties, defaults=defaults), settings.warnings)


def start(config: Config, *, spark: SparkSession | None = None) -> RunningJob:
    """Start the job in a thread of its own, and return it at once; several may run in one process.

    The job runs on `spark` if it is given, else on a session that all started jobs share and that the last of
    them stops. Raises ConfigError. What fails later is raised by the job's methods, and logged.
    """
    installation.check_distributions()
    settings = read(config)
    for warning in settings.warnings:
        _log.warning("%s", warning)
    threaded = import_module("adapters.embedding.threaded_job").ThreadedJob
    return cast("RunningJob", threaded(settings, spark))


def run(config: Config, *, spark: SparkSession | None = None, stop: Event | None = None) -> None:
    """Run the job until `stop` is set, or until nothing is left to do (`snapshot.mode=initial_only`).

    The job runs on `spark` if it is given, else on a session that the jobs of this process share. Raises a
    TidemarkError if the job can't continue. Logs to the loggers `engine`, `signals` and `adapters`.
    """
    installation.check_distributions()
    settings = read(config)
    for warning in settings.warnings:
        _log.warning("%s", warning)
    import_module(settings.runs).run(settings, stop=stop or Event(), spark=spark)


def register_format(spark: SparkSession) -> None:
    """Make `spark.read` and `spark.readStream` of this session know the format `tidemark`.

    It reads the changes of a table from the directory of a files sink, one row per change.
    """
    installation.check_distributions()
    spark.dataSource.register(import_module("adapters.lake.change_source").ChangeSource)


def change_schema(records: DataFrame, topic: str) -> StructType:
    """The columns that the changes of a topic have, by the newest of these records.

    `records` is a batch of Spark's Kafka source. Raises ConfigError if there is no event of the topic.
    """
    installation.check_distributions()
    found = import_module("adapters.lake.record_rows").record_schema(records, topic)
    return cast("StructType", found)


def change_rows(records: DataFrame, topic: str, schema: StructType) -> DataFrame:
    """The changes in records of Spark's Kafka source, a batch or a stream, one row per change.

    `schema` is that of `change_schema`. The rows are those of the format `tidemark`.
    """
    installation.check_distributions()
    made = import_module("adapters.lake.record_rows").record_rows(records, topic, schema)
    return cast("DataFrame", made)
