"""Transactional ids that the brokers refuse."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from adapters.kafka.errors import Reason
from adapters.kafka.producers import delivery as deliveries
from adapters.kafka.producers import fencing
from adapters.kafka.producers.delivery import Delivery
from adapters.kafka.producers.fencing import Fence, Transactions
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


class Fenced:
    """A producer that another one has replaced, and whose binding loses that error among its callbacks.

    CPython's own words for it.
    """

    def __len__(self) -> int:
        return 0

    def flush(self, _seconds: float) -> int:
        raise SystemError("<built-in method flush> returned NULL without setting an exception")

    def commit_transaction(self, _seconds: float) -> None:
        self.flush(0)

    def purge(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("id_", ["tidemark-shop-1-0", ""])
def test_a_producer_whose_end_the_binding_loses_fails_the_delivery(id_: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(deliveries, "create_client", lambda *_given: Fenced())
    delivery = Delivery(KafkaSettings(), id_)
    said = "the transactional id can't be used any more" if id_ else "nothing more can be sent"

    with pytest.raises(SinkError, match=said):
        delivery._flush()


def test_a_transaction_whose_end_the_binding_loses_fails():
    transactions = Transactions(Fenced(), "tidemark-shop-1-0", Reason(), 1.0)  # type: ignore[arg-type]

    with pytest.raises(SinkError, match="the transactional id does not end"):
        transactions.end(commits=True)
