"""Where partitions end for consumers, by a server that decides transactions a moment later."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import IsolationLevel

from adapters.kafka.settings import KafkaSettings
from adapters.verify.events.topic_records import TopicEnds
from engine.errors import SourceError
from tests.hand_clock import HandClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import TopicPartition


class Broker:
    """A partition with records up to `written`; what consumers may see of it moves on when it is asked."""

    def __init__(self, written: int, decided: list[int]) -> None:
        self.written, self.decided = written, decided

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert timeout
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: None})})

    def list_offsets(
        self, places: Mapping[TopicPartition, Any], isolation_level: IsolationLevel, request_timeout: float
    ) -> Mapping[TopicPartition, Future[Any]]:
        assert request_timeout
        offset = self.written
        if isolation_level is IsolationLevel.READ_COMMITTED:
            offset = self.decided.pop(0) if len(self.decided) > 1 else self.decided[0]
        found: Future[Any] = Future()
        found.set_result(SimpleNamespace(offset=offset))
        return dict.fromkeys(places, found)


def ends_of(broker: Broker) -> TopicEnds:
    ends = TopicEnds(KafkaSettings({"bootstrap.servers": "127.0.0.1:1"}), HandClock().clock)
    ends._admin = broker  # type: ignore[assignment] # what is asked of it
    return ends


def test_what_a_transaction_has_written_counts_once_the_brokers_have_decided_it():
    assert ends_of(Broker(8, [5, 5, 8])).of("t") == {0: 8}


def test_records_that_come_later_are_not_waited_for():
    assert ends_of(Broker(8, [9])).of("t") == {0: 9}


def test_a_transaction_that_stays_open_is_no_end():
    with pytest.raises(SourceError, match="t: a transaction in it stays open"):
        ends_of(Broker(8, [5])).of("t")
