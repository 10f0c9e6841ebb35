"""One MongoDB deployment: connections to it, its identity, and its errors as ours.

Owns the mapping of settings to client options, and the checks before the change stream is read. The
deployment must be a replica set: a single server has no change log, and the shards behind a mongos are not
supported.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import ConfigurationError, InvalidURI, OperationFailure, PyMongoError

from adapters.disclosure import mongodb_message
from adapters.mongodb.server.credentials import Token
from engine.config.hidden import hidden_in
from engine.config.references import fresh, refusals, refuse
from engine.config.sources import CaptureMode, Oversize
from engine.errors import (
    ConfigError,
    LoginRefused,
    PositionLost,
    SchemaChanged,
    SnapshotGone,
    SourceError,
    StateError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.config.sources import MongoSettings
    from engine.model import CollectionId

RAW: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument)
"""Leaves documents as raw bytes."""

_ANEW = "start with an empty checkpoint and an empty sink directory, take snapshots again"
_LEAST_WIRE_VERSION = 13  # 5.0, which reads snapshots outside transactions
_IMAGES_WIRE_VERSION = 17  # 6.0
_SPLITTING = {6: (6, 0, 9)}
"""For a release that learned to split large events only later, the first version that does."""
HISTORY_LOST, _ANOTHER_LOG = frozenset({222, 286}), 280
"""The oplog no longer reaches back; or it does, but lacks the event to resume from."""
_UNAUTHORIZED, _NOT_ADMITTED = 13, 18
_PASSING = frozenset(
    {
        *(1, 8, 18),  # InternalError, UnknownError, AuthenticationFailed: about the connection
        *(6, 7, 89, 91, 9001),  # unreachable or unknown hosts, timeouts, shutdown, sockets
        *(24, 46, 112),  # LockTimeout, LockBusy, WriteConflict
        *(43, 136, 237),  # CursorNotFound, CappedPositionLost, CursorKilled
        *(50, 202, 262),  # MaxTimeMSExpired, NetworkInterfaceExceededTimeLimit, ExceededTimeLimit
        *(64, 133, 134, 365),  # unmet concerns, no member or majority to read from, "later"
        *(189, 10107, 13435, 13436),  # PrimarySteppedDown and other errors without a primary
        *(234, 11600, 11601, 11602),  # RetryChangeStream and interruptions
    }
)
"""Transient errors: members that leave or change roles, locks, timeouts, conflicts."""
_COLLECTION_MOVED = frozenset({26, 73, 175})
"""Namespace gone or invalid; plan killed by DDL."""
_SNAPSHOT_GONE = frozenset({239, 246})
"""The snapshot is older than what the server keeps, or than the collection's current definition."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach a deployment. A value for executors; nothing of it is ever shown."""

    uri: str = field(repr=False)
    options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)
    token: str = field(default="", repr=False)

    @property
    def login(self) -> tuple[str, ...]:
        """What identifies the deployment and the user: references to credentials, not their values."""
        user = dict(self.options).get("username", "")
        return (
            str(getattr(self.uri, "template", self.uri)),
            str(getattr(user, "template", user)),
            self.token and "token",
        )

    def connect(self) -> MongoClient[dict[str, Any]]:
        """A new client with the current credentials; the caller closes it. It connects on first use."""
        options: dict[str, Any] = {name: fresh(value) for name, value in self.options}
        if self.token:
            options |= {"authMechanism": "MONGODB-OIDC"}
            options |= {"authMechanismProperties": {"OIDC_CALLBACK": Token(self.token)}}
        try:
            return MongoClient(str(fresh(self.uri)), **options)
        except (ConfigurationError, InvalidURI, ValueError, TypeError) as error:
            reason = hidden_in(str(error), self.uri)
            raise ConfigError(f"'mongodb.connection.string' can't be used: {reason}") from error


def shared_client(connection: Connection) -> MongoClient[dict[str, Any]]:
    """This process's client, for tasks that reuse the same worker. A refused login makes a new one."""
    return _client(connection, refusals())


@lru_cache(maxsize=4)
def _client(connection: Connection, _refusals: int) -> MongoClient[dict[str, Any]]:
    return connection.connect()


def connection_of(settings: MongoSettings) -> Connection:
    """The connection of the settings. Options in the connection string take precedence."""
    options: dict[str, Any] = {
        "appname": "tidemark",
        "connectTimeoutMS": settings.connect_timeout_ms,
        "serverSelectionTimeoutMS": settings.selection_timeout_ms,
        "heartbeatFrequencyMS": settings.heartbeat_ms,
        **({"socketTimeoutMS": settings.socket_timeout_ms} if settings.socket_timeout_ms else {}),
    }
    if settings.user:
        options |= {"username": settings.user, "authSource": settings.auth_source}
        options["password"] = settings.password
    if settings.tls:
        options |= {"tls": True, "tlsAllowInvalidHostnames": settings.any_hostname}
    uri = settings.connection_string or _uri_of_hosts(settings.hosts)
    said = uri.partition("?")[2].lower()
    given = {part.partition("=")[0] for part in said.split("&")}
    kept = {name: value for name, value in options.items() if name.lower() not in given}
    return Connection(uri, tuple(kept.items()), settings.oidc_token)


def _uri_of_hosts(hosts: str) -> str:
    """`rs0/host:port,host:port`, or just the hosts, as a connection string."""
    name, slash, members = hosts.rpartition("/")
    return f"mongodb://{members}/" + (f"?replicaSet={name}" if slash else "")


class Refused(SourceError):
    """The server refused permanently. `said` is its message, `code` and `name` are the error's."""

    said: str = ""
    code: int | None = None
    name: str = ""


class Server:
    """The deployment, through one client that the job's threads share."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._clients: list[MongoClient[dict[str, Any]]] = []
        self._refusals = 0

    @property
    def client(self) -> MongoClient[dict[str, Any]]:
        """The client, which connects on first use. A refused login makes a new one."""
        if not self._clients or self._refusals != refusals():
            self._refusals = refusals()
            self._clients.append(self.connection.connect())
            for before in self._clients[:-2]:  # other threads may still use the previous client
                before.close()
            del self._clients[:-2]
        return self._clients[-1]

    def close(self) -> None:
        """Close the client. Further use makes another."""
        clients, self._clients = self._clients, []
        for client in clients:
            client.close()


def replica_set(hello: Mapping[str, Any]) -> str:
    """The replica set's name. Raises ConfigError if there is none, or if the server is too old."""
    if hello.get("msg") == "isdbgrid":
        raise ConfigError(
            "'mongodb.connection.string' leads to a mongos, and sharded clusters are not supported yet",
            hint="a shard read by itself shows documents that have moved away from it: that is no way around",
        )
    if "setName" not in hello:
        raise ConfigError(
            "'mongodb.connection.string' leads to a server that is in no replica set and has no log",
            hint="start mongod with --replSet and run rs.initiate()",
        )
    if hello.get("maxWireVersion", 0) < _LEAST_WIRE_VERSION:
        raise ConfigError("the server is older than MongoDB 5.0, which can't read snapshots")
    return str(hello["setName"])


def check_capture(hello: Mapping[str, Any], mode: CaptureMode) -> None:
    """Raise ConfigError if pre-images are required and the server has none."""
    if mode.pre_images and hello.get("maxWireVersion", 0) < _IMAGES_WIRE_VERSION:
        raise ConfigError(
            f"'capture.mode' is {mode.value!r}: the server is older than MongoDB 6.0, which has pre-images",
            hint=f"use {CaptureMode.FULL.value} or {CaptureMode.PLAIN.value}",
        )


def check_splitting(version: Sequence[int], handling: Oversize) -> None:
    """Raise ConfigError if splitting is required and the server can't split large events."""
    least = _SPLITTING.get(version[0], (7, 0, 0))
    if handling is Oversize.SPLIT and tuple(version[:3]) < least:
        raise ConfigError(
            "'cursor.oversize.handling.mode' is 'split': the server is older than MongoDB 6.0.9, which splits"
            f" large events: {'.'.join(map(str, version[:3]))}",
            hint=f"use {Oversize.SKIP.value} or {Oversize.FAIL.value}",
        )


def check_identity(saved: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise StateError if the saved state belongs to another replica set."""
    for name in saved.keys() & found.keys():
        if saved[name] != found[name]:
            raise StateError(
                f"the saved state is of another replica set: {name} {saved[name]!r}, not {found[name]!r}",
                hint="set tidemark.checkpoint to an empty directory to begin anew",
            )


@contextmanager
def source_errors(doing: str, place: str = "mongodb") -> Iterator[None]:
    """Raise the driver's exceptions as `source_error` maps them."""
    try:
        yield
    except PyMongoError as error:
        raise source_error(error, doing, place) from error


@contextmanager
def collection_errors(doing: str, collection: CollectionId) -> Iterator[None]:
    """Like `source_errors`, but SchemaChanged if the collection was dropped or changed meanwhile."""
    try:
        yield
    except OperationFailure as error:
        if error.code in _SNAPSHOT_GONE:
            raise SnapshotGone(
                f"{doing} failed: {_said(error)}",
                place=collection,
                hint="raise minSnapshotHistoryWindowInSeconds on the server, which says how long it keeps"
                " a state (300 unless told otherwise)",
            ) from error
        if error.code in _COLLECTION_MOVED:
            raise SchemaChanged(f"{doing} failed: {_said(error)}", place=collection) from error
        raise source_error(error, doing, collection) from error
    except PyMongoError as error:
        raise source_error(error, doing, collection) from error


def source_error(error: PyMongoError, doing: str, place: CollectionId | str) -> SourceError:
    """A driver's exception as ours, in one line.

    PositionLost if the log can't be continued, Refused if a retry is useless.
    """
    if isinstance(error, OperationFailure):
        if error.code == _NOT_ADMITTED:
            refuse()
            return LoginRefused(f"{doing} failed: {_said(error)}", place=place)
        if error.code in HISTORY_LOST:
            return PositionLost(
                f"the oplog does not reach back to where the stream stood: {_said(error)}",
                place="change stream",
                hint=f"{_ANEW}, and enlarge the oplog (replSetResizeOplog)",
            )
        if error.code == _ANOTHER_LOG:
            return another_log(_said(error))
        if error.code not in _PASSING:
            return _refused(error, doing, place)
    return SourceError(f"{doing} failed: {_said(error)}", place=place)


def another_log(said: str) -> PositionLost:
    """The error for a server that lacks what was streamed from it."""
    return PositionLost(
        f"the oplog does not hold the event that was streamed last, so consumers have changes that this"
        f" server never had: it was put back to an older copy of its files, or is another one ({said})",
        place="change stream",
        hint=f"{_ANEW}; consumers keep what they have of documents that are not there any more",
    )


def _refused(error: OperationFailure, doing: str, place: CollectionId | str) -> Refused:
    hint = "grant our role the privilege" if error.code == _UNAUTHORIZED else ""
    refused = Refused(f"{doing} failed: {_said(error)}", place=place, hint=hint)
    refused.said, refused.code = _said(error), error.code
    refused.name = str((error.details or {}).get("codeName", ""))
    return refused


def _said(error: PyMongoError) -> str:
    if isinstance(error, OperationFailure) and error.details:
        told = error.details
        message = str(told.get("errmsg", error))
        return mongodb_message(error.code, str(told.get("codeName", "")), message)[:500]
    return str(error).splitlines()[0][:500]
