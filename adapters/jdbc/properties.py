"""The properties of the sink `jdbc`: where its database is, and how its tables are named.

Their names are those of Debezium's JDBC sink, under `tidemark.sink.jdbc.`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.jdbc.settings import JdbcSettings
from engine.config.plugins import SinkType
from engine.config.properties.row import APPLIED, Property
from engine.config.properties.shapes import TEXT, VERBATIM, choice
from engine.config.sinks.every_sink import RECREATED, inexact_copies, need_checkpoint, recreated
from engine.config.sinks.postgres_target import ADDRESS, ConnectionSettings, PostgresTarget, parameters_of
from engine.config.sinks.settings import SchemaEvolution
from engine.config.sinks.table_names import NAME_FORMAT, TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values
    from engine.events.settings import EventSettings

_PREFIX: Final = "tidemark.sink.jdbc."
_URL: Final = f"{_PREFIX}connection.url"
_USER, _PASSWORD = f"{_PREFIX}connection.username", f"{_PREFIX}connection.password"
FORMAT: Final = f"{_PREFIX}collection.name.format"
EVOLUTION: Final = f"{_PREFIX}schema.evolution"

ROWS: Final = (
    Property(_URL, APPLIED, "database of the sink jdbc: jdbc:postgresql://host:port/database", ADDRESS),
    Property(_USER, APPLIED, "user of the sink jdbc", TEXT),
    Property(_PASSWORD, APPLIED, "password of the sink jdbc", VERBATIM),
    Property(
        FORMAT,
        APPLIED,
        "name of a collection's table, with or without a schema, from ${topic}, ${source.db},"
        " ${source.schema} and ${source.table}",
        NAME_FORMAT,
        TOPIC,
    ),
    Property(
        EVOLUTION,
        APPLIED,
        "what to do if tables or columns are missing: create them (basic), or set their table aside (none)",
        choice(SchemaEvolution),
        "basic",
    ),
    RECREATED,
)


def read(values: Values) -> JdbcSettings:
    """Compose the sink's settings. Its problems are added to the others."""
    values.need(_URL, "the database that the sink 'jdbc' writes to")
    need_checkpoint(values)
    database = PostgresTarget(_parameters(values), values.get(FORMAT, str))
    values.problems.extend(_into_itself(values, database))
    return JdbcSettings(database, values.get(EVOLUTION, SchemaEvolution), recreated(values))


def _parameters(values: Values) -> dict[str, str]:
    address = values.get(_URL, str)
    login = values.get(_USER, str), values.get(_PASSWORD, str)
    return parameters_of(ConnectionSettings(_URL, address, *login), values.problems) if address else {}


def _into_itself(values: Values, database: PostgresTarget) -> Iterator[str]:
    """A job that writes into the tables that it reads would stream its own changes for ever."""
    there = [database.parameters.get(name) for name in ("host", "port", "dbname")]
    given = values.given
    here = [
        given.get("database.hostname"),
        given.get("database.port", "5432"),
        given.get("database.dbname"),
    ]
    if here == there and TOPIC not in database.table_format:
        yield (
            f"{_URL!r} is the source's own database, so {FORMAT!r} must contain {TOPIC!r},"
            " which names no table of the source"
        )


def _warnings(_settings: JdbcSettings, events: EventSettings) -> Iterator[str]:
    return inexact_copies(events)


SINK: Final = SinkType(ROWS, read, "adapters.source.sinks.jdbc", _warnings)
