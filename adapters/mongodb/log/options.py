"""The scope of a change stream and the content of its events, with smaller variants for oversized ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bson import json_util
from bson.timestamp import Timestamp

from adapters.mongodb.log.position import token_of
from adapters.mongodb.settings import CaptureMode, CaptureScope, Oversize

if TYPE_CHECKING:
    from engine.model import CollectionId, Position

_BARE = {"$project": {"operationType": 1, "clusterTime": 1, "ns": 1, "documentKey": 1}}
"""Keeps only what identifies the document. `_id`, the resume token, always stays."""
EMPTYING = ("drop", "rename", "dropDatabase", "invalidate")
"""Operations that remove all documents of a collection."""
_SPLIT: dict[str, Any] = {"$changeStreamSplitLargeEvent": {}}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The scope of the stream and the content of its events.

    `bare` events identify the changed document and nothing more; see `decode.LeftOut`.
    """

    mode: CaptureMode = CaptureMode.FULL
    scope: CaptureScope = CaptureScope.DEPLOYMENT
    target: str = ""
    matches: tuple[str, ...] = ()
    signal: CollectionId | None = None
    oversize: Oversize = Oversize.FAIL
    bare: bool = False

    def pipeline(self, start: Position | None) -> list[dict[str, Any]]:
        """The `$changeStream` stage, followed by the filters.

        Signals pass all filters, and so do events that empty collections, since windows must see them.
        """
        passing: list[dict[str, Any]] = [{"operationType": {"$in": list(EMPTYING)}}]
        if self.signal is not None:
            database, name = self.signal.parts
            passing.append({"ns": {"db": database, "coll": name}})
        matches = [{"$match": {"$or": [*passing, json_util.loads(text)]}} for text in self.matches]
        last = [_BARE] if self.bare else [_SPLIT] if self.oversize is Oversize.SPLIT else []
        return [{"$changeStream": self._stage(start)}, *matches, *last]

    def times(self, start: tuple[int, int]) -> list[dict[str, Any]]:
        """The pipeline of a separate stream with the times of all events from a cluster time on."""
        stage = {"startAtOperationTime": Timestamp(*start), **self._of_all}
        return [{"$changeStream": stage}, {"$project": {"clusterTime": 1}}]

    def _stage(self, start: Position | None) -> dict[str, Any]:
        """The `$changeStream` stage."""
        stage: dict[str, Any] = {}
        if self.mode.looks_up:
            stage["fullDocument"] = "updateLookup"
        if self.mode.pre_images:
            stage["fullDocumentBeforeChange"] = "whenAvailable"
        if start is not None:
            stage["startAfter"] = token_of(start)
        return {**stage, **self._of_all}

    @property
    def _of_all(self) -> dict[str, Any]:
        return {"allChangesForCluster": True} if self.scope is CaptureScope.DEPLOYMENT else {}

    @property
    def namespace(self) -> tuple[str, str | int]:
        """The database, and what to aggregate in it."""
        if self.scope is CaptureScope.DEPLOYMENT:
            return "admin", 1
        database, _, collection = self.target.partition(".")
        return database, collection if self.scope is CaptureScope.COLLECTION else 1

    def smaller(self) -> StreamOptions | None:
        """The options for the next smaller events; None if they can't be smaller."""
        if self.mode.pre_images:
            less = CaptureMode.FULL if self.mode.looks_up else CaptureMode.PLAIN
            return replace(self, mode=less)
        if self.mode.looks_up:
            return replace(self, mode=CaptureMode.PLAIN)
        if self.oversize is Oversize.SKIP and not self.bare:
            return replace(self, bare=True)
        return None

    @property
    def left_out(self) -> str:
        """What events opened with `smaller` lack, compared to the previous options."""
        if self.bare:
            return "content: it is left out"
        return "looked-up document" if self.mode is CaptureMode.PLAIN else "pre-image"
