"""What follows for the records of a transaction that ends."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from adapters.kafka.errors import BatchRefused, TransactionEnded
from adapters.kafka.producers.undelivered import UndeliveredRecords
from adapters.kafka.settings import KafkaSettings
from engine.errors import SinkError, TopicsRefused

ENDED = KafkaError(KafkaError._STATE)
PURGED = KafkaError(KafkaError._PURGE_QUEUE)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
REFUSED = KafkaError(KafkaError.INVALID_RECORD)
TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)


class Sent:
    """A record that a producer took; a message of the client can't be made."""

    def __init__(self, topic: str, key: bytes = b"k", size: int = 2) -> None:
        self._topic, self._key, self._size = topic, key, size

    def topic(self) -> str:
        return self._topic

    def value(self) -> bytes:
        return b"x" * self._size

    def key(self) -> bytes:
        return self._key

    def partition(self) -> int:
        return 0


@pytest.fixture
def aside() -> list[bytes | None]:
    return []


@pytest.fixture
def records(aside) -> UndeliveredRecords:
    settings = KafkaSettings(dead_letter_topic="dead")
    return UndeliveredRecords(settings, lambda record, _headers: aside.append(record[2]), aborts=True)


def unsent(records: UndeliveredRecords, topic: str, error: KafkaError) -> None:
    records.note_unsent((topic, b"{}", b"k"), error)


def test_the_end_alone_sets_nothing_aside_and_names_all_that_may_be_the_cause(records, aside):
    unsent(records, "large", TOO_LARGE)
    unsent(records, "a", ENDED)
    records.note(PURGED, Sent("b"))

    assert records.lacks_cause
    with pytest.raises(TransactionEnded, match="3 events were not delivered") as raised:
        records.settle()
    assert raised.value.topics == {"large", "a", "b"}
    assert (aside, records.refused) == ([], {})


@pytest.mark.parametrize("first", [True, False])
def test_a_refusal_is_the_cause_whenever_it_is_noted(records, first):
    if first:
        records.note(REFUSED, Sent("a"))
    unsent(records, "b", ENDED)
    if not first:
        assert records.lacks_cause
        records.note(REFUSED, Sent("a"))

    assert not records.lacks_cause
    records.settle()
    assert records.refused.keys() == {"a"}
    unsent(records, "b", ENDED)
    records.settle()
    assert records.refused.keys() == {"a"}


def test_a_record_too_large_for_the_broker_is_the_cause(records, aside):
    records.note(TOO_LARGE, Sent("a"))
    unsent(records, "b", ENDED)

    assert not records.lacks_cause
    records.settle()
    assert (aside, records.refused.keys()) == ([], {"a"})


def test_any_other_error_fails_the_delivery(records):
    unsent(records, "b", ENDED)
    records.note(TIMED_OUT, Sent("a"))

    assert not records.lacks_cause
    with pytest.raises(SinkError, match=r"^a: 2 events were not delivered"):
        records.settle()


@pytest.fixture
def batched(aside) -> UndeliveredRecords:
    settings = KafkaSettings({"batch.size": "1000"}, dead_letter_topic="dead")
    return UndeliveredRecords(settings, lambda record, _headers: aside.append(record[2]), aborts=False)


def test_records_larger_than_a_batch_are_each_set_aside(batched, aside):
    for key in (b"1", b"2"):
        batched.note(TOO_LARGE, Sent("a", key, 1000))
    batched.note(TOO_LARGE, Sent("a", b"alone in its batch", 900))
    batched.settle()

    assert aside == [b"1", b"2", b"alone in its batch"]


def test_records_that_may_share_a_batch_are_sent_again_in_smaller_ones(batched, aside):
    for size in (400, 500):
        batched.note(TOO_LARGE, Sent("a", size=size))
    batched.note(TOO_LARGE, Sent("a", size=1000))

    with pytest.raises(BatchRefused, match="a batch of 2 records"):
        batched.settle()
    assert aside == []


def test_a_record_too_large_for_the_producer_is_set_aside(records, aside):
    unsent(records, "a", TOO_LARGE)

    assert not records.lacks_cause
    records.settle()
    assert (aside, records.refused) == ([b"k"], {})


def test_a_record_that_the_topic_for_dead_letters_refuses_is_refused_by_its_own():
    def refuse(record: tuple[str, object, object], _headers: object) -> None:
        raise TopicsRefused({record[0]: SinkError("the topic refuses events: not allowed", where=record[0])})

    records = UndeliveredRecords(KafkaSettings(dead_letter_topic="dead"), refuse, aborts=False)
    unsent(records, "a", TOO_LARGE)
    records.settle()

    assert str(records.refused["a"]).startswith(
        "a: the event of 3 bytes with the key 'k' is too large, and its dead letter was not taken:"
        " dead: the topic refuses events: not allowed"
    )
