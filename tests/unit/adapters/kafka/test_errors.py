"""What is said when a broker or the library refuses: the reason, where, and what to do."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from adapters.kafka.errors import Reason, message_of, sink_error

TOPIC = "shop.public.orders"


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (KafkaError._UNKNOWN_PARTITION, "the topic has fewer partitions than before: was it recreated?"),
        (KafkaError._UNKNOWN_TOPIC, "was the topic deleted?"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "was the topic deleted?"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "let the job's user write"),
        (KafkaError.INVALID_RECORD, "a compacted topic takes no record without a key"),
    ],
)
def test_a_refusal_is_one_line_that_names_the_topic_and_what_to_do(code, hint):
    error = KafkaError(code)

    told = str(sink_error(error, f"1 of 2 records was not delivered: {message_of(error)}", TOPIC))

    assert TOPIC in told
    assert hint in told
    assert "\n" not in told
    assert "Local: " not in told


@pytest.mark.parametrize(
    ("code", "text", "hinted"),
    [
        (KafkaError._SSL, "broker:9092/bootstrap: SSL handshake failed: wrong version number", True),
        (KafkaError._TRANSPORT, "broker:9092/bootstrap: Disconnected while requesting ApiVersion", True),
        (KafkaError._TRANSPORT, "verify that security.protocol is correctly configured", True),
        (KafkaError._TRANSPORT, "broker:9092/bootstrap: Connect to ipv4#… failed: Connection refused", False),
        (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down", True),
    ],
)
def test_a_port_that_answers_in_another_protocol_brings_a_hint(code: int, text: str, *, hinted: bool):
    reason = Reason()
    reason(KafkaError(code, text))

    assert ("producer.security.protocol" in reason.hint) is hinted


def test_that_all_brokers_are_down_is_no_better_reason_than_a_known_one():
    reason = Reason()
    reason(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    reason(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))

    assert (reason.hint, reason.with_cause("x")) == ("", "x (connection refused)")
