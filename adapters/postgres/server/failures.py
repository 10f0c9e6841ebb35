"""The errors of PostgreSQL and its driver: which of our own they become, and what of them may be repeated.

Only the primary message, because detail and context quote rows. This module tells the server's errors from
those that the driver raises about values; `disclosure` decides which of the server's messages contain values.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq

from adapters.disclosure import postgres_message
from engine.errors import SchemaChanged, SourceError, TableBusy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.model import CollectionId

_LOCK_NOT_AVAILABLE = "55P03"
_NOT_THE_TABLES_FAULT = frozenset({"08", "53", "57", "58", "XX"})
"""SQLSTATE classes: connection, resources, operator intervention, system, internal."""
_OF_CONNECTIONS = (psycopg.OperationalError, psycopg.InterfaceError)
"""libpq's own errors, which have no SQLSTATE."""


def said(error: psycopg.Error) -> str:
    """An error's message, or the kind of error if the message may contain values."""
    if message := error.diag.message_primary:
        return postgres_message(error.sqlstate, message)
    if isinstance(error, _OF_CONNECTIONS) and str(error):
        return str(error).strip()
    return type(error).__name__


def said_of(result: pq.abc.PGresult) -> str:
    """What may be repeated of a failed command's result."""
    primary = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    return postgres_message(state, primary) or result.error_message.decode(errors="replace").strip()


@contextmanager
def source_errors(what: str) -> Iterator[None]:
    """Turn a driver's exception into SourceError."""
    try:
        yield
    except psycopg.Error as error:
        raise SourceError(f"{what} failed: {said(error)}", place="postgresql") from error


@contextmanager
def table_errors(what: str, collection: CollectionId) -> Iterator[None]:
    """Turn a driver's exception into TableBusy or SchemaChanged for one table, or else into SourceError."""
    try:
        yield
    except psycopg.Error as error:
        message = f"{what} failed: {said(error)}"
        state = error.sqlstate or ""
        if state == _LOCK_NOT_AVAILABLE:
            raise TableBusy(message, place=collection, hint="another session holds it locked") from error
        if not state or state[:2] in _NOT_THE_TABLES_FAULT:
            raise SourceError(message, place="postgresql") from error
        raise SchemaChanged(message, place=collection) from error
