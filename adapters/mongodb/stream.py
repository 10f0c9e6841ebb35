"""A change stream, batch by batch, as raw BSON: commands of our own instead of the driver's cursor.

The driver would decode every event to find its resume token; here a batch's own token is enough. Owns
what a stream asks for, going on after an invalidation, and events over the server's 16 MB: such a one
comes without its pre-image, or without the document looked up, if that makes it small enough.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bson import json_util
from pymongo.errors import OperationFailure, PyMongoError

from adapters.mongodb.decode import EMPTYING
from adapters.mongodb.position import position_of, shown, token_of
from adapters.mongodb.raw import Kind, documents, fields, int64
from adapters.mongodb.server import RAW, source_error
from engine.config.sources import CaptureMode, CaptureScope
from engine.errors import SourceError

if TYPE_CHECKING:
    from pymongo import MongoClient

    from adapters.mongodb.raw import Value
    from engine.model import CollectionId, Position

_log = logging.getLogger("adapters")
_TOO_LARGE = 10334
_INVALIDATED = b"\x02operationType\x00\x0b\x00\x00\x00invalidate\x00"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the stream is opened on, and what its events carry."""

    mode: CaptureMode = CaptureMode.FULL
    scope: CaptureScope = CaptureScope.DEPLOYMENT
    target: str = ""
    matches: tuple[str, ...] = ()
    signal: CollectionId | None = None

    def pipeline(self, start: Position | None) -> list[dict[str, Any]]:
        """The `$changeStream` stage, and behind it what the filters leave.

        Signals pass them all, and so do events that empty collections, which windows must know of.
        """
        passing: list[dict[str, Any]] = [{"operationType": {"$in": list(EMPTYING)}}]
        if self.signal is not None:
            database, name = self.signal.parts
            passing.append({"ns": {"db": database, "coll": name}})
        matches = [{"$match": {"$or": [*passing, json_util.loads(text)]}} for text in self.matches]
        return [{"$changeStream": self.stage(start)}, *matches]

    def stage(self, start: Position | None) -> dict[str, Any]:
        """The `$changeStream` stage."""
        stage: dict[str, Any] = {}
        if self.mode.looks_up:
            stage["fullDocument"] = "updateLookup"
        if self.mode.pre_images:
            stage["fullDocumentBeforeChange"] = "whenAvailable"
        if self.scope is CaptureScope.DEPLOYMENT:
            stage["allChangesForCluster"] = True
        if start is not None:
            stage["startAfter"] = token_of(start)
        return stage

    @property
    def place(self) -> tuple[str, str | int]:
        """The database, and what to aggregate in it."""
        if self.scope is CaptureScope.DEPLOYMENT:
            return "admin", 1
        database, _, collection = self.target.partition(".")
        return database, collection if self.scope is CaptureScope.COLLECTION else 1

    def smaller(self) -> StreamOptions | None:
        """The next smaller events; None where they can't be smaller."""
        if self.mode.pre_images:
            less = CaptureMode.FULL if self.mode.looks_up else CaptureMode.PLAIN
            return replace(self, mode=less)
        return replace(self, mode=CaptureMode.PLAIN) if self.mode.looks_up else None


@dataclass(frozen=True, slots=True)
class Batch:
    """Change events in order, and the position after them."""

    changes: tuple[bytes, ...]
    end: Position


class ChangeStream:
    """One open stream; used by one thread. An error of the driver becomes one of ours and ends it."""

    def __init__(
        self, client: MongoClient[dict[str, Any]], options: StreamOptions, start: Position | None
    ) -> None:
        self._client, self._options, self._asked = client, options, options
        self._one_by_one = False
        self._ahead: Batch | None = None
        self._session = client.start_session()
        self._cursor = 0
        self.position = self._open(start)

    def reach(self) -> None:
        """Look once, without waiting. Raises PositionLost if the oplog does not reach back to the start."""
        self._ahead = self.next(1, 1)

    def close(self) -> None:
        """End it."""
        if self._cursor:
            database, name = self._options.place
            collection = name if isinstance(name, str) else "$cmd.aggregate"
            try:
                self._command(database, {"killCursors": collection, "cursors": [self._cursor]})
            except SourceError:
                _log.debug("the change stream's cursor could not be ended")
        self._session.end_session()

    def next(self, most: int, await_ms: int) -> Batch:
        """The next events, at most so many; none after waiting so long."""
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            return ahead
        if not self._cursor:
            self.position = self._open(self.position)
        database, name = self._options.place
        collection = name if isinstance(name, str) else "$cmd.aggregate"
        more = {
            "getMore": self._cursor,
            "collection": collection,
            "batchSize": 1 if self._one_by_one else most,
            "maxTimeMS": await_ms,
        }
        try:
            raw = self._command(database, more, errors=False)
        except OperationFailure as error:
            if error.code != _TOO_LARGE:
                raise source_error(error, "reading the change stream", "change stream") from error
            return self._shrunk(error)
        except PyMongoError as error:
            raise source_error(error, "reading the change stream", "change stream") from error
        batch = self._batch(raw)
        if batch.changes and self._one_by_one:
            self._restore()
        return batch

    def _shrunk(self, error: OperationFailure) -> Batch:
        """Find the event that is too large, then ask for less of it; an empty batch meanwhile."""
        if self._one_by_one:
            smaller = self._options.smaller()
            if smaller is None:
                raise SourceError(
                    f"the event after {shown(self.position)} is over 16 MB, also without looked-up documents",
                    place="change stream",
                    hint="the server can't send it; start anew behind it, and take a snapshot",
                ) from error
            _log.warning(
                "the event after %s is over 16 MB; it comes without its %s",
                shown(self.position),
                "pre-image" if self._options.mode.pre_images else "whole document",
            )
            self._options = smaller
        self._one_by_one, self._cursor = True, 0
        return Batch((), replace(self.position, order=(*self.position.order[:2], 0)))

    def _restore(self) -> None:
        """Behind an event that was too large: all that was asked for again."""
        if self._options != self._asked:
            self._one_by_one, self._cursor, self._options = False, 0, self._asked

    def _open(self, start: Position | None) -> Position:
        database, name = self._options.place
        pipeline = self._options.pipeline(start)
        raw = self._command(database, {"aggregate": name, "pipeline": pipeline, "cursor": {"batchSize": 0}})
        cursor = fields(raw, fields(raw)["cursor"].start)
        self._cursor = int64(raw, cursor["id"].start)[0]
        found = position_of(raw, cursor["postBatchResumeToken"], whole=False)
        return found if start is None else start

    def _batch(self, raw: bytes) -> Batch:
        cursor = fields(raw, fields(raw)["cursor"].start)
        self._cursor = int64(raw, cursor["id"].start)[0]
        batch: Value = cursor["nextBatch"]
        changes = tuple(raw[start:end] for start, end in documents(raw, batch.start))
        token = cursor.get("postBatchResumeToken")
        if token is None or token.kind != Kind.DOCUMENT:
            raise SourceError("the server gave no resume token", place="change stream")
        end = position_of(raw, token, whole=not changes)
        if not self._cursor and not (changes and _INVALIDATED in changes[-1]):
            raise SourceError("the server ended the change stream", place="change stream")
        self.position = max(self.position, end)
        return Batch(changes, self.position)

    def _command(self, database: str, command: dict[str, Any], *, errors: bool = True) -> bytes:
        try:
            answer = self._client[database].command(command, codec_options=RAW, session=self._session)
        except PyMongoError as error:
            if not errors:
                raise
            raise source_error(error, "opening the change stream", "change stream") from error
        raw: bytes = answer.raw
        return raw
