"""A change stream, batch by batch, as raw BSON.

The driver would decode every event to find its resume token; here the batch's token is enough. Owns resuming
after an invalidation, and events over the server's limit of 16 MB. Such an event comes without its pre-image,
or without the looked-up document, if that makes it small enough. Otherwise `cursor.oversize.handling.mode`
decides: the event is reduced to its identity, or the job stops. In mode `split`, events come in parts from
the start (`split_events`).

The server resumes after a part only if it splits the event as before. It does not if the document that it
looks up has changed meanwhile. So an event that was split is handed out with the first position behind it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.mongodb.documents.bson_walk import Kind, cluster_time, documents, fields, int64
from adapters.mongodb.log.position import event_position, marked, position_of, shown, time_of
from adapters.mongodb.log.split_events import Parts
from adapters.mongodb.server.failures import EventTooLarge
from adapters.mongodb.settings import Oversize
from engine.errors import ConfigError, SourceError
from engine.events.damaged import reading_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.mongodb.documents.bson_walk import ClusterTime
    from adapters.mongodb.log.options import StreamOptions
    from adapters.mongodb.server.change_cursor import ChangeCursor
    from engine.model import Position

_log = logging.getLogger("adapters")
_PLACE = "change stream"
_INVALIDATED = b"\x02operationType\x00\x0b\x00\x00\x00invalidate\x00"


@dataclass(frozen=True, slots=True)
class Batch:
    """Change events in order, the position after them, and the cluster's time when they came.

    That time is in whole seconds; None if the server did not send it.
    """

    changes: tuple[bytes, ...]
    end: Position
    cluster_s: int | None = None


class ChangeStream:
    """One open stream. Used by one thread. An error ends it.

    `check` is called before the stream is opened again. It raises PositionLost if the log is another one.
    """

    def __init__(
        self,
        cursor: ChangeCursor,
        options: StreamOptions,
        start: Position | None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._commands, self._options, self._asked = cursor, options, options
        self._check = check
        self._singly, self._parts = 0, Parts()
        self._kept: tuple[bytes, ...] = ()
        self._ahead: Batch | None = None
        self._cursor = 0
        self._began: ClusterTime = (0, 0)
        self._told: ClusterTime | None = None
        self.position = self._open(start)

    def reach(self) -> None:
        """Poll once without waiting. Raises PositionLost if the oplog does not reach back to the start."""
        self._ahead = self.next(1, 1)

    def close(self) -> None:
        """End the stream."""
        self._end()
        self._commands.close()

    def _end(self) -> None:
        """End the cursor, if the server has one open."""
        if self._cursor:
            try:
                self._commands.end(self._cursor)
            except SourceError:
                _log.debug("the change stream's cursor could not be ended")
        self._cursor = 0

    def next(self, most: int, await_ms: int) -> Batch:
        """The next events, at most `most`; none if none come within `await_ms`."""
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            return ahead
        if not self._cursor:
            self._check()
            self.position = self._open(self.position)
        try:
            raw = self._commands.more(self._cursor, 1 if self._singly else most, await_ms)
        except EventTooLarge as error:
            return self._shrunk(error, most)
        batch = self._batch(raw)
        if batch.changes and self._singly:
            self._restore(len(batch.changes))
        return batch

    def _shrunk(self, error: EventTooLarge, most: int) -> Batch:
        """Find the event that is too large, then request less of it. Returns an empty batch meanwhile.

        It is one of the next `most` events, so these are read one by one.
        """
        if self._singly:
            smaller = self._options.smaller()
            if smaller is None:
                raise self._stuck() from error
            _log.warning(
                "the event after %s is over 16 MB; it comes without its %s",
                shown(self.position),
                smaller.left_out,
            )
            self._options = smaller
        else:
            self._singly = most
        self._cursor, self._parts, self._kept = 0, Parts(), ()
        return Batch((), marked(self.position, whole=False))

    def _stuck(self) -> ConfigError:
        """The error when no further event can come with these settings, and what to do."""
        others = [mode for mode in (Oversize.SKIP, Oversize.SPLIT) if mode is not self._options.oversize]
        words = " or ".join(f"{mode.value!r}" for mode in others)
        hint = f"set 'cursor.oversize.handling.mode' to {words}"
        if self._options.bare:
            hint = "its '_id' alone is too large: begin anew with an empty checkpoint, and take a snapshot"
        return ConfigError(
            f"change stream: the event after {shown(self.position)} is over 16 MB, also without pre-image and"
            " looked-up document, and the server can't send it",
            hint=hint,
        )

    def _restore(self, came: int) -> None:
        """Request full events in full batches again once the oversized event has come.

        It may come as a full event after all: the server looks its document up anew each time, and the
        document may have become smaller. So full batches also return once `most` events have come.
        """
        self._singly = max(0, self._singly - came)
        if self._options != self._asked:
            self._end()
            self._singly, self._options = 0, self._asked

    def _open(self, start: Position | None) -> Position:
        found = answer(self._commands.open(self._options.pipeline(start)), "firstBatch")
        self._cursor, self._began, self._told = found.cursor, time_of(found.end), found.time
        return found.end if start is None else start

    def _batch(self, raw: bytes) -> Batch:
        found = answer(raw, "nextBatch")
        end = marked(found.end, whole=not found.came and self._has_read(time_of(found.end)))
        self._cursor, self._told = found.cursor, found.time
        changes = (*self._kept, *self._parts.joined(found.came))
        self._kept = ()
        if self._ends_in_parts(found, changes):
            whole = {id(raw) for raw in found.came}
            count = max((at for at, raw in enumerate(changes, 1) if id(raw) in whole), default=0)
            changes, self._kept = changes[:count], changes[count:]
            end = event_position(changes[-1]) if changes else self.position
        if not self._cursor and not (changes and _INVALIDATED in changes[-1]):
            raise SourceError("the server ended the change stream", where="change stream")
        self.position = max(self.position, end)
        return Batch(changes, self.position, found.cluster_s)

    def _ends_in_parts(self, found: Answer, changes: Sequence[bytes]) -> bool:
        """Whether the position after an answer is that of a part. `changes` are the whole events by now."""
        if self._parts.open or not changes:
            return self._parts.open
        last = changes[-1]
        return found.came[-1:] != (last,) and time_of(found.end) == time_of(event_position(last))

    def _has_read(self, time: ClusterTime) -> bool:
        """Whether the server had read its log up to the time of a resume token that belongs to no event.

        It has if the token has moved since the stream began. The first token may be one tick ahead of the
        log, so the next operation may have exactly that time. A server makes a batch first and tells its time
        then, so only the time in the answer before is sure to precede the batch.
        """
        return time > self._began or (self._told is not None and self._told >= time)


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer to a getMore or aggregate.

    `cursor` is its number, 0 once the server has closed it. `came` are the events or parts of them; `end` is
    the position after them. `time` is what the server has come to by now.
    """

    cursor: int
    came: tuple[bytes, ...]
    end: Position
    time: ClusterTime | None
    cluster_s: int | None


def answer(raw: bytes, batch: str) -> Answer:
    """Parse an answer whose events are in field `batch`. Raises SourceError if it is damaged."""
    with reading_bytes("an answer of the server", _PLACE):
        cursor = fields(raw, fields(raw)["cursor"].start)
        came = tuple(raw[start:end] for start, end in documents(raw, cursor[batch].start))
        token = cursor.get("postBatchResumeToken")
        if token is None or token.kind != Kind.DOCUMENT:
            raise SourceError("the server gave no resume token", where="change stream")
        position = position_of(raw, token)
        number, time = int64(raw, cursor["id"].start)[0], _operation_time(raw)
        return Answer(number, came, position, time, _cluster_s(raw))


def _operation_time(raw: bytes) -> ClusterTime | None:
    """The time that the server has come to, after it made the batch."""
    told = fields(raw).get("operationTime")
    return cluster_time(raw, told.start) if told and told.kind == Kind.TIMESTAMP else None


def _cluster_s(raw: bytes) -> int | None:
    """The newest time that an answer contains, in Unix seconds. Every member of a replica set sends it."""
    told = fields(raw).get("$clusterTime")
    time = fields(raw, told.start).get("clusterTime") if told and told.kind == Kind.DOCUMENT else None
    if time is None or time.kind != Kind.TIMESTAMP:
        return None
    return int.from_bytes(raw[time.start + 4 : time.end], "little")
