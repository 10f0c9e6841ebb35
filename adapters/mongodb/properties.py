"""The properties of Debezium's MongoDB connector: their rows, and the settings that they make.

Names and defaults are those of Debezium 2.1.4, or of the later version that introduced a property. Rows that
PostgreSQL's connector has too are taken from there by name.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.mongodb.documents.selection import FieldRule
from adapters.mongodb.filters import FILTER, MATCHES
from adapters.mongodb.settings import CaptureMode, CaptureScope, MongoSettings, Oversize
from engine.config.plugins import Connector, SourceSettings
from engine.config.properties.expression_shapes import EXPRESSIONS
from engine.config.properties.row import APPLIED, IGNORED, REFUSED, RENAMED, Catalogue, Property
from engine.config.properties.shapes import FLAG, NAMES, TEXT, Shape, choice, harmless, whole
from engine.config.settings import (
    Watermarking,
)
from engine.config.sources import every_source, overrides
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values

P = Property
_MS = whole(0, 2**31 - 1)
_PART = r"[^.\s,]+"
_FILTERS = "snapshot.collection.filter.overrides"


def _collection_name(raw: str) -> CollectionId | str | None:
    """`database.collection`; a collection's name may contain dots. Empty: none."""
    database, dot, collection = raw.strip().partition(".")
    if not raw.strip():
        return ""
    return CollectionId((database, collection)) if database and dot and collection else None


def _field_paths(raw: str, *, renamed: bool) -> tuple[FieldRule, ...] | None:
    found = []
    for entry in (part.strip() for part in raw.split(",") if part.strip()):
        pattern = rf"({_PART})\.({_PART})\.({_PART}(?:\.{_PART})*)" + (r":([^:,]+)" if renamed else "")
        match = re.fullmatch(pattern, entry)
        if match is None:
            return None
        database, collection, path, *name = match.groups()
        found.append(FieldRule(database, collection, tuple(path.split(".")), name[0] if name else None))
    return tuple(found)


_COLLECTION = Shape("database.collection", _collection_name)
_EXCLUDED = Shape("a list of database.collection.field paths", lambda raw: _field_paths(raw, renamed=False))
_RENAMED = Shape(
    "a list of database.collection.field:name pairs", lambda raw: _field_paths(raw, renamed=True)
)

CONNECTION = (
    P("mongodb.connection.string", APPLIED, "the deployment, as a mongodb:// or mongodb+srv:// string", TEXT),
    P("mongodb.hosts", APPLIED, "older: hosts of the replica set, as rs0/host:port,host:port", TEXT),
    P("mongodb.user", APPLIED, "the user to connect as", TEXT),
    P("mongodb.password", APPLIED, "its password"),
    P("tidemark.mongodb.oidc.token", APPLIED, "a reference to a token for logging in (MONGODB-OIDC)"),
    P("mongodb.authsource", APPLIED, "the database that defines the user", TEXT, "admin"),
    P("mongodb.ssl.enabled", APPLIED, "use TLS", FLAG, "false"),
    P("mongodb.ssl.invalid.hostname.allowed", APPLIED, "accept any host name in certificates", FLAG, "false"),
    P("mongodb.connect.timeout.ms", APPLIED, "wait for a connection", _MS, "10000"),
    P("mongodb.socket.timeout.ms", APPLIED, "wait for an answer; 0: for ever", _MS, "0"),
    P("mongodb.server.selection.timeout.ms", APPLIED, "wait for a primary", _MS, "30000"),
    P(
        "mongodb.heartbeat.frequency.ms",
        APPLIED,
        "how often the replica set's members are checked",
        whole(500),
        "10000",
    ),
)
STREAM = (
    P(
        "capture.mode",
        APPLIED,
        "what a change event carries",
        choice(CaptureMode),
        "change_streams_update_full",
    ),
    P("capture.scope", APPLIED, "what the change stream is opened on", choice(CaptureScope), "deployment"),
    P("capture.target", APPLIED, "the database or database.collection of capture.scope", TEXT),
    P("cursor.max.await.time.ms", APPLIED, "how long the server waits for changes; 0: 100 ms", _MS, "0"),
)
CAPTURE = (
    P("database.include.list", APPLIED, "databases to capture", EXPRESSIONS),
    P("database.exclude.list", APPLIED, "databases not to capture", EXPRESSIONS),
    P("collection.include.list", APPLIED, "collections to capture, as database.collection", EXPRESSIONS),
    P("collection.exclude.list", APPLIED, "collections not to capture", EXPRESSIONS),
    P("field.exclude.list", APPLIED, "fields to leave out of documents", _EXCLUDED),
    P("field.renames", APPLIED, "fields to rename", _RENAMED),
)
SIGNALS = (P("signal.data.collection", APPLIED, "the signal collection", _COLLECTION),)

_SHARED = frozenset(
    (
        *("skipped.operations", "topic.prefix", "topic.delimiter", "topic.transaction"),
        *("topic.heartbeat.prefix", "key.converter.schemas.enable", "value.converter.schemas.enable"),
        *("tombstones.on.delete", "provide.transaction.metadata", "schema.name.adjustment.mode"),
        *("heartbeat.interval.ms", "snapshot.mode", "snapshot.delay.ms"),
        *("snapshot.custom.class", "snapshot.mode.custom.name"),
        *("snapshot.include.collection.list", "snapshot.max.threads", "snapshot.fetch.size"),
        *("incremental.snapshot.chunk.size", "incremental.snapshot.watermarking.strategy", "read.only"),
    )
)
_OTHERS = (
    P(
        _FILTERS,
        APPLIED,
        "collections of the initial snapshot with a filter of their own",
        NAMES,
    ),
    P(
        f"{_FILTERS}.<collection>",
        APPLIED,
        "the filter of such a collection",
        FILTER,
    ),
    P("cursor.pipeline", APPLIED, "filters of the change stream, as $match stages", MATCHES),
    P("capture.mode.full.update.type", REFUSED, "an update's document is looked up", harmless("lookup")),
    P(
        "cursor.oversize.handling.mode",
        APPLIED,
        "what to do with an event that is over 16 MB even without its pre-image and looked-up document: fail"
        " stops the job, skip leaves it out and reports it, split receives it in parts (MongoDB 6.0.9)",
        choice(Oversize),
        "fail",
    ),
    P("source.struct.version", REFUSED, "the source block is that of version 2", harmless("v2")),
    P("mongodb.ssl.keystore", REFUSED, "use tlsCertificateKeyFile in mongodb.connection.string", harmless()),
    P("mongodb.ssl.truststore", REFUSED, "use tlsCAFile in mongodb.connection.string", harmless()),
    P(
        "topic.naming.strategy",
        REFUSED,
        "topics are named prefix, database and collection; see topic.delimiter",
        harmless("io.debezium.schema.DefaultTopicNamingStrategy"),
    ),
    P(
        "sourceinfo.struct.maker",
        REFUSED,
        "the source block is MongoDB's own",
        harmless("io.debezium.connector.mongodb.MongoDbSourceInfoStructMaker"),
    ),
    P(
        "transaction.metadata.factory",
        REFUSED,
        "transaction blocks are MongoDB's own",
        harmless("io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory"),
    ),
)
_WHY = {
    "members are found through the connection string": (
        *("mongodb.members.auto.discover", "mongodb.poll.interval.ms", "mongodb.connection.mode"),
    ),
    "see retriable.restart.connector.wait.ms": (
        *("connect.backoff.initial.delay.ms", "connect.backoff.max.delay.ms", "connect.max.attempts"),
    ),
    "it belongs to a property that is refused": (
        *("mongodb.ssl.keystore.password", "mongodb.ssl.keystore.type"),
        *("mongodb.ssl.truststore.password", "mongodb.ssl.truststore.type"),
    ),
    "only what the server can't send at all is skipped": ("cursor.oversize.skip.threshold",),
    "filters may stand in any order": ("cursor.pipeline.order",),
    "a document never changes its key, so no event has a header": (
        *("header.converter", "header.converter.schemas.enable", "header.converter.decimal.format"),
        *("header.converter.replace.null.with.default",),
    ),
    "documents have no columns": ("field.name.adjustment.mode", "sanitize.field.names"),
    "MongoDB has no statements": ("heartbeat.action.query",),
}
_OF_OTHER_MEMBERS = frozenset(
    ("readpreference", "readpreferencetags", "maxstalenessseconds", "readconcernlevel")
)
"""Options of a connection string that would read from another member, or read another state."""
_OLD = {
    "mongodb.name": "topic.prefix",
    "field.blacklist": "field.exclude.list",
    "collection.whitelist": "collection.include.list",
    "collection.blacklist": "collection.exclude.list",
    "database.whitelist": "database.include.list",
    "database.blacklist": "database.exclude.list",
    "initial.sync.max.threads": "snapshot.max.threads",
}


def _rows() -> tuple[Property, ...]:
    own = (
        *CONNECTION,
        *STREAM,
        *CAPTURE,
        *SIGNALS,
        *_OTHERS,
        *(P(name, IGNORED, why) for why, names in _WHY.items() for name in names),
        *(P(old, RENAMED, new) for old, new in _OLD.items()),
    )
    return every_source.rows_with(own, _SHARED)


ROWS = _rows()


def mongo_settings(v: Values) -> MongoSettings:
    """The connection and the stream."""
    return MongoSettings(
        connection_string=of_the_primary(v.get("mongodb.connection.string", str))[0],
        hosts=v.get("mongodb.hosts", str),
        user=v.get("mongodb.user", str),
        password=v.get("mongodb.password", str),
        oidc_token=v.get("tidemark.mongodb.oidc.token", str),
        auth_source=v.get("mongodb.authsource", str),
        tls=v.get("mongodb.ssl.enabled", bool),
        any_hostname=v.get("mongodb.ssl.invalid.hostname.allowed", bool),
        connect_timeout_ms=v.get("mongodb.connect.timeout.ms", int),
        socket_timeout_ms=v.get("mongodb.socket.timeout.ms", int),
        selection_timeout_ms=v.get("mongodb.server.selection.timeout.ms", int),
        heartbeat_ms=v.get("mongodb.heartbeat.frequency.ms", int),
        capture_mode=v.get("capture.mode", CaptureMode),
        scope=v.get("capture.scope", CaptureScope),
        target=v.get("capture.target", str),
        await_ms=v.get("cursor.max.await.time.ms", int) or 100,
        matches=v.get("cursor.pipeline", tuple),
        oversize=v.get("cursor.oversize.handling.mode", Oversize),
        fields=(*v.get("field.exclude.list", tuple), *v.get("field.renames", tuple)),
    )


def of_the_primary(uri: str) -> tuple[str, list[str]]:
    """A connection string without options that would read from another member, and their names."""
    before, mark, said = uri.partition("?")
    parts = [part for part in re.split("[&;]", said) if part]
    unused = [part for part in parts if part.partition("=")[0].lower() in _OF_OTHER_MEMBERS]
    if not unused:
        return uri, []
    kept = [part for part in parts if part not in unused]
    return before + (mark if kept else "") + "&".join(kept), [part.partition("=")[0] for part in unused]


def _warnings(v: Values) -> Iterator[str]:
    """Warn about filters without effect, and options of the connection string for secondary members."""
    yield from overrides.warnings(v, _FILTERS)
    _uri, unused = of_the_primary(v.get("mongodb.connection.string", str))
    if unused:
        yield (
            f"'mongodb.connection.string' says {', '.join(unused)}, which is not used: documents and changes"
            " are read from the primary, since a member that lags would leave documents out of a snapshot"
        )


def problems(values: Values) -> Iterator[str]:
    """Yield the faults that involve more than one property."""
    yield from _connection(values)
    yield from every_source.contradictions(values, "database", "collection")
    scope, target = values.get("capture.scope", CaptureScope), values.get("capture.target", str)
    if scope is not CaptureScope.DEPLOYMENT and not target:
        yield f"missing 'capture.target': the {scope.value} that 'capture.scope' speaks of"
    if scope is CaptureScope.COLLECTION and target and "." not in target:
        yield f"'capture.target' is {target!r}; it must be database.collection"
    yield from overrides.problems(values, _FILTERS)
    if values.get("incremental.snapshot.watermarking.strategy", Watermarking) is Watermarking.INSERT_DELETE:
        yield (
            "'incremental.snapshot.watermarking.strategy' is 'insert_delete', which MongoDB's"
            " connector does not know; use insert_insert"
        )


def _connection(values: Values) -> Iterator[str]:
    string, hosts = "mongodb.connection.string", "mongodb.hosts"
    if not values.sure(string, hosts):
        return
    given = [name for name in (string, hosts) if values.get(name, str)]
    if not given:
        yield f"missing {string!r}: the deployment to connect to"
    if values.get("tidemark.mongodb.oidc.token", str) and values.get("mongodb.user", str):
        yield "'tidemark.mongodb.oidc.token' and 'mongodb.user' exclude each other"
    text = values.get(string, str)
    if text and not text.startswith(("mongodb://", "mongodb+srv://")):
        yield f"{string!r} must begin with mongodb:// or mongodb+srv://"


def _read(v: Values) -> SourceSettings:
    signal = v.typed["signal.data.collection"]
    return SourceSettings(
        every_source.event_settings(v, "", str(signal) if signal else ""),
        mongo_settings(v),
        every_source.capture_settings(v, "database", "collection"),
        replace(every_source.snapshot_settings(v), filters=overrides.listed(v, _FILTERS, "<collection>")),
    )


CONNECTOR = Connector(
    job="adapters.mongodb.job",
    catalogue=Catalogue(ROWS),
    read=_read,
    problems=problems,
    warnings=_warnings,
)
