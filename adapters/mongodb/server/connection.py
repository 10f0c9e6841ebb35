"""One MongoDB deployment: connections to it, and its identity.

Owns the mapping of settings to client options, and the checks before the change stream is read. The
deployment must be a replica set: a single server has no change log, and the shards behind a mongos are not
supported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import ConfigurationError, InvalidURI, PyMongoError
from pymongo.uri_parser import parse_uri

from adapters.mongodb.server.credentials import Token
from adapters.mongodb.server.primary_watch import PrimaryWatch
from adapters.mongodb.settings import CaptureMode, Oversize
from engine.config.text.hidden import hidden_in
from engine.config.text.references import resolve_again
from engine.config.text.refusals import refusal_count
from engine.errors import ConfigError, OtherServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.mongodb.settings import MongoSettings

RAW: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument)
"""Leaves documents as raw bytes."""

_LEAST_WIRE_VERSION = 13  # 5.0, which reads snapshots outside transactions
_IMAGES_WIRE_VERSION = 17  # 6.0
_SPLITTING = {6: (6, 0, 9)}
"""For a release that learned to split large events only later, the first version that does."""


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

    def connect(self, *listeners: PrimaryWatch) -> MongoClient[dict[str, Any]]:
        """A new client with the current credentials; the caller closes it. It connects on first use."""
        options: dict[str, Any] = {name: resolve_again(value) for name, value in self.options}
        options |= {"event_listeners": listeners} if listeners else {}
        if self.token:
            options |= {"authMechanism": "MONGODB-OIDC"}
            options |= {"authMechanismProperties": {"OIDC_CALLBACK": Token(self.token)}}
        try:
            return MongoClient(str(resolve_again(self.uri)), **options)
        except (ConfigurationError, InvalidURI, ValueError, TypeError) as error:
            reason = hidden_in(str(error), self.uri)
            raise ConfigError(f"'mongodb.connection.string' can't be used: {reason}") from error


def members(connection: Connection) -> list[tuple[str, int]]:
    """The members that the connection string names, by host and port; none if it can't be read."""
    try:
        found = parse_uri(str(resolve_again(connection.uri)))["nodelist"]
    except (PyMongoError, ValueError):
        return []  # connecting says what is wrong
    return [(host, int(port)) for host, port in found if port]


def shared_client(connection: Connection) -> MongoClient[dict[str, Any]]:
    """This process's client, for tasks that reuse the same worker. A refused login makes a new one."""
    return _client(connection, refusal_count())


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


class Server:
    """The deployment, through one client that the job's threads share."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._clients: list[MongoClient[dict[str, Any]]] = []
        self._refusals = 0
        self.primary = PrimaryWatch()

    @property
    def client(self) -> MongoClient[dict[str, Any]]:
        """The client, which connects on first use. A refused login makes a new one."""
        if not self._clients or self._refusals != refusal_count():
            self._refusals = refusal_count()
            self._clients.append(self.connection.connect(self.primary))
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
    """Raise OtherServer if the saved state belongs to another replica set."""
    for name in saved.keys() & found.keys():
        if saved[name] != found[name]:
            raise OtherServer(
                f"the saved state is of another replica set: {name} {saved[name]!r}, not {found[name]!r}",
                hint="set tidemark.checkpoint to an empty directory to start over",
            )
