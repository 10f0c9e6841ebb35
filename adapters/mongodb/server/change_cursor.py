"""One change stream's commands, answered by raw BSON: the driver's cursor would decode each event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapters.mongodb.server.connection import RAW
from adapters.mongodb.server.failures import stream_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pymongo import MongoClient

_PLACE = "change stream"


class ChangeCursor:
    """One change stream on the server, in a session of its own. Used by one thread.

    `scope` is the database, and what to aggregate there: a collection or 1. `doing` is what errors say.
    """

    def __init__(
        self, client: MongoClient[dict[str, Any]], scope: tuple[str, str | int], doing: str = ""
    ) -> None:
        (database, self._aggregated), self._doing = scope, doing
        self._database, self._session = client[database], client.start_session()

    @property
    def _collection(self) -> str:
        """The collection that the cursor belongs to."""
        return self._aggregated if isinstance(self._aggregated, str) else "$cmd.aggregate"

    def open(self, pipeline: Sequence[Mapping[str, Any]], batch_rows: int = 0) -> bytes:
        """Open the stream: the answer with its first batch."""
        command = {
            "aggregate": self._aggregated,
            "pipeline": pipeline,
            "cursor": {"batchSize": batch_rows},
        }
        return self._command(command, "opening the change stream")

    def more(self, cursor: int, batch_rows: int, await_ms: int) -> bytes:
        """The answer with the next batch, which the server may delay if it has no events.

        Raises EventTooLarge if the server can't send the next event.
        """
        command = {
            "getMore": cursor,
            "collection": self._collection,
            "batchSize": batch_rows,
            "maxTimeMS": await_ms,
        }
        return self._command(command, "reading the change stream")

    def end(self, cursor: int) -> None:
        """End the cursor on the server."""
        self._command({"killCursors": self._collection, "cursors": [cursor]}, "opening the change stream")

    def close(self) -> None:
        """End the session."""
        self._session.end_session()

    def _command(self, command: dict[str, Any], doing: str) -> bytes:
        with stream_errors(self._doing or doing, _PLACE):
            answer = self._database.command(command, codec_options=RAW, session=self._session)
        raw: bytes = answer.raw
        return raw
