"""Kafka clients and their credentials: as they are when a client is made, and renewed while it lives.

librdkafka keeps what it is given and logs in with it whenever it connects again. A password that has changed
is handed over by `renew`; a token is asked for by librdkafka itself, while its client is polled, before the
old one expires.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adapters.kafka.tokens import expiry
from engine.config.kafka_login import LINE, logged_in, token_in, token_line
from engine.config.references import may_change, refuse
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient


@dataclass(frozen=True, slots=True)
class Token:
    """librdkafka's callback: a token, and until when it serves. `line` is the JAAS line that gives it."""

    line: str = field(repr=False)

    def __call__(self, _config: str) -> tuple[str, float]:
        """Ask for it. Raises SourceError; librdkafka tries again."""
        token = token_in(self.line)
        return token, expiry(token)


def with_login(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A client's options with its credentials as they are now.

    Raises SourceError where a provider has none, ConfigError where what it has is of no use.
    """
    try:
        config: dict[str, Any] = logged_in(settings)
        line = token_line(settings)
        if line:
            token_in(line)  # what fails is told by its name; librdkafka would say that it took too long
            config["oauth_cb"] = Token(line)
    except ValueError as error:
        raise ConfigError(f"{LINE!r} can't be read; it must be {error}") from error
    return config


def renew(
    settings: Mapping[str, str], *clients: Producer | Consumer | AdminClient, refused: bool = True
) -> None:
    """Let clients that wait for the brokers have the password as it is now, if it may have changed.

    `refused`: the brokers have said so. librdkafka tells it once in a while alone. Raises SourceError where
    the provider has none.
    """
    if not any(map(may_change, settings.values())):
        return
    if refused:
        refuse()
    config = with_login(settings)
    if "sasl.password" in config:
        for client in clients:
            client.set_sasl_credentials(config["sasl.username"], config["sasl.password"])
