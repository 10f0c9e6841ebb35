"""Producers that a job's successor can stop: each has a transactional id, and only its last owner may send.

Owns the ids, how they are taken over, and the steps of a transaction. Without them, a job that was frozen in
the middle of a turn and replaced may still send the rest of that turn when it wakes up: it notices the lost
lease only before its next step. With them, the brokers refuse all of that and discard what was not committed.

The ids share a name and are numbered. The name and the count of ids are kept in the state. Number 0 is the
driver's producer, the others belong to tasks.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from adapters.kafka.client import client, create_client
from adapters.kafka.errors import Reason, message_of, sink_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.kafka.settings import KafkaSettings
    from engine.errors import SinkError

_TIMEOUT_S: Final = 20.0
_TRANSACTION_MS: Final = "900000"
"""How long sending a turn may take: the brokers' default maximum."""
_NAME: Final = "/transactional.id"
_COUNT: Final = "/transactional.ids"
"""No topic's name contains a slash."""


def is_fence(name: str) -> bool:
    """Whether this entry of a saved state belongs to the ids; other entries are named after topics."""
    return name in {_NAME, _COUNT}


class Fence:
    """The transactional ids of a sink: `name` with a number below `count`.

    `is_ours`: whether they were taken, and nothing has failed since.
    """

    def __init__(self, settings: KafkaSettings, name: str, count: int) -> None:
        self._settings, self._name, self._count = settings, name, count
        self.is_ours = False

    def resume(self, saved: Mapping[str, str]) -> None:
        """Take the ids from a saved state."""
        self._name = saved.get(_NAME, self._name)
        self._count = max(self._count, int(saved.get(_COUNT, "0")))

    def memory(self) -> dict[str, str]:
        """What to save in the state."""
        return {_NAME: self._name, _COUNT: str(self._count)}

    def id(self, number: int) -> str:
        """The id of one of the producers."""
        return f"{self._name}-{number}"

    def take(self) -> None:
        """Stop the current owners of the ids, unless they are ours already. Raises SinkError."""
        if self.is_ours:
            return
        for number in range(self._count):
            reason = Reason()
            producer = create_client(Producer, transactional(self._settings, self.id(number), reason))
            try:
                begin(producer, self.id(number), reason)
            finally:
                with suppress(KafkaException):  # after a fatal error it raises that again
                    producer.close()
        self.is_ours = True

    def lose(self) -> None:
        """Note a failure: before anything else is sent, `take` stops what is still being sent."""
        self.is_ours = False


class Transactions:
    """The transactions of one producer, one after another. A step may take `timeout_s`. Raises SinkError."""

    def __init__(self, producer: Producer, id_: str, reason: Reason, timeout_s: float) -> None:
        self._producer, self._id, self._reason, self._timeout_s = producer, id_, reason, timeout_s
        self._prepared = False

    def prepare(self) -> None:
        """Make the producer the only one with its id."""
        if not self._prepared:
            begin(self._producer, self._id, self._reason)
            self._prepared = True

    def begin(self) -> None:
        """Begin a transaction."""
        self.prepare()
        self._step("does not begin", self._producer.begin_transaction)

    def end(self, *, commits: bool) -> None:
        """Commit all that was sent, or abort."""
        end = self._producer.commit_transaction if commits else self._producer.abort_transaction
        self._step("does not end", end, self._timeout_s)

    def _step(self, what: str, step: Callable[..., None], *seconds: float) -> None:
        try:
            step(*seconds)
        except (KafkaException, SystemError) as exc:
            error = exc.args[0] if isinstance(exc, KafkaException) else fatal_in(exc)
            if error is None:
                raise
            raise step_error(error, what, self._id, self._reason) from exc


def transactional(settings: KafkaSettings, id_: str, reason: Reason) -> dict[str, object]:
    """A producer's configuration with this transactional id."""
    config = client(settings.client, reason)
    timeout_ms = settings.client.get("transaction.timeout.ms", _TRANSACTION_MS)
    return {**config, "transactional.id": id_, "transaction.timeout.ms": timeout_ms}


def begin(producer: Producer, id_: str, reason: Reason) -> None:
    """Make a producer the only one with its id. Raises SinkError."""
    try:
        producer.init_transactions(_TIMEOUT_S)
    except KafkaException as exc:
        raise step_error(exc.args[0], "is not ours", id_, reason) from exc


def fatal_in(raised: BaseException | None) -> KafkaError | None:
    """The fatal error behind an exception, if a producer has ended with one.

    The binding sets it as a callback's exception. If another callback comes behind, it may be lost: then
    Python reports a call that failed without an exception, and nobody knows why the producer has ended.
    """
    if isinstance(raised, SystemError) and raised.__cause__ is None:
        return KafkaError(KafkaError._FATAL)  # noqa: SLF001  its public name
    while raised is not None:
        error = raised.args[0] if raised.args else None
        if isinstance(error, KafkaError):
            return error if error.fatal() else None
        raised = raised.__cause__ or raised.__context__
    return None


def step_error(error: KafkaError, what: str, id_: str, reason: Reason) -> SinkError:
    """The error to raise if a step of a transaction fails."""
    return sink_error(error, reason.with_cause(f"the transactional id {what}: {message_of(error)}"), id_)
