"""The drivers' exceptions as ours: one line each, without statements or row values."""

from __future__ import annotations

import re
from contextlib import suppress

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from adapters.disclosure import sqlserver_message
from adapters.source.driver_errors import DriverErrors, ErrorMeaning, Fault
from adapters.spark.exceptions import SPARK_ERRORS
from engine.errors import ConfigError, LoginRefused, LogRemoved, SchemaChanged, SourceError, TableBusy

_NUMBER = re.compile(r"\((\d+)\) \(SQL")
_PREFIXES = re.compile(r"^(\[[^\]]*\]\s*)+")
_CALLED = re.compile(r" \(\d+\) \(SQL\w+\)")
_RANGE_LOST = 313
"""CDC's functions report this for a range that their change table does not have."""
_LOGIN_REFUSED = frozenset({18456, 18452, 18470, 18486, 18487, 18488})
"""Wrong password or token; disabled, locked or expired login."""
_NO_SUCH_DATABASE = frozenset({4060, 4064})
"""The database can't be opened, or the user's default database."""
_CHECK_LOGIN = "check database.user, database.password and the database"
_NO_SNAPSHOTS = 3952
_ALLOW_SNAPSHOTS = "ALTER DATABASE … SET ALLOW_SNAPSHOT_ISOLATION ON, or another 'snapshot.isolation.mode'"
_UNREACHED = ("Login timeout expired", "[08001]")
"""Parts of the drivers' messages where there is no connection, or none in time."""
_CHECK_ADDRESS = "check database.hostname and database.port, and that the server takes TCP connections"
_NO_DRIVER = "no driver"
_NO_DRIVER_SAYS = ("Can't open lib", "Data source name not found")
"""Parts of the driver manager's messages where it can't load a driver, for which it has no number."""
_TABLE_MOVED = frozenset({207, 208, 3961, 4902, 8180})
"""No such column or object; changed since the snapshot; no such table; could not be prepared."""
_LOCK_WAITED_FOR = 1222
_BUSY = frozenset({601, _LOCK_WAITED_FOR})
"""Rows moved under a reader that takes no locks; lock timeout."""
_SAID_IN_ENGLISH = "Lock request time out period exceeded"
"""The message of a lock timeout, where Spark passes on only the text."""
_CAUSES = 20


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
        hint=_ALLOW_SNAPSHOTS,
    )


NO_SUCH_OBJECT = 208


def native_number(error: SQLAlchemyError) -> int:
    """SQL Server's number of an error; 0 where the driver gave none."""
    found = _NUMBER.search(_text(error))
    return int(found[1]) if found else 0


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


def _fault(error: SQLAlchemyError) -> Fault:
    number, said = native_number(error), _said(error)
    if any(words in said for words in _NO_DRIVER_SAYS):
        return Fault(said, (_NO_DRIVER,))
    unreached = any(words in _text(error) for words in _UNREACHED)
    return Fault(said, (number,) if number else (), hint=_CHECK_ADDRESS if unreached else "")


source_errors = DriverErrors(
    SQLAlchemyError,
    _fault,
    "sql server",
    (
        ErrorMeaning(
            ConfigError,
            (_NO_DRIVER,),
            "the ODBC driver can't be used",
            hint="install Microsoft's ODBC Driver 18 for SQL Server,"
            " or give a library's path in 'tidemark.sqlserver.odbc.driver'",
        ),
        ErrorMeaning(
            LogRemoved,
            (_RANGE_LOST,),
            "the change tables do not reach back to where the stream stood",
            hint="start with an empty checkpoint and an empty sink directory, take snapshots again,"
            " and lengthen CDC's retention (sys.sp_cdc_change_job)",
        ),
        ErrorMeaning(
            ConfigError,
            (_NO_SNAPSHOTS,),
            "a database does not allow snapshot isolation",
            hint=_ALLOW_SNAPSHOTS,
        ),
        ErrorMeaning(TableBusy, _BUSY),
        ErrorMeaning(LoginRefused, _LOGIN_REFUSED, hint=_CHECK_LOGIN),
        ErrorMeaning(SourceError, _NO_SUCH_DATABASE, hint=_CHECK_LOGIN),
    ),
)
"""Raises the drivers' exceptions as SourceError.

PositionLost where a change table does not reach back far enough; TableBusy where a lock is held.
"""

table_errors = source_errors.refined(ErrorMeaning(SchemaChanged, _TABLE_MOVED))
"""Like `source_errors`, but SchemaChanged where the table was dropped or changed."""
