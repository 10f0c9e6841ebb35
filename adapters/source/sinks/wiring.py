"""How one of our own sinks is put into a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from adapters.spark.cluster.preflight import Requirements

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.source.assembly.supplied import LeasedCheckpoint
    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.ports.sink import Sink


class Make(Protocol):
    """Makes the sink when a job starts."""

    def __call__(
        self,
        settings: Settings,
        stages: Staging,
        leased: LeasedCheckpoint,
        spark: SparkSession,
        clock: Clock,
        /,
    ) -> Sink:
        """The sink of the settings, for the job that holds these leases and stages in this way.

        A sink that stages does so in a directory of its own.
        """


def _nowhere(_settings: Any) -> str:
    return ""


def _nothing(_settings: Any, _shared_disk: bool) -> Requirements:  # noqa: FBT001
    return Requirements()


@dataclass(frozen=True, slots=True)
class SinkWiring:
    """What a job must know of a sink. The functions get the sink's own settings.

    - `make` makes it
    - `owned` is a directory that only one job at a time may write to, whatever its checkpoint; empty: none
    - `asks` what executors must have; they may share the driver's files
    - `packages` are those that Spark needs for it
    - `session` gives Spark's settings, those that are given and those that it needs
    - `stores` is False if it keeps nothing, so that it does not matter who writes to it
    """

    make: Make
    owned: Callable[[Any], str] = _nowhere
    asks: Callable[[Any, bool], Requirements] = _nothing
    packages: Callable[[Any], tuple[str, ...]] = lambda _settings: ()
    session: Callable[[Any, dict[str, str]], dict[str, str]] = lambda _settings, given: given
    stores: bool = True
