"""The reader of the signal topic, where no broker is needed to see what it does."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from adapters.kafka.signal_topic import KafkaTopicReader
from engine.errors import ConfigError, InvariantError
from signals.channels.topic import TopicPosition

CLIENT = {"bootstrap.servers": "127.0.0.1:1", "group.id": "signals"}


def test_options_that_no_client_can_be_made_of_are_a_fault_of_the_configuration():
    with pytest.raises(ConfigError, match="the consumer of signals can't be made"):
        KafkaTopicReader(
            "asks", {**CLIENT, "ssl.ca.location": "/nowhere", "security.protocol": "ssl"}, 0.1, time.monotonic
        )


def test_a_broker_that_is_away_is_told_once_and_holds_nobody_up(caplog, monkeypatch):
    monkeypatch.setattr("adapters.kafka.signal_topic._LONGEST_PAUSE_S", 0.05)
    reader = KafkaTopicReader("asks", CLIENT, 0.1, time.monotonic)
    since = time.monotonic()
    reader.begin(TopicPosition({}, 0))
    assert reader.take() == ()
    assert time.monotonic() - since < 10
    while not caplog.text and time.monotonic() - since < 20:
        time.sleep(0.05)
    time.sleep(0.5)  # it tries several times more
    reader.close()
    reader.close()

    assert caplog.text.count("signals can't be read from the topic 'asks'") == 1
    assert "Connection refused" in caplog.text


def test_a_call_that_fails_alone_is_no_outage(monkeypatch: pytest.MonkeyPatch, caplog):
    faults = ["leader", None, "down", "down", "down"]

    def assign(self: KafkaTopicReader) -> None:
        self._ends = len(faults) == 1
        if fault := faults.pop(0):
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, fault))

    monkeypatch.setattr(KafkaTopicReader, "_assign_new", assign)
    monkeypatch.setattr(KafkaTopicReader, "_rest", lambda *_args: None)
    monkeypatch.setattr("adapters.kafka.signal_topic._PARTITIONS_EVERY_S", 0.0)
    reader = KafkaTopicReader("asks", {**CLIENT, "bootstrap.servers": ""}, 0.1, time.monotonic)
    reader.begin(TopicPosition({}, 0))
    until = time.monotonic() + 20
    while faults and time.monotonic() < until:
        time.sleep(0.01)
    reader.close()

    assert [record.message for record in caplog.records] == [
        "signals can't be read from the topic 'asks': down; trying again"
    ]


def test_a_reader_that_has_died_says_so(monkeypatch: pytest.MonkeyPatch):
    def die(_self: KafkaTopicReader, _begun: int) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(KafkaTopicReader, "_begin_again", die)
    reader = KafkaTopicReader("asks", CLIENT, 0.1, time.monotonic)
    reader.begin(TopicPosition({}, 0))
    reader.close()

    with pytest.raises(InvariantError) as caught:
        reader.take()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
