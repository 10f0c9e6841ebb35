"""Transactional ids that the brokers refuse."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from adapters.kafka.producers import fencing
from adapters.kafka.producers.fencing import Fence
from adapters.kafka.settings import KafkaSettings
from engine.errors import SinkError


class Unauthorised:
    """A producer that may not use its id; after that fatal error it raises it at every call."""

    def init_transactions(self, _timeout: float) -> None:
        self.close()

    def close(self) -> None:
        text = "Transactional Id authorization failed"
        raise KafkaException(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text))


def test_an_id_that_may_not_be_used_is_told_of_in_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fencing, "create_client", lambda *_given: Unauthorised())
    fence = Fence(KafkaSettings(), "tidemark-shop-1", 1)

    with pytest.raises(
        SinkError, match=r"^tidemark-shop-1-0: the transactional id is not ours: .*authorization"
    ):
        fence.take()
