"""Tables that somebody else keeps, and that a verification compares with their source.

They are named in the settings, so no signal has an address or a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from engine.config.properties.row import APPLIED, Property
from engine.config.properties.shapes import TEXT, VERBATIM, Shape, text, whole
from engine.config.sinks.postgres_target import ADDRESS, ConnectionSettings, PostgresTarget, parameters_of
from engine.config.sinks.sqlserver_target import SqlServerTarget, is_sqlserver, sqlserver_target
from engine.config.sinks.table_names import NAME_FORMAT
from engine.model import CollectionId

if TYPE_CHECKING:
    from engine.config.properties.values import Values

_PREFIX: Final = "tidemark.verify.against.<target>."
_URL: Final = f"{_PREFIX}connection.url"
_USER, _PASSWORD = f"{_PREFIX}connection.username", f"{_PREFIX}connection.password"
_FORMAT: Final = f"{_PREFIX}collection.name.format"
_MARKER: Final = f"{_PREFIX}marker.collection"
_STANDARD_FORMAT: Final = "${source.schema}.${source.table}"
_MONGODB: Final = re.compile(r"mongodb(?:\+srv)?://\S+")
_MONGODB_FORMAT: Final = "${source.db}.${source.table}"
_NAME, _SQLSERVER_NAME = "schema.table", "database.schema.table"
_SETTLE: Final = "tidemark.verify.settle.ms"


def _address(raw: str) -> object:
    given = raw.strip()
    return given if _MONGODB.fullmatch(given) or is_sqlserver(given) else ADDRESS.convert(raw)


_ADDRESS: Final = Shape(
    f"{ADDRESS.allowed}; or jdbc:sqlserver://host:port;databaseName=database; or mongodb://host:port",
    _address,
)

ROWS: Final = (
    Property(
        _SETTLE,
        APPLIED,
        "how long a table that another program maintains may lag; a difference counts if it lasts longer",
        whole(1, 3_600_000),
        "10000",
    ),
    Property(
        _URL,
        APPLIED,
        "database of the source's kind with tables that another program maintains:"
        " jdbc:postgresql://host:port/database, jdbc:sqlserver://host:port;databaseName=database,"
        " or mongodb://host:port",
        _ADDRESS,
    ),
    Property(_USER, APPLIED, "user who may read these tables", TEXT),
    Property(_PASSWORD, APPLIED, "password of this user", VERBATIM),
    Property(
        _FORMAT,
        APPLIED,
        f"name of a collection's table there, as for the sink jdbc; without it {_STANDARD_FORMAT}, on MongoDB"
        f" {_MONGODB_FORMAT}",
        NAME_FORMAT,
        _STANDARD_FORMAT,
    ),
    Property(
        _MARKER,
        APPLIED,
        "captured table, schema.table or on SQL Server database.schema.table, into which the job inserts rows"
        " that show how far the target has come; the target must be filled in the order of the log",
        text(r"[^.]+\.[^.]+(\.[^.]+)?", "schema.table, or database.schema.table on SQL Server"),
    ),
)


@dataclass(frozen=True, slots=True)
class MongoTarget:
    """A MongoDB deployment. `collection_format` gives a collection's database and name."""

    uri: str = field(repr=False)
    user: str = ""
    password: str = field(default="", repr=False)
    collection_format: str = _MONGODB_FORMAT


TargetDatabase: TypeAlias = PostgresTarget | SqlServerTarget | MongoTarget


@dataclass(frozen=True, slots=True)
class Against:
    """A database with tables that somebody else keeps.

    `marker` is the table by whose rows the target tells how far it is; None: it can't tell.
    """

    database: TargetDatabase
    marker: CollectionId | None = None


@dataclass(slots=True)
class AgainstRead:
    """The databases by their names, and every problem found on the way."""

    targets: dict[str, Against] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_against(values: Values) -> AgainstRead:
    """Compose the settings of each database."""
    given = {
        pattern: {parts[0]: str(value) for parts, value in values.group(pattern)}
        for pattern in (_URL, _USER, _PASSWORD, _FORMAT, _MARKER)
    }
    found = AgainstRead()
    for name in dict.fromkeys(name for named in given.values() for name in named):
        setting = _URL.replace("<target>", name)
        if not given[_URL].get(name):
            if values.sure(setting):
                found.problems.append(f"missing {setting!r}: the database of the target {name!r}")
            continue
        login = given[_USER].get(name, ""), given[_PASSWORD].get(name, "")
        connecting = ConnectionSettings(setting, given[_URL][name], *login)
        database = _database(connecting, given[_FORMAT].get(name, ""), found.problems)
        marker = _marker(given[_MARKER].get(name), database, found.problems)
        found.targets[name] = Against(database, marker)
    return found


def _marker(given: str | None, database: TargetDatabase, problems: list[str]) -> CollectionId | None:
    """The table of markers, by the name that the source's collections have."""
    if given is None:
        return None
    parts = tuple(given.split("."))
    form = _SQLSERVER_NAME if isinstance(database, SqlServerTarget) else _NAME
    if len(parts) != len(form.split(".")):
        problems.append(f"{_MARKER!r} must be {form} with such a target")
    return CollectionId(parts)


def _database(connecting: ConnectionSettings, form: str, problems: list[str]) -> TargetDatabase:
    if is_sqlserver(connecting.address):
        return replace(sqlserver_target(connecting, problems), table_format=form or _STANDARD_FORMAT)
    if _MONGODB.fullmatch(connecting.address):
        given = connecting.address, connecting.user, connecting.password
        return MongoTarget(*given, form or _MONGODB_FORMAT)
    return PostgresTarget(parameters_of(connecting, problems), form or _STANDARD_FORMAT)
