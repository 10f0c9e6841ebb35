"""How the log is subscribed to: which slot and publication, from where, and within which bounds.

Starts a replication session, which `reader` reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import pq

from adapters.postgres.server.answering import answer
from adapters.postgres.server.replication import (
    ANSWERED_WITHIN_S,
    command,
    connect_replication,
    result_error,
)
from adapters.postgres.server.sql import quote_ident, quote_literal
from adapters.postgres.server.visibility import format_lsn, parse_lsn
from engine.errors import SourceError

if TYPE_CHECKING:
    import psycopg

    from adapters.postgres.log.assembler import Commit
    from adapters.postgres.server.connection import Identity
    from engine.model import Position


@dataclass(frozen=True, slots=True)
class LogBounds:
    """How much of the log is held at once: rows and bytes of a span, and of its parts.

    A server that sends nothing for `silence_s` seconds is considered lost; 0: no bound.
    """

    span_rows: int = 200_000
    span_bytes: int = 64 << 20
    part_rows: int = 50_000
    part_bytes: int = 16 << 20
    status_interval_s: float = 10.0
    silence_s: float = 0.0

    def shared(self, share: float) -> tuple[int, int]:
        """The rows and bytes of a span that may use a share of the bounds."""
        return max(1, int(self.span_rows * share)), max(1, int(self.span_bytes * share))


BOUNDS = LogBounds()
_PROTOCOLS = ((160_000, 4), (150_000, 3), (140_000, 2))
"""The newest version of pgoutput's protocol, by the server's version from which on it is known."""
_WITHOUT_STREAMING = 1


@dataclass(frozen=True, slots=True)
class Subscription:
    """What to read: a slot, a publication, and further options of the decoding plug-in.

    `streaming`: a server that can is to send large transactions while they are open.
    """

    slot: str
    publication: str
    options: tuple[tuple[str, str], ...] = ()
    streaming: bool = True

    def command(self, lsn: int, version: int) -> str:
        """The replication command that starts at an LSN, for a server of this version (180000 is 18.0).

        Versions 3 and 4 of the protocol add prepared transactions and blocks for several appliers. Neither is
        sent unless it is asked for: a slot without two-phase commit sends a prepared transaction as one, at
        COMMIT PREPARED, and blocks come in the order of the log.
        """
        protocol = self._protocol(version)
        options = (
            ("proto_version", f"{protocol}"),
            *((("streaming", "on"),) if protocol > _WITHOUT_STREAMING else ()),
            ("publication_names", quote_ident(self.publication)),
            ("messages", "true"),
            *self.options,
        )
        listed = ", ".join(f"{quote_ident(name)} {quote_literal(value)}" for name, value in options)
        return f"START_REPLICATION SLOT {quote_ident(self.slot)} LOGICAL {format_lsn(lsn)} ({listed})"

    def _protocol(self, version: int) -> int:
        if not self.streaming:
            return _WITHOUT_STREAMING
        return next((protocol for since, protocol in _PROTOCOLS if version >= since), _WITHOUT_STREAMING)


@dataclass(frozen=True, slots=True)
class SentBefore:
    """What a session brings again that begins at `slot_lsn`, before the saved position.

    `commit` is the last commit that was sent, if it is behind `slot_lsn`: it must come again.
    """

    commit: Commit | None
    slot_lsn: int


@dataclass(frozen=True, slots=True)
class Start:
    """Where a session begins: the position, and where the last commit before it ends, if known.

    `server` is the server with which the position was compared; None: with no server.
    """

    position: Position
    last_commit_end: int | None = None
    sent: SentBefore | None = None
    server: Identity | None = None


def _check_server(connection: pq.abc.PGconn, server: Identity) -> None:
    """Raise SourceError if another server has replaced this one since the position was compared."""
    ((_system, timeline, lsn, *_),) = command(connection, "IDENTIFY_SYSTEM")
    if timeline != str(server.timeline):
        raise SourceError(
            f"the server's timeline was {server.timeline} a moment ago and is {timeline}: it was promoted"
            " meanwhile",
            where="replication connection",
        )
    if parse_lsn(lsn or "0/0") < (server.lsn or 0):
        raise SourceError(
            f"the server's log reached {format_lsn(server.lsn or 0)} a moment ago and ends at {lsn}: it was"
            " restored meanwhile",
            where="replication connection",
        )


def replicate(
    conninfo: str, subscription: Subscription, lsn: int, server: Identity | None
) -> psycopg.Connection:
    """A session that sends the log from an LSN on, by this server. Raises SourceError."""
    session = connect_replication(conninfo)
    connection = session.pgconn
    try:
        if server is not None:
            _check_server(connection, server)
        started = subscription.command(lsn, connection.server_version)
        result = answer(connection, started, ANSWERED_WITHIN_S)
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise result_error(result)
    except SourceError:
        session.close()
        raise
    connection.nonblocking = 1
    return session
