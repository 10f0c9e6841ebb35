"""How the sink's clients are set up, and how Kafka's errors become ours.

Owns what a producer must be for events to arrive once in a while twice but never out of order or not at
all, whatever the operator's options say. The options' translation is `engine.config.kafka`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from adapters.kafka.credentials import with_login
from engine.errors import ConfigError, SinkError, SinkRefused, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_STANDARD: Final = {
    "client.id": "tidemark",
    "linger.ms": "5",
    "message.max.bytes": "1048576",
    "delivery.timeout.ms": "30000",
    "reconnect.backoff.max.ms": "1000",
    "batch.size": "1000000",
    # How long a topic may be unknown: one that is written to was there a moment ago.
    "topic.metadata.propagation.max.ms": "3000",
}
_FIXED: Final = {
    "acks": "all",
    "enable.idempotence": True,
    # The same key lies in the same partition as with Java's clients.
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
    "queue.buffering.max.messages": 0,
    "log_level": 0,  # errors come by the callback
}
_BUFFER_KB: Final = 64 << 10
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
"""What no retry mends."""
_REFUSING: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_RECORD,
        KafkaError._INVALID_DIFFERENT_RECORD,  # noqa: SLF001  its public name
        KafkaError.POLICY_VIOLATION,
    }
)
"""What one topic refuses while the brokers take others' events."""


_OTHER_PROTOCOL: Final = ("security.protocol", "SSL handshake", "isconnected", "brokers are down")
"""Signs of a port that is reached and speaks otherwise; of one that is not reached more is told."""
_PROTOCOL_HINT: Final = "look at producer.security.protocol: the port may speak TLS, SASL or neither"
_NO_KEY: Final = (
    "a compacted topic takes no record without a key: give its table a key by message.key.columns,"
    " or the topic cleanup.policy=delete"
)


MAY_WRITE: Final = "let the job's user write to the topic, and describe it"
_LOGIN_REFUSED: Final = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}  # noqa: SLF001  its public name
)


_EXPIRED: Final = "not valid in current SASL state"
"""What a broker says that wants a login renewed amid the first one: the next attempt may pass."""


class BatchRefused(SinkError):
    """A broker found several records together too large; each alone may not be."""


class NotDelivered(SinkError):
    """Nothing was acknowledged for too long; `place` is a topic."""


class Reason:
    """The last thing that went wrong with a client's connections; librdkafka tries on by itself."""

    def __init__(self) -> None:
        self._text = ""
        self._refused = self.login_refused = False

    def __call__(self, error: KafkaError) -> None:
        """Note an error; that every broker is down says less than why one is."""
        if error.code() in _LOGIN_REFUSED:
            self._refused = True
            self.login_refused |= _EXPIRED not in error.str()
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._text:  # noqa: SLF001  its public name
            self._text = said(error)

    def refused(self) -> bool:
        """Whether a login was refused since this was asked last."""
        refused, self._refused = self._refused, False
        return refused

    @property
    def hint(self) -> str:
        """What to do about it."""
        return _PROTOCOL_HINT if any(sign in self._text for sign in _OTHER_PROTOCOL) else ""

    def behind(self, text: str) -> str:
        """The text, with what is known of the cause."""
        return f"{text} ({self._text})" if self._text else text


def _credentials(settings: Mapping[str, str]) -> dict[str, Any]:
    try:
        return with_login(settings)
    except SourceError as exc:
        raise SinkError(exc.message, place=exc.place) from exc


def client(settings: Mapping[str, str], reason: Reason) -> dict[str, Any]:
    """A client's whole configuration, with credentials as they are now. Raises SinkError without them."""
    config: dict[str, Any] = {**_STANDARD, **_credentials(settings), **_FIXED, "error_cb": reason}
    largest_kb = 2 * int(config["message.max.bytes"]) >> 10
    config.setdefault("queue.buffering.max.kbytes", max(_BUFFER_KB, largest_kb))
    return config


def batch_bytes(settings: Mapping[str, str]) -> int:
    """How large a batch may grow; a larger record is a batch of its own."""
    return int(settings.get("batch.size", _STANDARD["batch.size"]))


def opened(kind: Callable[[dict[str, Any]], Any], config: dict[str, Any]) -> Any:
    """Make a client. It connects by itself later; what its options lack shows now."""
    try:
        return kind(config)
    except KafkaException as exc:
        text = said(exc.args[0]).strip().replace("\n", "; ")
        raise ConfigError(f"the sink 'kafka' can't be set up: {text}") from exc


def said(error: KafkaError) -> str:
    """What an error says, without librdkafka's word for who says it."""
    text = error.str()
    for speaker in ("Local: ", "Broker: "):
        text = text.removeprefix(speaker)
    return text[:1].lower() + text[1:]


def refuses(error: KafkaError) -> bool:
    """Whether an error concerns its topic alone."""
    return error.code() in _REFUSING


def sink_error(error: KafkaError, text: str, place: str) -> SinkError:
    """The error to raise: one that stops the job where no retry helps."""
    kind = SinkRefused if error.code() in _FINAL else SinkError
    hints = {
        KafkaError.TOPIC_AUTHORIZATION_FAILED: MAY_WRITE,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "let the job's user write and describe this"
        " transactional id and those of its name with other numbers",
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: "let the job's user write idempotently and create topics",
        KafkaError.UNKNOWN_TOPIC_OR_PART: "was the topic deleted?",
        KafkaError._UNKNOWN_TOPIC: "was the topic deleted?",  # noqa: SLF001  its public name
        KafkaError._UNKNOWN_PARTITION: "the topic has fewer partitions than before: was it made anew?",  # noqa: SLF001
        KafkaError.INVALID_RECORD: _NO_KEY,
        KafkaError._INVALID_DIFFERENT_RECORD: _NO_KEY,  # noqa: SLF001
    }
    return kind(text, place=place, hint=hints.get(error.code(), ""))
