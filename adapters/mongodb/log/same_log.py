"""Checks that the server's log is still the one that was streamed.

A saved position may lie between events: the server reports such positions while idle, and no log entry need
exist there. So a server restored from an older copy of its files accepts the position without an error. The
last streamed event, however, must be in its log, unless the log no longer reaches back that far.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from pymongo.errors import OperationFailure, PyMongoError

from adapters.mongodb.documents.bson_walk import cluster_time, documents, fields, int64
from adapters.mongodb.log.position import position_of, shown, time_of
from adapters.mongodb.server.connection import HISTORY_LOST, RAW, another_log, source_error
from engine.errors import SourceError

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.client_session import ClientSession

    from adapters.mongodb.log.options import StreamOptions
    from engine.model import Position

_log = logging.getLogger("adapters")
_DOING, _PLACE = "looking for the event streamed last", "change stream"
_AWAIT_MS = 500
_PATIENCE_S = 30.0
"""An idle primary still writes an entry every ten seconds."""


def check_same_log(client: MongoClient[dict[str, Any]], options: StreamOptions, event: Position) -> None:
    """Look for the last streamed event. Reads only that event's cluster time of the log.

    Raises PositionLost if the log continues without it, and SourceError if the log has not come that far.
    """
    with client.start_session() as session:
        try:
            found = _found(client, options, event, session)
        except OperationFailure as error:
            if error.code not in HISTORY_LOST:
                raise source_error(error, _DOING, _PLACE) from error
            _log.debug("the oplog no longer reaches back to the event streamed last")
            return
        except PyMongoError as error:
            raise source_error(error, _DOING, _PLACE) from error
    if not found:
        raise another_log(f"no event at {shown(event)}")


def _found(
    client: MongoClient[dict[str, Any]], options: StreamOptions, event: Position, session: ClientSession
) -> bool:
    """Whether the first event from its time on has that time.

    The events of one time are all there, or none.
    """
    (database, name), wanted = options.place, time_of(event)
    opening = {"aggregate": name, "pipeline": options.times(wanted), "cursor": {"batchSize": 1}}
    raw = client[database].command(opening, codec_options=RAW, session=session).raw
    batch, deadline = "firstBatch", time.monotonic() + _PATIENCE_S
    while True:
        cursor = fields(raw, fields(raw)["cursor"].start)
        number = int64(raw, cursor["id"].start)[0]
        place = next((start for start, _end in documents(raw, cursor[batch].start)), None)
        passed = time_of(position_of(raw, cursor["postBatchResumeToken"], whole=True))
        if place is not None or passed > wanted:
            if number:
                end = {"killCursors": options.cursor_name, "cursors": [number]}
                client[database].command(end, session=session)
            return place is not None and cluster_time(raw, fields(raw, place)["clusterTime"].start) == wanted
        if time.monotonic() > deadline:
            raise SourceError(f"the server's log has not come to {shown(event)} yet", place=_PLACE)
        more = {"getMore": number, "collection": options.cursor_name, "batchSize": 1, "maxTimeMS": _AWAIT_MS}
        raw = client[database].command(more, codec_options=RAW, session=session).raw
        batch = "nextBatch"
