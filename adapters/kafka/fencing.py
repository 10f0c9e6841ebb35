"""Producers that a job's successor can stop: each has a transactional id, whose last owner alone may send.

Owns the ids, and how they are taken over. Without them a job that was frozen amid a turn and replaced may
still send the rest of that turn when it goes on: it learns that its lease is lost only before its next step.
With them the brokers refuse all of that, and throw away what was not committed.

The ids are numbered below one name, which is kept in the state with their number: number 0 is the driver's
producer, the others are those of tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from adapters.kafka.client import Reason, client, opened, said, sink_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.config.settings import KafkaSettings
    from engine.errors import SinkError

_TIMEOUT_S: Final = 20.0
_TRANSACTION_MS: Final = "900000"
"""How long a turn may take to be sent: the most that brokers allow unless they are told otherwise."""
_NAME: Final = "/transactional.id"
_COUNT: Final = "/transactional.ids"
"""No topic's name has a slash."""


def is_fence(name: str) -> bool:
    """Whether this entry of a saved state is the ids'; others are named by topics."""
    return name in {_NAME, _COUNT}


class Fence:
    """The transactional ids of a sink: `name` and a number below `count`."""

    def __init__(self, settings: KafkaSettings, name: str, count: int) -> None:
        self._settings, self._name, self._count = settings, name, count
        self._ours = False

    def resume(self, saved: Mapping[str, str]) -> None:
        """Take up the ids that a saved state tells of."""
        self._name = saved.get(_NAME, self._name)
        self._count = max(self._count, int(saved.get(_COUNT, "0")))

    def memory(self) -> dict[str, str]:
        """What to keep of them with the state."""
        return {_NAME: self._name, _COUNT: str(self._count)}

    def id(self, number: int) -> str:
        """The id of one of the producers."""
        return f"{self._name}-{number}"

    def take(self) -> None:
        """Stop whoever has the ids, unless they are ours already. Raises SinkError."""
        if self._ours:
            return
        for number in range(self._count):
            reason = Reason()
            producer = opened(Producer, transactional(self._settings, self.id(number), reason))
            try:
                begin(producer, self.id(number), reason)
            finally:
                producer.close()
        self._ours = True

    def lose(self) -> None:
        """Something has failed: what is under way of it is stopped before anything else is sent."""
        self._ours = False


def transactional(settings: KafkaSettings, id_: str, reason: Reason) -> dict[str, object]:
    """A client's configuration, for a producer of this id."""
    config = client(settings.client, reason)
    timeout_ms = settings.client.get("transaction.timeout.ms", _TRANSACTION_MS)
    return {**config, "transactional.id": id_, "transaction.timeout.ms": timeout_ms}


def begin(producer: Producer, id_: str, reason: Reason) -> None:
    """Make a producer the only one of its id. Raises SinkError."""
    try:
        producer.init_transactions(_TIMEOUT_S)
    except KafkaException as exc:
        raise failed(exc.args[0], "is not ours", id_, reason) from exc


def fatal_in(raised: BaseException | None) -> KafkaError | None:
    """The error that ended a producer, where that is what was raised."""
    while raised is not None:
        error = raised.args[0] if raised.args else None
        if isinstance(error, KafkaError):
            return error if error.fatal() else None
        raised = raised.__cause__ or raised.__context__
    return None


def failed(error: KafkaError, what: str, id_: str, reason: Reason) -> SinkError:
    """The error to raise where a step of a transaction fails."""
    return sink_error(error, reason.behind(f"the transactional id {what}: {said(error)}"), id_)
