"""The drivers' exceptions as ours: one line each, without statements or row values."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from adapters.disclosure import sqlserver_message
from adapters.java_faults import java_faults
from adapters.source.driver_errors import DriverErrors, ErrorMeaning, Fault
from adapters.sqlserver.server.known_messages import not_loaded, number_in, plain
from engine.errors import ConfigError, LoginRefused, LogRemoved, SchemaChanged, SourceError, TableBusy

_RANGE_LOST = 313
"""CDC's functions report this for a range that their change table does not have."""
_LOGIN_REFUSED = frozenset({18456, 18452, 18470, 18486, 18487, 18488})
"""Wrong password or token; disabled, locked or expired login."""
_NO_SUCH_DATABASE = frozenset({4060, 4064})
"""The database can't be opened, or the user's default database."""
_CHECK_LOGIN = "check database.user, database.password and the database"
_NO_SNAPSHOTS = 3952
_ALLOW_SNAPSHOTS = "ALTER DATABASE … SET ALLOW_SNAPSHOT_ISOLATION ON, or another 'snapshot.isolation.mode'"
_NOT_CONNECTED, _TIMED_OUT = "08001", "HYT00"
"""SQLSTATEs: no connection; no answer in time, to a login or to a statement."""
_CHECK_ADDRESS = "check database.hostname and database.port, and that the server takes TCP connections"
_NO_DRIVER, _NO_DATA_SOURCE = "no driver", "IM002"
"""Our own code, and the driver manager's SQLSTATE where it knows no driver of a name."""
_TABLE_MOVED = frozenset({207, 208, 3961, 4902, 8180})
"""No such column or object; changed since the snapshot; no such table; could not be prepared."""
_LOCK_WAITED_FOR = 1222
_BUSY = frozenset({601, _LOCK_WAITED_FOR})
"""Rows moved under a reader that takes no locks; lock timeout."""


def busy(error: SQLAlchemyError) -> bool:
    """Whether a statement failed only because others work on the same rows."""
    return native_number(error) in _BUSY


def lock_waited_for(error: Exception) -> bool:
    """Whether a Spark job failed because of a lock timeout."""
    numbers = (fault.number for fault in java_faults(error) if fault.number)
    return next(numbers, 0) == _LOCK_WAITED_FOR


def no_snapshots(database: str) -> ConfigError:
    """The error where snapshot isolation is not allowed."""
    return ConfigError(
        f"the database {database!r} does not allow snapshot isolation",
        hint=_ALLOW_SNAPSHOTS,
    )


NO_SUCH_OBJECT = 208


def native_number(error: SQLAlchemyError) -> int:
    """SQL Server's number of an error; 0 where the driver gave none."""
    return number_in(_text(error))


def _arguments(error: SQLAlchemyError) -> tuple[object, ...]:
    """What the driver's exception holds: an SQLSTATE and a text."""
    arguments: tuple[object, ...] = getattr(error.orig, "args", ()) if isinstance(error, DBAPIError) else ()
    return arguments


def _text(error: SQLAlchemyError) -> str:
    """The driver's message. SQLAlchemy's own adds the statement, which holds literals."""
    arguments = _arguments(error)
    orig = error.orig if isinstance(error, DBAPIError) else None
    return str(arguments[-1] if arguments else orig or type(error).__name__)


def _state(error: SQLAlchemyError) -> str:
    """The driver's SQLSTATE; empty if it gave none."""
    arguments = _arguments(error)
    return str(arguments[0]) if len(arguments) > 1 else ""


def _unreached(error: SQLAlchemyError) -> bool:
    """Whether there is no connection, or none in time."""
    state, logging_in = _state(error), isinstance(error, DBAPIError) and error.statement is None
    return state == _NOT_CONNECTED or (state == _TIMED_OUT and logging_in)


def _message_of(error: SQLAlchemyError) -> str:
    number, said = native_number(error), plain(_text(error))
    if not number:
        return said[:500] or type(error).__name__
    told = sqlserver_message(number, said)
    return f"{told[:500]} (error {number})" if told == said else told


def _fault(error: SQLAlchemyError) -> Fault:
    number, said = native_number(error), _message_of(error)
    if not_loaded(said) or _state(error) == _NO_DATA_SOURCE:
        return Fault(said, (_NO_DRIVER,))
    return Fault(said, (number,) if number else (), hint=_CHECK_ADDRESS if _unreached(error) else "")


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
