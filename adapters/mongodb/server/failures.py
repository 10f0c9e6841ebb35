"""The driver's exceptions as ours, by the server's codes: one line each, without what a document holds."""

from __future__ import annotations

from pymongo.errors import OperationFailure, PyMongoError

from adapters.disclosure import mongodb_message
from adapters.source.driver_errors import DriverErrors, ErrorMeaning, Fault, ServerRefused
from engine.errors import (
    LoginRefused,
    LogRemoved,
    OtherHistory,
    PositionLost,
    SchemaChanged,
    SnapshotGone,
    SourceError,
)

_ANEW = "start with an empty checkpoint and an empty sink directory, take snapshots again"
_NO_LONGER_THERE = "the oplog does not reach back to where the stream stood"
_ENLARGE = f"{_ANEW}, and enlarge the oplog (replSetResizeOplog)"
_STREAMED_ELSEWHERE = (
    "the oplog does not hold the event that was streamed last, so consumers have changes that this server"
    " never had: it was put back to an older copy of its files, or is another one"
)
_ANEW_ELSEWHERE = f"{_ANEW}; consumers keep what they have of documents that are not there any more"
_HISTORY_LOST, _ANOTHER_LOG = frozenset({222, 286}), 280
"""The oplog no longer reaches back; or it does, but lacks the event to resume from."""
_TOO_LARGE = frozenset({10334, 7182500})
"""An event over 16 MB; one that can't be split, because one of its fields is too large for a part."""
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


class EventTooLarge(SourceError):
    """The server can't send the next event."""


class HistoryLost(LogRemoved):
    """The oplog no longer reaches back to where the stream starts."""


def another_log(said: str) -> PositionLost:
    """The error for a server that lacks what was streamed from it."""
    return OtherHistory(f"{_STREAMED_ELSEWHERE}: {said}", where="change stream", hint=_ANEW_ELSEWHERE)


def _message_of(error: PyMongoError) -> str:
    if isinstance(error, OperationFailure) and error.details:
        told = error.details
        message = str(told.get("errmsg", error))
        return mongodb_message(error.code, str(told.get("codeName", "")), message)[:500]
    return next(iter(str(error).splitlines()), type(error).__name__)[:500]


def _fault(error: PyMongoError) -> Fault:
    if not isinstance(error, OperationFailure):
        return Fault(_message_of(error))
    return Fault(_message_of(error), (error.code,), str((error.details or {}).get("codeName", "")))


source_errors = DriverErrors(
    PyMongoError,
    _fault,
    "mongodb",
    (
        ErrorMeaning(LoginRefused, (_NOT_ADMITTED,)),
        ErrorMeaning(
            LogRemoved,
            _HISTORY_LOST,
            _NO_LONGER_THERE,
            where="change stream",
            hint=_ENLARGE,
        ),
        ErrorMeaning(
            OtherHistory,
            (_ANOTHER_LOG,),
            _STREAMED_ELSEWHERE,
            where="change stream",
            hint=_ANEW_ELSEWHERE,
        ),
        ErrorMeaning(ServerRefused, (_UNAUTHORIZED,), hint="grant our role the privilege"),
        ErrorMeaning(SourceError, _PASSING),
        ErrorMeaning(ServerRefused),
    ),
)
"""Raises the driver's exceptions as ours: PositionLost if the log can't be continued, Refused if a retry is
useless."""

collection_errors = source_errors.refined(
    ErrorMeaning(
        SnapshotGone,
        _SNAPSHOT_GONE,
        hint="raise minSnapshotHistoryWindowInSeconds on the server, which says how long it keeps"
        " a state (300 unless set otherwise)",
    ),
    ErrorMeaning(SchemaChanged, _COLLECTION_MOVED),
)
"""Like `source_errors`, but SchemaChanged if the collection was dropped or changed meanwhile."""

stream_errors = source_errors.refined(
    ErrorMeaning(EventTooLarge, _TOO_LARGE),
    ErrorMeaning(HistoryLost, _HISTORY_LOST, _NO_LONGER_THERE, hint=_ENLARGE),
)
"""Like `source_errors`, but EventTooLarge and HistoryLost in a change stream."""
