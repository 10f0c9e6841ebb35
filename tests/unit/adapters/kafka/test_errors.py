"""What is said when a broker or the library refuses: the reason, where, and what to do."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from adapters.kafka.errors import said, sink_error

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

    told = str(sink_error(error, f"1 of 2 records was not delivered: {said(error)}", TOPIC))

    assert TOPIC in told
    assert hint in told
    assert "\n" not in told
    assert "Local: " not in told
