"""Configures Kafka's clients, and gives them current credentials: when they are created, and while they live.

Owns the producer settings that hold whatever the operator's options say: an event may occasionally arrive
twice, but never out of order, and none is lost. `engine.config.sinks.kafka` translates the options.

librdkafka keeps the credentials that it is given and logs in with them at each reconnect. `renew` passes a
changed password to it. For tokens, librdkafka itself asks for a new one before the old one expires, as long
as its client is polled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from adapters.kafka.errors import message_of
from adapters.kafka.tokens import expiry
from engine.config.sinks.kafka_login import LINE, login_of
from engine.config.text.references import may_change, resolve_again
from engine.config.text.refusals import note_refusal
from engine.errors import ConfigError, SinkError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

    from adapters.kafka.errors import Reason

_STANDARD: Final = {
    "client.id": "tidemark",
    "linger.ms": "5",
    "message.max.bytes": "1048576",
    "delivery.timeout.ms": "30000",
    "reconnect.backoff.max.ms": "1000",
    "batch.size": "1000000",
    # How long a topic may be unknown: one that is written to existed a moment ago.
    "topic.metadata.propagation.max.ms": "3000",
}
_FIXED: Final = {
    "acks": "all",
    "enable.idempotence": True,
    # Puts a key into the same partition as Java's clients do.
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
    "queue.buffering.max.messages": 0,
    "log_level": 0,  # errors arrive through the callback
}
_BUFFER_KB: Final = 64 << 10


def client(settings: Mapping[str, str], reason: Reason) -> dict[str, Any]:
    """A client's whole configuration, with the current credentials. Raises SinkError without them."""
    config: dict[str, Any] = {**_STANDARD, **_credentials(settings), **_FIXED, "error_cb": reason}
    largest_kb = 2 * int(config["message.max.bytes"]) >> 10
    config.setdefault("queue.buffering.max.kbytes", max(_BUFFER_KB, largest_kb))
    return config


def batch_bytes(settings: Mapping[str, str]) -> int:
    """The most bytes of a batch; a larger record is a batch of its own."""
    return int(settings.get("batch.size", _STANDARD["batch.size"]))


def create_client(kind: Callable[[dict[str, Any]], Any], config: dict[str, Any]) -> Any:
    """Create a client. It connects later by itself; missing options show now."""
    try:
        return kind(config)
    except KafkaException as exc:
        text = message_of(exc.args[0]).strip().replace("\n", "; ")
        raise ConfigError(f"the sink 'kafka' can't be set up: {text}") from exc


def _credentials(settings: Mapping[str, str]) -> dict[str, Any]:
    try:
        return with_login(settings)
    except SourceError as exc:
        raise SinkError(exc.message, where=exc.where) from exc


@dataclass(frozen=True, slots=True)
class Token:
    """librdkafka's callback: returns a token and its expiry.

    `line` is the JAAS line that yields the token.
    """

    line: str = field(repr=False)

    def __call__(self, _config: str) -> tuple[str, float]:
        """Get a token. Raises SourceError; librdkafka retries."""
        token = _token_in(self.line)
        return token, expiry(token)


def with_login(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A client's options with the current credentials.

    Raises SourceError if a provider has none, ConfigError if what it has can't be used.
    """
    try:
        config: dict[str, Any] = _logged_in(settings)
        line = _token_line(settings)
        if line:
            _token_in(line)  # reports a failure by name; librdkafka would only report a timeout
            config["oauth_cb"] = Token(line)
    except ValueError as error:
        raise ConfigError(f"{LINE!r} can't be read; it must be {error}") from error
    return config


def has_token(settings: Mapping[str, str]) -> bool:
    """Whether a client logs in by a token."""
    return bool(_token_line(settings))


def renew(
    settings: Mapping[str, str], *clients: Producer | Consumer | AdminClient, refused: bool = True
) -> None:
    """Give clients that wait for the brokers the current password, if it may have changed.

    `refused`: the brokers have refused the login; librdkafka reports that only once in a while. Raises
    SourceError if the provider has no credentials.
    """
    if not any(map(may_change, settings.values())):
        return
    if refused:
        note_refusal()
    config = with_login(settings)
    if "sasl.password" in config:
        for client in clients:
            client.set_sasl_credentials(config["sasl.username"], config["sasl.password"])


def _logged_in(config: Mapping[str, str]) -> dict[str, str]:
    """A translated configuration with all current credentials, except a token (see `_token_line`).

    Raises SourceError if a provider has none, ValueError if what it has is not a JAAS line.
    """
    now = {name: resolve_again(value) for name, value in config.items() if name != LINE}
    return {**now, **login_of(resolve_again(config[LINE])).options} if LINE in config else now


def _token_line(config: Mapping[str, str]) -> str:
    """The JAAS line that gives a token, with its references; empty if the client logs in otherwise."""
    line = config.get(LINE, "")
    return line if line and login_of(line).token else ""


def _token_in(line: str) -> str:
    """The current token of a JAAS line. Raises the same errors as `_logged_in`."""
    return login_of(resolve_again(line)).token
