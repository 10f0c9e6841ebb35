"""The settings that sinks share: which sink, and what it does if others have changed its target.

What only one sink reads is declared beside that sink.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.ports.executors import Executors
    from engine.ports.sink import Sink


class SchemaEvolution(StrEnum):
    """Whether the sinks `jdbc`, `delta` and `iceberg` create what their tables lack."""

    BASIC = "basic"
    NONE = "none"


class SinkAhead(StrEnum):
    """`tidemark.sink.ahead`: what to do if the sink holds turns that the checkpoint does not know."""

    REFUSE = "refuse"
    REPEAT = "repeat"


class Destination(StrEnum):
    """`tidemark.destination`: whether events go to the same destination as before, or it was moved."""

    SAME = "same"
    MOVED = "moved"


class TopicRecreated(StrEnum):
    """`tidemark.sink.topic.recreated`: what to do if a topic, or a table of the sink, was recreated."""

    WARN = "warn"
    STOP = "stop"
    SNAPSHOT = "snapshot"


class MakeSink(Protocol):
    """Makes a sink of another package when a job starts."""

    def __call__(self, settings: Any, *, executors: Executors, staging: str, tasks: int, name: str) -> Sink:
        """The sink of these settings.

        `executors` run its tasks, `tasks` at once. `staging` is a directory that driver and executors share;
        it is removed when the job ends. `name` distinguishes the job from others.
        """


@runtime_checkable
class NamesDatasets(Protocol):
    """Settings of a sink that say where OpenLineage finds what it has written."""

    def datasets(self, topics: Iterable[str], /) -> list[tuple[str, str]]:
        """Namespace and name of each dataset that has the events of these topics."""


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Where events go. `kind` is the name of the sink, `own` what only that sink reads.

    `make` makes the sink. For a sink of ours it is the module whose `WIRING` puts the sink into a job; see
    `adapters.sinks.wiring`. It is imported when the job starts, because a client may be large.
    """

    kind: str
    own: object = field(repr=False)
    make: MakeSink | str = field(repr=False)
    ahead: SinkAhead = SinkAhead.REFUSE
    destination: Destination = Destination.SAME

    @property
    def shown(self) -> str:
        """The sink and where it writes, for people."""
        return str(getattr(self.own, "shown", self.kind))

    def datasets(self, topics: Iterable[str]) -> list[tuple[str, str]]:
        """Namespace and name of each dataset with the events of these topics; none if the sink names none."""
        return self.own.datasets(topics) if isinstance(self.own, NamesDatasets) else []
