"""A delivery that is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.kafka.producers import delivery as module
from adapters.kafka.producers.delivery import Delivery
from adapters.kafka.settings import KafkaSettings

if TYPE_CHECKING:
    import pytest


class Slow:
    """A producer with records in its queue and in flight, of which each flush sees one answered."""

    def __init__(self, queued: int, in_flight: int) -> None:
        self.queued, self.in_flight, self.answered = queued, in_flight, 0

    def __len__(self) -> int:
        return self.queued + self.in_flight

    def purge(self, *, in_flight: bool = True) -> None:
        self.queued = 0
        self.in_flight *= not in_flight

    def flush(self, _seconds: float) -> int:
        if self.in_flight:
            self.in_flight, self.answered = self.in_flight - 1, self.answered + 1
        return len(self)

    def close(self) -> None: ...


def test_it_sends_nothing_more_and_waits_for_the_answers_to_what_is_in_flight(
    monkeypatch: pytest.MonkeyPatch,
):
    producer = Slow(queued=5, in_flight=3)
    monkeypatch.setattr(module, "create_client", lambda *_given: producer)
    Delivery(KafkaSettings()).close()

    assert (len(producer), producer.answered) == (0, 3)


def test_it_does_not_wait_longer_than_brokers_may_be_silent(monkeypatch: pytest.MonkeyPatch):
    producer = Slow(queued=0, in_flight=3)
    monkeypatch.setattr(module, "create_client", lambda *_given: producer)
    Delivery(KafkaSettings({"delivery.timeout.ms": "0"})).close()

    assert (len(producer), producer.answered) == (0, 0)
