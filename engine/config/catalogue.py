"""Which connector and which sink a file names, and the properties that they know.

The modules with the built-in connectors are listed here, and imported when a file names them. `plugins` finds
those of other packages.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, cast

from engine.config.plugins import (
    BUILT_IN_CHANNELS,
    CHANNELS,
    SINKS,
    SOURCES,
    ChannelType,
    Connector,
    SinkType,
    find,
    registered,
)
from engine.config.properties.row import Catalogue
from engine.config.properties.shapes import TEXT, names, subset
from engine.config.sinks.settings import SinkKind
from engine.config.text.hidden import shown_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.config.properties.shapes import Shape

_CLASS, _SINK, _CHANNELS = "connector.class", "tidemark.sink", "signal.enabled.channels"
_POSTGRES = "adapters.postgres.properties"
_BUILT_IN = {
    _POSTGRES: ("io.debezium.connector.postgresql.PostgresConnector", "PostgresConnector", "postgresql", ""),
    "adapters.mongodb.properties": (
        *("io.debezium.connector.mongodb.MongoDbConnector", "MongoDbConnector", "mongodb"),
    ),
    "adapters.sqlserver.properties": (
        *("io.debezium.connector.sqlserver.SqlServerConnector", "SqlServerConnector", "sqlserver"),
    ),
}
"""The values of `connector.class` that name each module's connector; the first is shown."""
_NAMED = {name: module for module, names in _BUILT_IN.items() for name in names}


def connector_of(properties: Mapping[str, str]) -> Connector | None:
    """The connector that the properties name; PostgreSQL's if they name none, None if it is unknown.

    Raises ConfigError if another package's can't be loaded.
    """
    name = properties.get(_CLASS, "").strip()
    return _built_in(_NAMED[name]) if name in _NAMED else find(SOURCES, name, Connector)


def _built_in(module: str) -> Connector:
    return cast("Connector", import_module(module).CONNECTOR)


def unknown_connector(properties: Mapping[str, str]) -> str:
    """The problem with a connector that is unknown."""
    *names, last = [
        repr(name) for name in (*(names[0] for names in _BUILT_IN.values()), *registered(SOURCES))
    ]
    named = shown_value(_CLASS, properties.get(_CLASS, ""))
    return f"{_CLASS!r} is {named!r}; it must be {', '.join(names)} or {last}"


def sink_of(properties: Mapping[str, str]) -> SinkType | None:
    """The sink of another package that the properties name; None for a built-in or unknown one."""
    name = properties.get(_SINK, "").strip()
    return None if not name or name.lower() in set(SinkKind) else find(SINKS, name, SinkType)


def channel_types(properties: Mapping[str, str]) -> dict[str, ChannelType]:
    """The signal channels of other packages that the properties name, by name in lower case."""
    named = [name.lower() for name in names(properties.get(_CHANNELS, ""))]
    found = {name: find(CHANNELS, name, ChannelType) for name in named if name not in BUILT_IN_CHANNELS}
    return {name: kind for name, kind in found.items() if kind is not None}


def catalogue_of(properties: Mapping[str, str]) -> Catalogue:
    """The properties that connector, sink and channels know; PostgreSQL's if the connector is unknown."""
    connector, sink, channels = connector_of(properties), sink_of(properties), channel_types(properties)
    catalogue = (connector or _built_in(_POSTGRES)).catalogue
    shapes: dict[str, Shape] = {}
    if sink is not None:
        shapes[_SINK] = TEXT
    if channels:
        shapes[_CHANNELS] = subset((*BUILT_IN_CHANNELS, *channels))
    if not shapes:
        return catalogue
    rows = [replace(row, shape=shapes.get(row.name, row.shape)) for row in catalogue.rows]
    theirs = [row for kind in (sink, *channels.values()) if kind is not None for row in kind.rows]
    return Catalogue((*rows, *theirs))
