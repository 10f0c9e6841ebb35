"""Which connector and which sink a file names, and the properties that they know.

The built-in connectors are listed here; `plugins` finds those of other packages.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.config import mongodb, postgres, sqlserver
from engine.config.hidden import shown_value
from engine.config.plugins import SINKS, SOURCES, Connector, SinkType, find, registered
from engine.config.row import Catalogue
from engine.config.settings import SinkKind
from engine.config.shapes import TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLASS, _SINK = "connector.class", "tidemark.sink"
_BUILT_IN = (postgres.CONNECTOR, mongodb.CONNECTOR, sqlserver.CONNECTOR)
_NAMED = {name: connector for connector in _BUILT_IN for name in connector.classes}
POSTGRES, MONGODB, SQLSERVER = (connector.catalogue for connector in _BUILT_IN)


def connector_of(properties: Mapping[str, str]) -> Connector | None:
    """The connector that the properties name; PostgreSQL's if they name none, None if it is unknown.

    Raises ConfigError if another package's can't be loaded.
    """
    name = properties.get(_CLASS, "").strip()
    return _NAMED.get(name) or find(SOURCES, name, Connector)


def unknown_connector(properties: Mapping[str, str]) -> str:
    """The problem with a connector that is unknown."""
    *names, last = [
        repr(name) for name in (*(connector.classes[0] for connector in _BUILT_IN), *registered(SOURCES))
    ]
    named = shown_value(_CLASS, properties.get(_CLASS, ""))
    return f"{_CLASS!r} is {named!r}; it must be {', '.join(names)} or {last}"


def sink_of(properties: Mapping[str, str]) -> SinkType | None:
    """The sink of another package that the properties name; None for a built-in or unknown one."""
    name = properties.get(_SINK, "").strip()
    return None if not name or name.lower() in set(SinkKind) else find(SINKS, name, SinkType)


def catalogue_of(properties: Mapping[str, str]) -> Catalogue:
    """The properties that the file's connector and sink know; PostgreSQL's if the connector is unknown."""
    connector, sink = connector_of(properties), sink_of(properties)
    catalogue = connector.catalogue if connector else POSTGRES
    if sink is None:
        return catalogue
    rows = (replace(row, shape=TEXT) if row.name == _SINK else row for row in catalogue.rows)
    return Catalogue((*rows, *sink.rows))
