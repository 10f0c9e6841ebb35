"""Reads the records of a topic into files of a turn each, with the lines of the files sink. Runs in tasks.

A turn's records of a partition go into parts of their own, so lines are in the order of the partition. Only
events that consumers may see are read: none of a transaction that was aborted.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from adapters.kafka.client import with_login
from adapters.kafka.errors import message_of
from adapters.staging.turn_names import turn_name
from engine.errors import SourceError, TidemarkError
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from confluent_kafka import Message

    from adapters.kafka.settings import KafkaSettings
    from adapters.verify.events.turn_ends import Turns
    from engine.clock import Clock

_AT_ONCE: Final = 10_000
_PART_BYTES: Final = 64 << 20
PARTS: Final = 1_000_000
"""How many numbers of parts a partition has."""
_WAIT_S: Final = 0.2
_SILENCE_S: Final = 30
_DECIDED_S: Final = 0.02
_OWN: Final = {
    "group.id": "tidemark-verify",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "enable.partition.eof": False,
    "allow.auto.create.topics": False,
    "log_level": 0,
}
_PRODUCERS: Final = ("acks", "batch.", "compression.", "delivery.", "linger.", "max.in.flight", "partitioner")
"""How options begin that consumers have no use for."""


@dataclass(frozen=True, slots=True)
class Share:
    """The records of a partition from an offset on, up to before `end`. `parts`: parts it has already."""

    partition: int
    begin: int
    end: int
    turns: Turns
    parts: int = 0


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """The task that reads a share into files below `directory`. Returns how many parts it has made."""

    settings: KafkaSettings
    topic: str
    directory: str

    def __call__(self, share: Share) -> int:
        """Read the records. Raises SourceError."""
        try:
            with closing(Consumer({**_options(self.settings), **_OWN})) as consumer:
                return self._read(consumer, share)
        except KafkaException as error:
            raise _failed(error, self.topic) from error

    def _read(self, consumer: Consumer, share: Share) -> int:
        place = TopicPartition(self.topic, share.partition, share.begin)
        low, _high = consumer.get_watermark_offsets(place, timeout=_SILENCE_S)
        at = max(share.begin, low)  # older records were removed
        consumer.assign([TopicPartition(self.topic, share.partition, at)])
        parts = _Parts(self.directory, share)
        silent = 0
        try:
            while at < share.end:
                messages = consumer.consume(min(_AT_ONCE, share.end - at), _WAIT_S)
                if messages:
                    silent, at = 0, parts.write(self.topic, messages)
                    continue
                silent += 1
                if silent * _WAIT_S > _SILENCE_S:
                    raise SourceError(
                        f"nothing came after offset {at} of {share.end}",
                        where=f"{self.topic}-{share.partition}",
                    )
                (place,) = consumer.position([place])
                at = max(at, place.offset)  # the last offsets may not be records
        finally:
            parts.close()
        return parts.made


class _Parts:
    """Writes lines into parts: a new one for each turn, and for each `_PART_BYTES`."""

    def __init__(self, directory: str, share: Share) -> None:
        self._directory, self._share = directory, share
        self._file: Any = None
        self._size = self._end = self.made = 0

    def write(self, topic: str, messages: Sequence[Message]) -> int:
        """Write records that follow one another; returns the offset behind them."""
        begin = b'{"topic":' + orjson.dumps(topic) + b',"key":'
        offset = self._share.begin
        lines: list[bytes] = []
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
            offset = message.offset() or 0
            if offset >= self._share.end:
                break
            if offset >= self._end or self._size > _PART_BYTES:
                self._put(lines)
                self._next(offset)
            key, value = message.key(), message.value()
            lines.append(b'%b%b,"value":%b}\n' % (begin, _json(key), _json(value)))
        self._put(lines)
        return offset + 1

    def _put(self, lines: list[bytes]) -> None:
        if lines:
            content = b"".join(lines)
            with sink_errors(self._directory):
                self._file.write(content)
            self._size += len(content)
            lines.clear()

    def _next(self, offset: int) -> None:
        self.close()
        turn, self._end = self._share.turns.of(offset)
        number = self._share.partition * PARTS + self._share.parts + self.made
        directory = Path(self._directory) / turn_name(turn)
        with sink_errors(self._directory):
            directory.mkdir(parents=True, exist_ok=True)
            self._file = (directory / f"part-{number:05d}.jsonl").open("wb")
        self._size = 0
        self.made += 1

    def close(self) -> None:
        """Close the part."""
        if self._file is not None:
            with sink_errors(self._directory):
                self._file.close()
            self._file = None


class TopicEnds:
    """Asks where partitions end. Used by the job's thread alone."""

    def __init__(self, settings: KafkaSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._admin: AdminClient | None = None

    def of(self, topic: str) -> Mapping[int, int]:
        """The ends of a topic's partitions, for consumers; none without the topic. Raises SourceError."""
        try:
            return self._asked(topic)
        except KafkaException as error:
            self._admin = None
            raise _failed(error, topic) from error

    def _asked(self, topic: str) -> Mapping[int, int]:
        """The ends, once all transactions that have written so far are decided."""
        if self._admin is None:
            self._admin = AdminClient({**_options(self._settings), "log_level": 0})
        # Asked each time, since partitions may be added.
        partitions = self._admin.list_topics(topic, timeout=_SILENCE_S).topics[topic].partitions
        if not partitions:
            return {}
        written = _ends(self._admin, topic, partitions, IsolationLevel.READ_UNCOMMITTED)
        until = self._clock.monotonic() + _SILENCE_S
        # A producer is told that its transaction is committed before the partitions are.
        while True:
            found = _ends(self._admin, topic, partitions, IsolationLevel.READ_COMMITTED)
            if all(found[number] >= end for number, end in written.items()):
                return found
            if self._clock.monotonic() > until:
                hint = "look for producers that have begun one and not ended it"
                raise SourceError("a transaction in it stays open", where=topic, hint=hint)
            self._clock.sleep(_DECIDED_S)  # less once the job is to stop: this turn's ends are still noted

    def forget(self) -> None:
        """Drop the connections."""
        self._admin = None


def _ends(
    admin: AdminClient, topic: str, partitions: Iterable[int], level: IsolationLevel
) -> Mapping[int, int]:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client's own
    places = {TopicPartition(topic, number): latest for number in partitions}
    asked = admin.list_offsets(places, isolation_level=level, request_timeout=_SILENCE_S)
    return {place.partition: future.result().offset for place, future in asked.items()}


def _options(settings: KafkaSettings) -> dict[str, Any]:
    """The options of the sink's producers that consumers have, too. Raises SourceError."""
    try:
        options = with_login(settings.client)
    except TidemarkError as error:
        raise error.recast(SourceError) from error
    return {name: value for name, value in options.items() if not name.startswith(_PRODUCERS)}


def _json(text: bytes | str | None) -> bytes:
    """JSON as it stands; a missing key or value is null."""
    if text is None:
        return b"null"
    return text.encode() if isinstance(text, str) else text


def _failed(error: KafkaException, topic: str) -> SourceError:
    return SourceError(f"the topic can't be read: {message_of(error.args[0])}", where=topic)
