"""The Kafka channel: records of one topic whose key is this job's become messages.

Owns which records count, their labels and the position to resume from. A `TopicReader` reads the topic.

The position is an offset per partition plus a time, usually a minute before the first start, kept in the
job's own state. A partition without an offset (nothing received yet, or added later) is read from the first
record that is not older than that time. So signals sent after the first start count, even if the job was not
running. Signals that an earlier engine has obeyed do not.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from engine.model import Channel
from engine.saved import read_integer, read_text
from signals.channels.inbox import Inbox
from signals.model import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_log = logging.getLogger("signals")
_LAST_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the topic. `topic_id` distinguishes the topic from earlier ones of the same name."""

    topic_id: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """Where reading begins: at the next offset of each partition, or for other partitions at `since_ms`.

    `since_ms` is Unix time in ms. The offsets are valid only for the topic with this id.
    """

    offsets: Mapping[int, int]
    since_ms: int
    topic_id: str = ""


class TopicReader(Protocol):
    """Reads every partition of one topic in the background. Faults are logged, and it retries."""

    def begin(self, position: TopicPosition) -> None:
        """Read from this position on. Drop what was read before and not taken."""

    def take(self) -> Sequence[Record]:
        """The records read since the last call, each partition in order. Returns immediately."""

    def close(self) -> None:
        """Stop reading. Calling it twice is harmless."""


class TopicChannel:
    """A `SignalChannel` over a topic. A new job takes records from `first_ms` on."""

    def __init__(self, topic: str, key: str, reader: TopicReader, first_ms: int) -> None:
        self._topic, self._key, self._reader, self._first_ms = topic, key.encode(), reader, first_ms
        self._inbox = Inbox(TopicPosition({}, first_ms))

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Resume after the records that the saved state has taken, if they belong to this topic."""
        before = read_text(saved["topic"]) if saved else None
        known = before == self._topic
        if before is not None and not known:
            _log.warning("signals come from the topic %r now; %r is left", self._topic, before)
        position = _position_in(saved) if known else TopicPosition({}, self._first_ms)
        self._inbox.resume(position, is_new=not known)
        self._reader.begin(position)

    def memory(self) -> Mapping[str, Any]:
        """The topic, the time from which records count, and each partition's next offset."""
        return {"topic": self._topic, **_position_out(self._inbox.saved())}

    def pending(self) -> bool:
        """Whether signals wait, or a first position to save. Records with other keys are skipped."""
        return self._filled().pending

    def receive(self) -> Sequence[Message]:
        """The messages for this job since the last call."""
        return self._filled().take()

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def _filled(self) -> Inbox[TopicPosition]:
        """The inbox, with what was read since the last call."""
        inbox = self._inbox
        for record in self._reader.take():
            inbox.position = _behind(record, inbox.position)
            label = f"{self._topic}-{record.partition}@{record.offset}"
            if record.key == self._key:
                inbox.add(Message(Channel.KAFKA, label, record.value or b""))
            else:
                _log.debug("the record at %s has another key: passed over", label)
        return inbox


def _behind(record: Record, position: TopicPosition) -> TopicPosition:
    offsets = position.offsets if record.topic_id == position.topic_id else {}
    return TopicPosition({**offsets, record.partition: record.offset + 1}, position.since_ms, record.topic_id)


def _position_out(position: TopicPosition) -> dict[str, Any]:
    offsets = {str(number): position.offsets[number] for number in sorted(position.offsets)}
    return {"id": position.topic_id, "since_ms": position.since_ms, "offsets": offsets}


def _position_in(fields: Mapping[str, Any]) -> TopicPosition:
    offsets = {
        read_integer(int(number), most=_LAST_PARTITION): read_integer(at)
        for number, at in fields["offsets"].items()
    }
    return TopicPosition(offsets, read_integer(fields["since_ms"]), read_text(fields["id"]))
