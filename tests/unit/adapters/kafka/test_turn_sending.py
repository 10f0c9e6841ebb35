"""What a turn knows of its topics once they are found."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Node, TopicPartitionInfo

from adapters.kafka import topics as kafka_topics
from adapters.kafka.settings import KafkaSettings
from adapters.kafka.turn_sending import ONE_PRODUCER, TurnSending
from adapters.spark.executors import LocalExecutors

if TYPE_CHECKING:
    from confluent_kafka import TopicCollection


class Admin:
    """An administrator of brokers that have some topics, and create none. Its clock goes on when it waits."""

    def __init__(self, *topics: str) -> None:
        self.topics, self.now_s = topics, 0.0

    def poll(self, seconds: float) -> None:
        self.now_s += seconds

    def list_topics(self, _topic: str, **_options: Any) -> None:
        """Create nothing."""

    def describe_topics(self, asked: TopicCollection, **_options: Any) -> dict[str, Future[Any]]:
        return {topic: self._answer(topic) for topic in asked.topic_names}

    def _answer(self, topic: str) -> Future[Any]:
        answer: Future[Any] = Future()
        if topic in self.topics:
            answer.set_result(Description(topic))
        else:
            answer.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return answer


class Description:
    """What brokers say of a topic."""

    def __init__(self, topic: str) -> None:
        node = Node(0, "host", 9092)
        self.partitions, self.topic_id = [TopicPartitionInfo(0, node, [node], [node])], f"id of {topic}"


def test_topics_that_were_found_stay_known_while_a_missing_one_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    admin = Admin("orders", "dead")
    monkeypatch.setattr(kafka_topics, "create_client", lambda _kind, _config: admin)
    settings = KafkaSettings(dead_letter_topic="dead", create_topics=False)
    sending = TurnSending(settings, LocalExecutors(), ONE_PRODUCER, None, lambda: admin.now_s)

    assert sending.ensure_topics(["orders", "missing"]).keys() == {"missing"}
    assert admin.now_s > 10
    assert sending.topics.partitions("orders") == 1
