"""How a source or a sink declares itself to the configuration, and how it is found.

`registry` lists our own. Another package registers a source by an entry point of the group
`tidemark.sources`. The entry point's name is the value of `connector.class`, its object a `Connector`. A
sink's is of the group `tidemark.sinks`; its name is the value of `tidemark.sink`, its object a `SinkType`. A
signal channel's is of the group `tidemark.signal.channels`; its name is listed in `signal.enabled.channels`,
its object is a `ChannelType`. Of other packages, only what a configuration names is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from engine.config.registry import BUILT_IN
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.config.properties.row import Catalogue, Property
    from engine.config.properties.values import Values
    from engine.config.settings import SnapshotSettings
    from engine.config.sinks.settings import MakeSink
    from engine.config.sources.selection import CaptureSettings
    from engine.events.settings import EventSettings

CHANNELS: Final = "tidemark.signal.channels"
BUILT_IN_CHANNELS: Final = ("source", "kafka", "file", "jmx", "in-process")
_T = TypeVar("_T")


class SourceSettings(NamedTuple):
    """What a connector makes of its properties. `source` is read by nobody but the source itself."""

    events: EventSettings
    source: object
    capture: CaptureSettings
    snapshot: SnapshotSettings


def nothing(_values: Values) -> Iterable[str]:
    """No problems and no warnings."""
    return ()


@dataclass(frozen=True, slots=True)
class Connector:
    """A source as the configuration knows it.

    - `job` is the module whose `run` runs it; see `adapters.source.assembly.job`. It is imported when the job
      starts, because the database's driver may not be installed.
    - `catalogue` has all properties that it knows; `engine.config.sources.relational.rows` adds the shared
      ones.
    - `problems` yields the faults that involve more than one property, `warnings` what is logged once.
    """

    job: str
    catalogue: Catalogue
    read: Callable[[Values], SourceSettings]
    problems: Callable[[Values], Iterable[str]] = nothing
    warnings: Callable[[Values], Iterable[str]] = nothing


@dataclass(frozen=True, slots=True)
class SinkType:
    """A sink as the configuration knows it.

    - `rows` are the properties that not every sink has
    - `read` makes its settings of them, and adds to `values.problems`
    - `make` is as in `SinkSettings`
    - `warnings` yields what is logged once, given its settings and those of the events
    """

    rows: tuple[Property, ...]
    read: Callable[[Values], object]
    make: MakeSink | str
    warnings: Callable[[Any, EventSettings], Iterable[str]] = lambda _settings, _events: ()


@dataclass(frozen=True, slots=True)
class ChannelType:
    """A signal channel of another package: its properties, the settings made of them, and the channel.

    `make` gets the settings and `topic.prefix` when a job starts; it returns a
    `signals.channels.SignalChannel`, whose messages come from `Channel.CUSTOM`.
    """

    rows: tuple[Property, ...]
    read: Callable[[Values], object]
    make: Callable[[Any, str], Any]


def find(group: str, name: str, kind: type[_T]) -> _T | None:
    """The object that we or another package have registered under a name; None if there is none.

    Raises ConfigError if it can't be loaded or is something else.
    """
    ours = BUILT_IN.get(group, {}).get(name)
    if ours is not None:
        entry: metadata.EntryPoint | None = metadata.EntryPoint(name, ours, group)
    else:
        entry = next(iter(metadata.entry_points(group=group, name=name)), None)
    if entry is None:
        return None
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the entry point {name!r} of the group {group} can't be loaded: {error}",
            hint=f"is {entry.value.partition(':')[0]} installed?",
        ) from error
    if not isinstance(found, kind):
        raise ConfigError(f"the entry point {name!r} of the group {group} is no {kind.__name__}")
    return found


def registered(group: str) -> tuple[str, ...]:
    """The names that other packages have registered."""
    return tuple(sorted({entry.name for entry in metadata.entry_points(group=group)}))
