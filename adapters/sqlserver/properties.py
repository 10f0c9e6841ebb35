"""The properties of Debezium's SQL Server connector: their rows, and the settings that they make.

Names and defaults are those of Debezium 2.1.4, or of the later version that introduced a property. Rows that
all connectors have are taken from PostgreSQL's by name. `history` has the schema history.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adapters.sqlserver.driver_options import DRIVER, driver_name
from adapters.sqlserver.history_properties import HISTORY, history_settings
from adapters.sqlserver.settings import Encryption, Isolation, SqlServerSettings
from engine.config.plugins import Connector, SourceSettings
from engine.config.properties.row import APPLIED, IGNORED, LATER_REFUSED, REFUSED, Catalogue, Property
from engine.config.properties.shapes import FLAG, NAMES, TEXT, VERBATIM, Shape, choice, harmless, text, whole
from engine.config.settings import SnapshotMode, Watermarking
from engine.config.sources import relational
from engine.config.sources.connector import HOST
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values
    from engine.events.settings import EventSettings

P = Property
_MS = whole(0, 2**31 - 1)
_PART = r'("(?:[^"]|"")+"|\[(?:[^\]]|\]\])+\]|[^.,\s"\[\]]+)'
_MODES = {
    **{
        str(mode): mode
        for mode in SnapshotMode
        if mode not in {SnapshotMode.EXPORTED, SnapshotMode.NEVER, SnapshotMode.WHEN_NEEDED}
    },
    "schema_only": SnapshotMode.NO_DATA,
}

AGENT_STATUS = (
    "SELECT CASE WHEN dss.[status] = 4 THEN 1 ELSE 0 END AS isRunning"
    " FROM [#db].sys.dm_server_services AS dss WHERE dss.[servicename] LIKE N'SQL Server Agent (%'"
)
"""Whether SQL Server Agent runs; `[#db]` stands for the database's quoted name."""


def _table_names(raw: str) -> tuple[CollectionId, ...] | None:
    """`database.schema.table`, comma separated. A part in brackets or double quotes may contain a dot."""
    name = rf"\s*{_PART}\.{_PART}\.{_PART}\s*"
    if not raw.strip():
        return ()
    if re.fullmatch(rf"{name}(?:,{name})*", raw) is None:
        return None
    return tuple(CollectionId(tuple(map(_unquoted, match.groups()))) for match in re.finditer(name, raw))


def _unquoted(part: str) -> str:
    if part.startswith('"'):
        return part[1:-1].replace('""', '"')
    return part[1:-1].replace("]]", "]") if part.startswith("[") else part


_SIGNAL_TABLES = Shape("database.schema.table, or a list of one table per database", _table_names)
_MODE = Shape("one of " + ", ".join(_MODES), lambda raw: _MODES.get(raw.strip().lower()))

_USER, _USER_TEXT = "database.user", "the login to connect as"

CONNECTION = (
    HOST,
    P("database.port", APPLIED, "the server's port", whole(1, 65535), "1433"),
    P("database.instance", APPLIED, "the instance, if the host has several", text(r"[\w$#]*", "a name")),
    P(_USER, APPLIED, _USER_TEXT, text(r"[^\0]*", "a name")),
    P("database.password", APPLIED, "its password"),
    P("database.names", APPLIED, "the databases whose changes are read", NAMES),
    P("database.dbname", APPLIED, "older: the one database whose changes are read", TEXT),
    P("database.query.timeout.ms", APPLIED, "longest time for a query; 0: no limit", _MS, "600000"),
    P(
        "database.sqlserver.agent.status.query",
        APPLIED,
        "query that returns 1 if SQL Server Agent is running, else 0; [#db] stands for the database",
        VERBATIM,
        AGENT_STATUS,
    ),
    P(
        "tidemark.sqlserver.odbc.driver",
        APPLIED,
        "the ODBC driver of the metadata connection: a name from odbcinst.ini, or a library's path",
        TEXT,
        "ODBC Driver 18 for SQL Server",
    ),
)
STREAM = (
    P("poll.interval.ms", APPLIED, "how often the greatest LSN is queried", whole(1, 2**31 - 1), "500"),
    P(
        "include.schema.changes",
        APPLIED,
        "emit the tables' schemas to the topic named by the prefix",
        FLAG,
        "true",
    ),
)
SNAPSHOT = (
    P("snapshot.mode", APPLIED, "when the tables are read as a whole", _MODE, "initial"),
    P(
        "snapshot.isolation.mode",
        APPLIED,
        "what an initial snapshot holds while it reads",
        choice(Isolation),
        "repeatable_read",
    ),
    P("snapshot.locking.mode", LATER_REFUSED, "how an initial snapshot locks", TEXT, "exclusive"),
    P(
        "incremental.snapshot.watermarking.strategy",
        APPLIED,
        "write rows to the signal table (insert_insert, insert_delete), or write none (visibility)",
        choice(Watermarking),
        "insert_insert",
    ),
    P("signal.data.collection", APPLIED, "the signal table of each database", _SIGNAL_TABLES),
)
_OTHERS = (
    P("source.struct.version", REFUSED, "the source block is that of version 2", harmless("v2")),
    P(
        "topic.naming.strategy",
        REFUSED,
        "topics are named prefix, database, schema and table; see topic.delimiter",
        harmless("io.debezium.schema.SchemaTopicNamingStrategy"),
    ),
    P(
        "sourceinfo.struct.maker",
        REFUSED,
        "the source block is SQL Server's own",
        harmless("io.debezium.connector.sqlserver.SqlServerSourceInfoStructMaker"),
    ),
    P(
        "transaction.metadata.factory",
        REFUSED,
        "transaction blocks are SQL Server's own",
        harmless("io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory"),
    ),
)
_WHY = {
    "the job reads the change tables directly": ("data.query.mode", "streaming.fetch.size"),
    "a turn is bounded by tidemark.span.max.rows and tidemark.span.max.bytes": (
        *("max.iteration.transactions", "poll.dispatch.interval.ms"),
    ),
    "chunks' bounds are literals, so no plan is chosen by a parameter": (
        "incremental.snapshot.option.recompile",
    ),
}


def _rows() -> tuple[Property, ...]:
    own = (
        *CONNECTION,
        *DRIVER,
        *STREAM,
        *SNAPSHOT,
        *HISTORY,
        *_OTHERS,
        *(P(name, IGNORED, why) for why, names in _WHY.items() for name in names),
    )
    return relational.rows(own)


ROWS = _rows()


def sqlserver_settings(v: Values) -> SqlServerSettings:
    """The connection, the stream and the schema history. Its problems are added to the others."""
    return SqlServerSettings(
        host=v.get("database.hostname", str),
        user=v.get("database.user", str),
        databases=databases(v),
        password=v.get("database.password", str),
        access_token=v.get(driver_name(v, "accessToken"), str),
        port=0 if _port_is_asked_for(v) else v.get("database.port", int),
        instance=v.get("database.instance", str),
        encrypt=v.get(driver_name(v, "encrypt"), Encryption),
        trust_server_certificate=v.get(driver_name(v, "trustServerCertificate"), bool),
        certificate_host=v.get(driver_name(v, "hostNameInCertificate"), str),
        server_certificate=v.get(driver_name(v, "serverCertificate"), str),
        application=v.get(driver_name(v, "applicationName"), str),
        login_timeout_s=v.get(driver_name(v, "loginTimeout"), int),
        packet_size=v.get(driver_name(v, "packetSize"), int),
        multi_subnet_failover=v.get(driver_name(v, "multiSubnetFailover"), bool),
        odbc_driver=v.get("tidemark.sqlserver.odbc.driver", str),
        query_timeout_ms=v.get("database.query.timeout.ms", int),
        lock_timeout_ms=v.get("snapshot.lock.timeout.ms", int),
        poll_interval_ms=v.get("poll.interval.ms", int),
        agent_status_query=v.get("database.sqlserver.agent.status.query", str),
        isolation=v.get("snapshot.isolation.mode", Isolation),
        include_schema_changes=v.get("include.schema.changes", bool),
        signal_tables=signal_tables(v),
        history=history_settings(v),
    )


def event_settings(v: Values) -> EventSettings:
    """The settings that shape events. `SqlServerSettings.signal_tables` has the signal tables."""
    return relational.event_settings(v, "", "")


def _port_is_asked_for(v: Values) -> bool:
    return bool(v.get("database.instance", str)) and "database.port" not in v.given


def databases(v: Values) -> tuple[str, ...]:
    """The databases in their order, each once."""
    older = v.get("database.dbname", str)
    return tuple(dict.fromkeys(v.get("database.names", tuple) or ((older,) if older else ())))


def signal_tables(v: Values) -> tuple[CollectionId, ...]:
    """The signal tables, `(database, schema, table)`."""
    return v.get("signal.data.collection", tuple)


def problems(values: Values) -> Iterator[str]:
    """Yield the faults that involve more than one property."""
    yield from relational.problems(values)
    names, older = "database.names", "database.dbname"
    given = [name for name in (names, older) if name in values.given]
    if len(given) > 1:
        yield f"{names!r} and {older!r} exclude each other; give {names!r}"
    if not databases(values) and values.sure(names, older):
        yield f"missing {names!r}: the databases whose changes are read"
    yield from _signal_tables(values)
    token, user = driver_name(values, "accessToken"), values.get(_USER, str)
    if values.get(token, str):
        if user or values.get("database.password", str):
            yield f"{_USER!r} and {token!r} exclude each other"
    elif not user and values.sure(_USER, token):
        yield f"missing {_USER!r}: {_USER_TEXT}"
    certificate = driver_name(values, "serverCertificate")
    strict = values.get(driver_name(values, "encrypt"), Encryption) is Encryption.STRICT
    if values.get(certificate, str) and not strict:
        yield f"{certificate!r} is looked at only where 'database.encrypt' is 'strict'"


def _signal_tables(values: Values) -> Iterator[str]:
    name = "signal.data.collection"
    listed = [table.parts[0] for table in signal_tables(values)]
    for database in dict.fromkeys(listed):
        if database not in databases(values):
            yield f"{name!r} names the database {database!r}, which 'database.names' does not"
        if listed.count(database) > 1:
            yield f"{name!r} names two tables of the database {database!r}; LSNs need one in each"


def _read(v: Values) -> SourceSettings:
    capture, snapshot = relational.capture_settings(v), relational.snapshot_settings(v, brackets=True)
    return SourceSettings(event_settings(v), sqlserver_settings(v), capture, snapshot)


CONNECTOR = Connector(
    job="adapters.sqlserver.job",
    catalogue=Catalogue(ROWS),
    read=_read,
    problems=problems,
    warnings=relational.warnings,
)
