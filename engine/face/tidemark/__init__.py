"""Tidemark for Python: run a job, check a configuration, name the errors.

    import tidemark

    tidemark.run("orders.properties", spark=spark, stop=stop)

Everything else is Tidemark's own and may change with any release.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from threading import Event
from typing import TYPE_CHECKING, TypeAlias

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
    SinkError,
    SourceError,
    StateError,
    TidemarkError,
)
from engine.snapshot.initial import Snapshotter

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import SparkSession

__all__ = [
    "ConfigError",
    "Explained",
    "InvariantError",
    "LeaseHeld",
    "LeaseLost",
    "PositionLost",
    "Report",
    "Settings",
    "SinkError",
    "Snapshotter",
    "SourceError",
    "StateError",
    "TidemarkError",
    "check",
    "read",
    "run",
]

Config: TypeAlias = "str | PathLike[str] | Mapping[str, str] | Settings"
"""A `.properties`, `.json` or `.yaml` file, properties as a mapping, or settings that were read before."""
_log = logging.getLogger("engine")


@dataclass(frozen=True, slots=True)
class Report:
    """What becomes of each property, and what is worth a warning."""

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


def run(config: Config, *, spark: SparkSession | None = None, stop: Event | None = None) -> None:
    """Run the job until `stop` is set, or until nothing is left to do (`snapshot.mode=initial_only`).

    The job runs on `spark` if it is given, else on a session made for it and stopped at the end. Raises a
    TidemarkError if the job can't continue. Logs to the loggers `engine`, `signals` and `adapters`.
    """
    installation.check_distributions()
    settings = read(config)
    for warning in settings.warnings:
        _log.warning("%s", warning)
    import_module(settings.runs).run(settings, stop=stop or Event(), spark=spark)
