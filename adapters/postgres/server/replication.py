"""Replication connections: opening them, running commands, and interpreting refusals."""

from __future__ import annotations

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from adapters.postgres.server.answering import answer
from adapters.postgres.server.failures import result_message
from adapters.postgres.server.known_messages import lacks_publication, loss_in, refused_line
from adapters.postgres.server.text_settings import startup_options
from engine.config.text.refusals import note_refusal
from engine.errors import LoginRefused, PositionLost, SourceError

ANSWERED_WITHIN_S = 60.0
"""How long a replication command may take; creating a slot is not bounded by it."""


def refusal(said: str) -> LoginRefused | None:
    """The error for a connection that is refused until a setting changes, with which; None for others."""
    found = refused_line(said)
    if found is None:
        return None
    note_refusal()
    line, hint = found
    return LoginRefused(line, where="postgresql", hint=hint)


def connect_replication(conninfo: str) -> psycopg.Connection:
    """Open a connection for replication commands. Raises SourceError, as LoginRefused if it is refused."""
    target = make_conninfo(conninfo, replication="database", options=startup_options())
    try:
        # libpq's own connect blocks every other thread until it is done.
        return psycopg.connect(target, autocommit=True)
    except psycopg.OperationalError as error:
        said = str(error).strip()
        raise refusal(said) or log_error(said) from error


def command(connection: pq.abc.PGconn, text: str, *, rows: bool = True) -> list[tuple[str | None, ...]]:
    """Run a command and return its rows, as text, if it has `rows`. Raises SourceError."""
    result = answer(connection, text, ANSWERED_WITHIN_S)
    if result.status != (pq.ExecStatus.TUPLES_OK if rows else pq.ExecStatus.COMMAND_OK):
        raise result_error(result)
    return [
        tuple(
            None if (value := result.get_value(row, column)) is None else value.decode(errors="replace")
            for column in range(result.nfields)
        )
        for row in range(result.ntuples)
    ]


class PublicationMissing(SourceError):
    """The log is where the publication did not exist; up to version 17 it can't be decoded there."""


def result_error(result: pq.abc.PGresult) -> SourceError:
    """The error for a failed replication command. Its detail is interpreted, but not shown."""
    return log_error(result_message(result), result.error_message.decode(errors="replace"))


def log_error(said: str, detailed: str = "") -> SourceError:
    """The error for a message of a replication connection; PositionLost if no retry brings the log back.

    `detailed` is the message including what must not be shown.
    """
    whole = f"{said}\n{detailed}"
    if lacks_publication(whole):
        return PublicationMissing(f"the change log failed: {said}", where="replication slot")
    loss = loss_in(whole)
    if loss is not None:
        return PositionLost(
            f"the change log is gone: {said}",
            where="replication slot",
            hint="drop the slot, start with an empty checkpoint and an empty sink directory,"
            " and take snapshots again",
            loss=loss,
        )
    return SourceError(f"the change log failed: {said}", where="replication connection")
