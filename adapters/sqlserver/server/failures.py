"""The drivers' exceptions as ours: one line each, without statements or row values."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from adapters.disclosure import sqlserver_message
from adapters.spark.failures import SPARK_ERRORS
from engine.config.references import refuse
from engine.errors import ConfigError, LoginRefused, PositionLost, SchemaChanged, SourceError, TableBusy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.model import CollectionId

_NUMBER = re.compile(r"\((\d+)\) \(SQL")
_PREFIXES = re.compile(r"^(\[[^\]]*\]\s*)+")
_CALLED = re.compile(r" \(\d+\) \(SQL\w+\)")
_RANGE_LOST = 313
"""CDC's functions report this for a range that their change table does not have."""
_LOGIN_REFUSED = frozenset({18456, 18452, 18470, 18486, 18487, 18488})
"""Wrong password or token; disabled, locked or expired login."""
_LOGIN_FAILED = _LOGIN_REFUSED | {4060, 4064}
_NO_SNAPSHOTS = 3952
_UNREACHED = ("Login timeout expired", "[08001]")
"""Parts of the drivers' messages where there is no connection, or none in time."""
_TABLE_MOVED = frozenset({207, 208, 3961, 4902, 8180})
"""No such column or object; changed since the snapshot; no such table; could not be prepared."""
_LOCK_WAITED_FOR = 1222
_BUSY = frozenset({601, _LOCK_WAITED_FOR})
"""Rows moved under a reader that takes no locks; lock timeout."""
_SAID_IN_ENGLISH = "Lock request time out period exceeded"
"""The message of a lock timeout, where Spark passes on only the text."""
_CAUSES = 20


@contextmanager
def source_errors(doing: str, place: str = "sql server") -> Iterator[None]:
    """Raise the drivers' exceptions as SourceError.

    PositionLost where a change table does not reach back far enough; TableBusy, with `place`, where a lock is
    held.
    """
    try:
        yield
    except SQLAlchemyError as error:
        raise source_error(error, doing, place) from error


@contextmanager
def table_errors(doing: str, table: CollectionId) -> Iterator[None]:
    """Like `source_errors`, but SchemaChanged where the table was dropped or changed."""
    try:
        yield
    except SQLAlchemyError as error:
        number, said = native_number(error), f"{doing} failed: {_said(error)}"
        if number in _TABLE_MOVED:
            raise SchemaChanged(said, place=table) from error
        raise source_error(error, doing, table) from error


def busy(error: SQLAlchemyError) -> bool:
    """Whether a statement failed only because others work on the same rows."""
    return native_number(error) in _BUSY


def lock_waited_for(error: Exception, said: str) -> bool:
    """Whether a Spark job failed because of a lock timeout, in any language."""
    number = jdbc_number(error)
    return number == _LOCK_WAITED_FOR if number else _SAID_IN_ENGLISH in said


def jdbc_number(error: Exception) -> int:
    """SQL Server's error number in a Spark error, from the cause that has one; 0 if none has."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _depth in range(_CAUSES):
        if cause is None:
            break
        with suppress(*SPARK_ERRORS):  # not an SQLException
            if number := int(cause.getErrorCode()):
                return number
        try:
            cause = cause.getCause()
        except SPARK_ERRORS:
            break
    return 0


def no_snapshots(database: str) -> ConfigError:
    """The error where snapshot isolation is not allowed."""
    return ConfigError(
        f"the database {database!r} does not allow snapshot isolation",
        hint="ALTER DATABASE … SET ALLOW_SNAPSHOT_ISOLATION ON, or another 'snapshot.isolation.mode'",
    )


def native_number(error: SQLAlchemyError) -> int:
    """SQL Server's number of an error; 0 where the driver gave none."""
    found = _NUMBER.search(_text(error))
    return int(found[1]) if found else 0


NO_SUCH_OBJECT = 208


def source_error(error: SQLAlchemyError, doing: str, place: CollectionId | str) -> SourceError | ConfigError:
    """A driver's exception as ours, in one line."""
    number, said = native_number(error), _said(error)
    if "Can't open lib" in said or "Data source name not found" in said:
        return ConfigError(
            f"the ODBC driver can't be used: {said}",
            hint="install Microsoft's ODBC Driver 18 for SQL Server,"
            " or give a library's path in 'tidemark.sqlserver.odbc.driver'",
        )
    if number == _RANGE_LOST:
        return PositionLost(
            f"the change tables do not reach back to where the stream stood: {said}",
            place=place,
            hint="start with an empty checkpoint and an empty sink directory, take snapshots again,"
            " and lengthen CDC's retention (sys.sp_cdc_change_job)",
        )
    if number == _NO_SNAPSHOTS:
        return no_snapshots(str(place))
    if number in _BUSY:
        return TableBusy(f"{doing} failed: {said}", place=place)
    if number in _LOGIN_REFUSED:
        refuse()
        return LoginRefused(f"{doing} failed: {said}", place=place, hint=_hint(error))
    return SourceError(f"{doing} failed: {said}", place=place, hint=_hint(error))


def _hint(error: SQLAlchemyError) -> str:
    """What to do where the server can't be reached or rejects the login."""
    if any(word in _text(error) for word in _UNREACHED):
        return "check database.hostname and database.port, and that the server takes TCP connections"
    refused = native_number(error) in _LOGIN_FAILED
    return "check database.user, database.password and the database" if refused else ""


def _text(error: SQLAlchemyError) -> str:
    """The driver's message. SQLAlchemy's own adds the statement, which holds literals."""
    orig = error.orig if isinstance(error, DBAPIError) else None
    arguments: tuple[object, ...] = getattr(orig, "args", ())
    return str(arguments[-1] if arguments else orig or type(error).__name__)


def _said(error: SQLAlchemyError) -> str:
    number = native_number(error)
    # pyodbc joins all of a driver's messages into one text, each with the calls that it went through
    parts = (part.strip("; ") for part in _CALLED.split(_text(error).replace("\n", " ")))
    said = "; ".join(dict.fromkeys(_PREFIXES.sub("", part) for part in parts if part))
    if not number:
        return said[:500] or type(error).__name__
    told = sqlserver_message(number, said)
    return f"{told[:500]} (error {number})" if told == said else told
