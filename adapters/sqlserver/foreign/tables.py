"""The tables of a SQL Server database that somebody else keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from adapters.lake.table_name import CollectionTables, TableNaming
from adapters.sqlserver.foreign.questions import ForeignQuestions
from adapters.sqlserver.foreign.rows import ForeignRows
from adapters.sqlserver.settings import Encryption, SqlServerSettings
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.lake.table_name import TableName
    from adapters.sqlserver.server.connection import Server
    from adapters.sqlserver.snapshot.table_reads import RowReads
    from engine.config.sinks.sqlserver_target import SqlServerTarget

_LONGEST: Final = 384
"""Bytes of a name's 128 characters in UTF-8."""
_FIRST_SCHEMA: Final = "dbo"


def settings_of(target: SqlServerTarget, source: SqlServerSettings) -> SqlServerSettings:
    """How a target is reached: by the ODBC driver that the source is reached by."""
    given = target.options
    reached = SqlServerSettings(
        target.host,
        target.user,
        (target.database,),
        target.password,
        port=target.port,
        instance=target.instance,
        odbc_driver=source.odbc_driver,
        query_timeout_ms=source.query_timeout_ms,
        multi_subnet_failover=given.get("multiSubnetFailover") == "true",
        trust_server_certificate=given.get("trustServerCertificate") == "true",
        certificate_host=given.get("hostNameInCertificate", ""),
        server_certificate=given.get("serverCertificate", ""),
    )
    return replace(
        reached,
        encrypt=Encryption(given.get("encrypt", reached.encrypt)),
        application=given.get("applicationName", reached.application),
        login_timeout_s=int(given.get("loginTimeout", reached.login_timeout_s)),
        packet_size=int(given.get("packetSize", reached.packet_size)),
    )


class SqlServerTargetTables:
    """Implements `ForeignTables`. `server` is the target's; `reads` says how a collection's rows are read.

    `markers` is the topic of a collection of markers, with that collection.
    """

    def __init__(
        self,
        target: SqlServerTarget,
        server: Server,
        reads: Callable[[CollectionId], RowReads],
        markers: tuple[str, CollectionId] | None = None,
    ) -> None:
        self._database, self._server, self._reads, self._markers = target.database, server, reads, markers
        self._names = CollectionTables(
            TableNaming(target.table_format, "its collection.name.format", _LONGEST), ""
        )

    def check(self, topic: str, collection: CollectionId) -> None:
        """Raise SinkError if the table can't have a name."""
        self._names.of(topic, collection)

    def table(self, topic: str, collection: CollectionId, owner: str) -> ForeignRows:  # noqa: ARG002  APP names sessions
        """The table of a topic with this collection's events."""
        markers = None if self._markers is None else self._there(self._names.of(*self._markers))
        name = self._there(self._names.of(topic, collection))
        return ForeignRows(self._connect, name, self._reads(collection), markers)

    def _connect(self) -> ForeignQuestions:
        return ForeignQuestions(self._server.opened(self._database), self._database)

    def _there(self, name: TableName) -> CollectionId:
        return CollectionId((self._database, name.schema or _FIRST_SCHEMA, name.name))
