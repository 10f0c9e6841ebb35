"""Which connector and which sink a file names, and the properties that they know."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from engine.config.plugins import (
    BUILT_IN_CHANNELS,
    CHANNELS,
    ChannelType,
    Connector,
    SinkType,
    find,
    registered,
)
from engine.config.properties.row import IGNORED, Catalogue
from engine.config.properties.shapes import Shape, names, subset
from engine.config.registry import BUILT_IN, SHORT_NAMES, SINKS, SOURCES
from engine.config.text.hidden import shown_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.config.properties.row import Property

_T = TypeVar("_T")

_CLASS, _SINK, _CHANNELS = "connector.class", "tidemark.sink", "signal.enabled.channels"
_STANDARD_SINK = "files"


def connector_of(properties: Mapping[str, str]) -> Connector | None:
    """The connector that the properties name; PostgreSQL's if they name none, None if it is unknown.

    Raises ConfigError if another package's can't be loaded.
    """
    name = properties.get(_CLASS, "").strip()
    return find(SOURCES, SHORT_NAMES.get(name, name), Connector)


def unknown_connector(properties: Mapping[str, str]) -> str:
    """The problem with a connector that is unknown."""
    *known, last = [repr(name) for name in (*BUILT_IN[SOURCES], *registered(SOURCES))]
    named = shown_value(_CLASS, properties.get(_CLASS, ""))
    return f"{_CLASS!r} is {named!r}; it must be {', '.join(known)} or {last}"


def sink_of(properties: Mapping[str, str]) -> SinkType | None:
    """The sink that the properties name; None if it is unknown.

    Raises ConfigError if another package's can't be loaded.
    """
    return find(SINKS, _sink_name(properties), SinkType)


def _sink_name(properties: Mapping[str, str]) -> str:
    """The name of a sink as it is registered: ours may be written in any case of letters."""
    name = properties.get(_SINK, _STANDARD_SINK).strip()
    return name.lower() if name.lower() in BUILT_IN[SINKS] else name


def channel_types(properties: Mapping[str, str]) -> dict[str, ChannelType]:
    """The signal channels of other packages that the properties name, by name in lower case."""
    named = [name.lower() for name in names(properties.get(_CHANNELS, ""))]
    found = {name: find(CHANNELS, name, ChannelType) for name in named if name not in BUILT_IN_CHANNELS}
    return {name: kind for name, kind in found.items() if kind is not None}


def catalogue_of(properties: Mapping[str, str]) -> Catalogue:
    """The properties that connector, sink and channels know.

    If the connector is unknown, PostgreSQL's stands in for it; for a sink that is unknown, the sink files.
    """
    connector = connector_of(properties) or _our_own(SOURCES, SHORT_NAMES[""], Connector)
    sink, channels = sink_of(properties), channel_types(properties)
    shapes: dict[str, Shape] = {}
    if sink is not None:
        name = _sink_name(properties)
        shapes[_SINK] = Shape("the name of a sink", lambda _raw: name)
    if channels:
        shapes[_CHANNELS] = subset((*BUILT_IN_CHANNELS, *channels))
    rows = [
        replace(row, shape=shapes[row.name]) if row.name in shapes else row
        for row in connector.catalogue.rows
    ]
    sink = sink or _our_own(SINKS, _STANDARD_SINK, SinkType)
    theirs = [row for kind in channels.values() for row in kind.rows]
    return Catalogue((*rows, *sink.rows, *_of_other_sinks(sink), *theirs))


def _of_other_sinks(chosen: SinkType) -> Iterator[Property]:
    """The properties that only other sinks of ours read."""
    readers: dict[str, list[str]] = {}
    rows: dict[str, Property] = {}
    for name in BUILT_IN[SINKS]:
        for row in _our_own(SINKS, name, SinkType).rows:
            rows[row.name] = row
            readers.setdefault(row.name, []).append(name)
    for row in chosen.rows:
        rows.pop(row.name, None)
    for row in rows.values():
        text = f"{_SINK} is {_none_of(readers[row.name])}"
        yield replace(row, kind=IGNORED, text=text, required=False)


def _none_of(sinks: Sequence[str]) -> str:
    match sinks:
        case [name]:
            return f"not {name}"
        case [first, second]:
            return f"neither {first} nor {second}"
    return f"none of {', '.join(sinks)}"


def _our_own(group: str, name: str, kind: type[_T]) -> _T:
    return cast("_T", find(group, name, kind))
