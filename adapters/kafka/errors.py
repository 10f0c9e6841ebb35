"""Kafka's errors, and what they mean to the sink: retry, refuse one topic's events, or stop."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from engine.errors import SinkError, SinkRefused

_FINAL: Final = frozenset(
    {
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.MSG_SIZE_TOO_LARGE,
    }
)
"""Errors that no retry repairs."""
_REFUSING: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_RECORD,
        KafkaError._INVALID_DIFFERENT_RECORD,  # noqa: SLF001  its public name
        KafkaError.POLICY_VIOLATION,
    }
)
"""Errors by which one topic refuses events while the brokers accept those of others."""


_OTHER_PROTOCOL: Final = frozenset({KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001  public names
"""Signs of a reachable port with another protocol; for an unreachable port the error says more."""
# librdkafka 2.16 says the following only in words: its codes are those of any lost connection and login.
_CLOSED_BY_BROKER: Final = ("security.protocol", "isconnected")
"""What it says of a connection that could be made and was then lost, another such sign."""
_EXPIRED: Final = "not valid in current SASL state"
"""What a broker says when a login must be renewed during the first login; the next attempt may succeed."""

_PROTOCOL_HINT: Final = "look at producer.security.protocol: the port may speak TLS, SASL or neither"
_NO_KEY: Final = (
    "a compacted topic takes no record without a key: give its table a key by message.key.columns,"
    " or the topic cleanup.policy=delete"
)


MAY_WRITE: Final = "let the job's user write to the topic, and describe it"
_LOGIN_REFUSED: Final = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}  # noqa: SLF001  its public name
)


class BatchRefused(SinkError):
    """A broker refused several records together as too large; each alone may be accepted."""


class NotDelivered(SinkError):
    """The brokers acknowledged nothing for too long. `topic` is the first waiting event's, if known."""

    def __init__(self, message: str, *, topic: str | None = None, where: str = "", hint: str = "") -> None:
        super().__init__(message, where=topic or where, hint=hint)
        self.topic = topic


class TransactionEnded(SinkError):
    """A transaction has ended, and no record says why. One of these `topics` may let nobody write."""

    def __init__(self, message: str, topics: frozenset[str] = frozenset()) -> None:
        super().__init__(message, where=min(topics, default=""))
        self.topics = topics


class Reason:
    """The last error of a client's connections, and a hint. librdkafka itself keeps retrying."""

    def __init__(self) -> None:
        self._text = self.hint = ""
        self._refused = self.login_refused = False

    def __call__(self, error: KafkaError) -> None:
        """Note an error. "All brokers are down" does not replace a more specific one."""
        if error.code() in _LOGIN_REFUSED:
            self._refused = True
            self.login_refused |= _EXPIRED not in error.str()
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._text:  # noqa: SLF001  its public name
            self._text = message_of(error)
            self.hint = _PROTOCOL_HINT if _other_protocol(error) else ""

    def take_refusal(self) -> bool:
        """Forget the refused logins; returns whether there was one since the last call."""
        refused, self._refused = self._refused, False
        return refused

    def with_cause(self, text: str) -> str:
        """The text, with the known cause."""
        return f"{text} ({self._text})" if self._text else text


def _other_protocol(error: KafkaError) -> bool:
    """Whether the broker's port may speak another protocol than the client."""
    return error.code() in _OTHER_PROTOCOL or any(words in error.str() for words in _CLOSED_BY_BROKER)


def message_of(error: KafkaError) -> str:
    """An error's message, without librdkafka's prefix."""
    text = error.str()
    for speaker in ("Local: ", "Broker: "):
        text = text.removeprefix(speaker)
    return text[:1].lower() + text[1:]


def refuses(error: KafkaError) -> bool:
    """Whether an error concerns only its topic."""
    return error.code() in _REFUSING


def sink_error(error: KafkaError, text: str, where: str) -> SinkError:
    """The error to raise; SinkRefused, which stops the job, if no retry helps."""
    kind = SinkRefused if error.code() in _FINAL else SinkError
    hints = {
        KafkaError.TOPIC_AUTHORIZATION_FAILED: MAY_WRITE,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "let the job's user write and describe this"
        " transactional id and those of its name with other numbers",
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: "let the job's user write idempotently and create topics",
        KafkaError.UNKNOWN_TOPIC_OR_PART: "was the topic deleted?",
        KafkaError._UNKNOWN_TOPIC: "was the topic deleted?",  # noqa: SLF001  its public name
        KafkaError._UNKNOWN_PARTITION: "the topic has fewer partitions than before: was it recreated?",  # noqa: SLF001
        KafkaError.INVALID_RECORD: _NO_KEY,
        KafkaError._INVALID_DIFFERENT_RECORD: _NO_KEY,  # noqa: SLF001
    }
    return kind(text, where=where, hint=hints.get(error.code(), ""))
