"""The settings of the sink `jdbc`: where its database is, and how its tables are named.

Property names are those of Debezium's JDBC sink, under `tidemark.sink.jdbc.`. The address is pgjdbc's; its
parameters become libpq's here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from engine.config.properties.row import APPLIED, Property
from engine.config.properties.shapes import TEXT, VERBATIM, Shape, choice
from engine.config.sinks.settings import JdbcSettings, SchemaEvolution, SinkKind, TopicRecreated
from engine.config.sinks.table_names import NAME_FORMAT, TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values
    from engine.config.sinks.settings import SinkSettings
    from engine.events.settings import EventSettings

_PREFIX: Final = "tidemark.sink.jdbc."
_URL: Final = f"{_PREFIX}connection.url"
_USER, _PASSWORD = f"{_PREFIX}connection.username", f"{_PREFIX}connection.password"
FORMAT: Final = f"{_PREFIX}collection.name.format"
EVOLUTION: Final = f"{_PREFIX}schema.evolution"
_NAMES: Final = {
    "channelBinding": "channel_binding",
    "connectTimeout": "connect_timeout",
    "gssEncMode": "gssencmode",
    "loginTimeout": "connect_timeout",
    "password": "password",
    "requireAuth": "require_auth",
    "sslNegotiation": "sslnegotiation",
    "targetServerType": "target_session_attrs",
    "user": "user",
}
"""pgjdbc's names to libpq's."""
_SAME: Final = frozenset(
    (
        *("channel_binding", "connect_timeout", "gssencmode", "require_auth"),
        *("sslcert", "sslkey", "sslmode", "sslnegotiation", "sslpassword", "sslrootcert"),
        *("target_session_attrs", "tcp_user_timeout", "keepalives_idle", "keepalives_interval"),
    )
)
"""Names that pgjdbc and libpq share, and libpq's own."""


def _address(raw: str) -> str | None:
    """`jdbc:postgresql://host:port/database?parameter=value`; the port may be missing. Empty: none."""
    given = raw.strip().removeprefix("jdbc:")
    if not given:
        return ""
    try:
        found = urlsplit(given)
        _port = found.port
    except ValueError:
        return None
    whole = found.scheme in {"postgresql", "postgres"} and found.hostname and found.path.strip("/")
    return raw.strip() if whole and "," not in found.netloc and not found.fragment else None


ADDRESS: Final = Shape("jdbc:postgresql://host:port/database?parameter=value, of one host", _address)

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
)


@dataclass(slots=True)
class JdbcRead:
    """The settings, and every problem found on the way."""

    settings: JdbcSettings = field(default_factory=JdbcSettings)
    problems: list[str] = field(default_factory=list)


def read_jdbc(values: Values, events: EventSettings) -> JdbcRead:
    """Compose the sink's settings. Another sink's job has none, and no problems."""
    if values.get("tidemark.sink", str) != SinkKind.JDBC:
        return JdbcRead()
    problems: list[str] = []
    parameters: dict[str, str] = {}
    if values.get(_URL, str):
        parameters = parameters_of(
            ConnectionSettings(
                _URL, values.get(_URL, str), values.get(_USER, str), values.get(_PASSWORD, str)
            ),
            problems,
        )
    elif values.sure(_URL):
        problems.append(f"missing {_URL!r}: the database that the sink 'jdbc' writes to")
    settings = JdbcSettings(
        parameters=parameters,
        table_format=values.get(FORMAT, str),
        evolution=values.get(EVOLUTION, SchemaEvolution),
        recreated=values.get("tidemark.sink.topic.recreated", TopicRecreated),
        unavailable_text=events.unavailable_text,
        unavailable_value=events.unavailable_value,
    )
    problems += _into_itself(values, settings)
    return JdbcRead(settings, problems)


def jdbc_warnings(sink: SinkSettings, events: EventSettings) -> Iterator[str]:
    """What keeps the tables of this sink from being equal to the source's."""
    skipped = sorted(events.skipped_operations & {"c", "u", "d", "t"})
    if sink.kind == SinkKind.JDBC and skipped:
        yield (
            f"'skipped.operations' leaves out {', '.join(skipped)}: the sink's tables won't follow them;"
            " set it to none for exact copies"
        )


def jdbc_names(values: Values) -> Iterator[str]:
    """The names of the given properties that only this sink uses."""
    yield from (name for name in values.given if name.startswith(_PREFIX))


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """An address, whose setting has this name, a user and a password; both may be empty."""

    setting: str
    address: str
    user: str
    password: str = field(repr=False)


def parameters_of(connecting: ConnectionSettings, problems: list[str]) -> dict[str, str]:
    """By libpq's names. User and password keep their references, to be resolved at every connection."""
    address = urlsplit(connecting.address.removeprefix("jdbc:"))
    found = {
        "host": address.hostname or "",
        "port": str(address.port or 5432),
        "dbname": unquote(address.path.strip("/")),
        **({"user": unquote(address.username)} if address.username else {}),
        **({"password": unquote(address.password)} if address.password else {}),
    }
    for name, value in parse_qsl(address.query, keep_blank_values=True):
        if name == "ssl":
            found.setdefault("sslmode", "verify-full" if value in {"", "true"} else "prefer")
        elif name == "currentSchema":
            found["options"] = "-c search_path=" + value.replace("\\", "\\\\").replace(" ", "\\ ")
        elif name in _NAMES or name in _SAME:
            found[_NAMES.get(name, name)] = value
        else:
            known = ", ".join(sorted({"ssl", "currentSchema", *_NAMES, *_SAME}))
            problems.append(f"{connecting.setting!r} has an unknown parameter {name!r}; known: {known}")
    login = {"user": connecting.user, "password": connecting.password}
    return found | {name: value for name, value in login.items() if value}


def _into_itself(values: Values, settings: JdbcSettings) -> Iterator[str]:
    """A job that writes into the tables that it reads would stream its own changes for ever."""
    there = [settings.parameters.get(name) for name in ("host", "port", "dbname")]
    given = values.given
    here = [
        given.get("database.hostname"),
        given.get("database.port", "5432"),
        given.get("database.dbname"),
    ]
    if here == there and TOPIC not in settings.table_format:
        yield (
            f"{_URL!r} is the source's own database, so {FORMAT!r} must contain {TOPIC!r},"
            " which names no table of the source"
        )
