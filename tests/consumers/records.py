"""Records as a consumer of Kafka has them, and Java programs that read them.

A program gets the records as JSON lines on its standard input, bytes in base64, and answers with lines.
"""

from __future__ import annotations

import subprocess
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tests.servers.java import compiled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from confluent_kafka import Message

    from tests.servers.kafka import KafkaBroker


CONSUMER = Path(__file__).with_name("Consumer.java")


@dataclass(frozen=True, slots=True)
class Record:
    """One record: bytes, or None for null."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def line(self) -> bytes:
        """The record as a line for a program."""
        headers = [[name, _text(value)] for name, value in self.headers]
        return orjson.dumps(
            {"topic": self.topic, "key": _text(self.key), "value": _text(self.value), "headers": headers}
        )


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def consumed(broker: KafkaBroker, topics: Iterable[str]) -> list[Record]:
    """Every record of these topics, in order within each."""
    return [_record(topic, record) for topic in topics for record in broker.records(topic)]


def _record(topic: str, message: Message) -> Record:
    headers: Any = message.headers() or []
    return Record(topic, _bytes(message.key()), _bytes(message.value()), tuple(headers))


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def answers(
    source: Path, libraries: Sequence[Path], records: Iterable[Record], *arguments: str
) -> list[dict[str, Any]]:
    """What a program says about records. Raises RuntimeError with the end of what it complains of."""
    command = ["java", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8"]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-cp", compiled(source, *libraries), source.stem, *arguments]
    done = subprocess.run(
        command, input=b"\n".join(record.line() for record in records), capture_output=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{source.stem} fails: {done.stderr.decode(errors='replace')[-3000:]}")
    return [orjson.loads(line) for line in done.stdout.splitlines()]
