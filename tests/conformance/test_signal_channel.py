"""Every signal channel takes a signal once, whatever fails, and loses none."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from signals.channels.file import FileChannel
from signals.channels.topic import TopicChannel
from tests.fakes import MemoryTopic
from tests.toys.mailbox import BOXES, Mailbox

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from signals.channels.port import SignalChannel
    from tests.servers.kafka import KafkaBroker


class Subject:
    """A channel with its sender; `again` gives the channel of a new process."""

    def __init__(self, send: Callable[[str], None], again: Callable[[], SignalChannel]) -> None:
        self.send, self.again = send, again
        self._open: list[SignalChannel] = []

    def begun(self, saved: dict[str, Any]) -> SignalChannel:
        self._open.append(self.again())
        self._open[-1].resume(saved)
        return self._open[-1]

    def close(self) -> None:
        for channel in self._open:
            channel.close()
            channel.close()


def of_file(tmp_path: Path) -> Subject:
    path = tmp_path / "signals.jsonl"

    def send(text: str) -> None:
        with path.open("a") as file:
            file.write(f"{text}\n")

    return Subject(send, lambda: FileChannel(path))


def of_another_package() -> Subject:
    name = str(uuid4())
    box = BOXES.setdefault(name, [])
    return Subject(lambda text: box.append(text.encode()), lambda: Mailbox(name, "shop"))


def of_memory_topic() -> Subject:
    reader = MemoryTopic()
    return Subject(
        lambda text: reader.append(0, b"shop", text.encode()), lambda: TopicChannel("asks", "shop", reader, 0)
    )


def of_kafka(broker: KafkaBroker, topic: str) -> Subject:
    from adapters.kafka.signal_topic import KafkaTopicReader  # noqa: PLC0415  (tests without Kafka do not pay)

    broker.create_topic(topic)
    client = {"bootstrap.servers": broker.bootstrap, "group.id": "signals"}
    return Subject(
        lambda text: broker.send(topic, text, "shop"),
        lambda: TopicChannel(topic, "shop", KafkaTopicReader(topic, client, 0.1, time.monotonic), 0),
    )


@pytest.fixture(params=["file", "memory", "mailbox", pytest.param("kafka", marks=pytest.mark.integration)])
def subject(request: pytest.FixtureRequest, tmp_path: Path):
    if request.param == "kafka":
        subject = of_kafka(request.getfixturevalue("kafka"), request.getfixturevalue("topic"))
    elif request.param == "file":
        subject = of_file(tmp_path)
    else:
        subject = of_memory_topic() if request.param == "memory" else of_another_package()
    yield subject
    subject.close()


def received(channel: SignalChannel, count: int) -> list[bytes]:
    """So many messages, waited for; nothing else waits after them."""
    found: list[bytes] = []
    deadline = time.monotonic() + 20
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} messages came"
        if channel.pending():
            found += [message.text for message in channel.receive()]
        time.sleep(0.01)
    channel.memory()
    time.sleep(0.05)
    assert not channel.pending()
    return found


def test_messages_come_in_order_and_once(subject):
    channel = subject.begun({})
    subject.send("1")
    subject.send("2")

    assert received(channel, 2) == [b"1", b"2"]
    assert list(channel.receive()) == []


def test_a_first_place_is_to_be_saved_at_once(subject):
    channel = subject.begun({})
    assert channel.pending()
    channel.memory()

    assert not channel.pending()


def test_what_was_sent_while_the_job_was_down_is_received(subject):
    saved = dict(subject.begun({}).memory())
    subject.send("1")

    assert received(subject.begun(saved), 1) == [b"1"]


def test_what_the_saved_state_has_taken_is_not_received_again(subject):
    channel = subject.begun({})
    subject.send("1")
    received(channel, 1)
    saved = dict(channel.memory())
    subject.send("2")

    assert received(subject.begun(saved), 1) == [b"2"]


def test_after_a_failure_what_was_not_saved_is_received_again(subject):
    channel = subject.begun({})
    subject.send("1")
    received(channel, 1)
    saved = dict(channel.memory())
    subject.send("2")
    subject.send("3")
    received(channel, 2)
    channel.memory()
    channel.resume(saved)

    assert received(channel, 2) == [b"2", b"3"]


def test_what_waited_at_a_failure_comes_once(subject):
    channel = subject.begun({})
    saved = dict(channel.memory())
    subject.send("1")
    while not channel.pending():
        time.sleep(0.01)
    channel.resume(saved)

    assert received(channel, 1) == [b"1"]
