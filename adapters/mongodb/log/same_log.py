"""Checks that the server's log is still the one that was streamed.

A saved position may lie between events: the server reports such positions while idle, and no log entry need
exist there. So a server restored from an older copy of its files accepts the position without an error. The
last streamed event, however, must be in its log, unless the log no longer reaches back that far.
"""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

from adapters.mongodb.documents.bson_walk import cluster_time, documents, fields, int64
from adapters.mongodb.log.position import position_of, shown, time_of
from adapters.mongodb.server.failures import HistoryLost, another_log
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.mongodb.log.options import StreamOptions
    from adapters.mongodb.server.change_cursor import ChangeCursor
    from adapters.mongodb.server.questions import Questions
    from engine.model import Position

_log = logging.getLogger("adapters")
_DOING, _PLACE = "looking for the event streamed last", "change stream"
_AWAIT_MS = 500
_PATIENCE_S = 30.0
"""An idle primary still writes an entry every ten seconds."""


def check_same_log(
    questions: Questions, options: StreamOptions, event: Position, monotonic: Callable[[], float]
) -> None:
    """Look for the last streamed event. Reads only that event's cluster time of the log.

    Raises PositionLost if the log continues without it, and SourceError if the log has not come that far.
    """
    with closing(questions.change_cursor(options.namespace, _DOING)) as cursor:
        try:
            found = _found(cursor, options, event, monotonic)
        except HistoryLost:
            _log.debug("the oplog no longer reaches back to the event streamed last")
            return
    if not found:
        raise another_log(f"no event at {shown(event)}")


def _found(
    cursor: ChangeCursor, options: StreamOptions, event: Position, monotonic: Callable[[], float]
) -> bool:
    """Whether the first event from its time on has that time.

    The events of one time are all there, or none.
    """
    wanted, deadline = time_of(event), monotonic() + _PATIENCE_S
    raw, batch = cursor.open(options.times(wanted), 1), "firstBatch"
    while True:
        found = fields(raw, fields(raw)["cursor"].start)
        number = int64(raw, found["id"].start)[0]
        place = next((start for start, _end in documents(raw, found[batch].start)), None)
        passed = time_of(position_of(raw, found["postBatchResumeToken"]))
        if place is not None or passed > wanted:
            if number:
                cursor.end(number)
            return place is not None and cluster_time(raw, fields(raw, place)["clusterTime"].start) == wanted
        if monotonic() > deadline:
            raise SourceError(f"the server's log has not come to {shown(event)} yet", where=_PLACE)
        raw, batch = cursor.more(number, 1, _AWAIT_MS), "nextBatch"
