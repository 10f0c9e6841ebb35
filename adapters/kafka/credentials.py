"""Credentials of Kafka clients: current when a client is created, and renewed while it lives.

librdkafka keeps the credentials that it is given and logs in with them at each reconnect. `renew` passes a
changed password to it. For tokens, librdkafka itself asks for a new one before the old one expires, as long
as its client is polled.
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
    """librdkafka's callback: returns a token and its expiry.

    `line` is the JAAS line that yields the token.
    """

    line: str = field(repr=False)

    def __call__(self, _config: str) -> tuple[str, float]:
        """Get a token. Raises SourceError; librdkafka retries."""
        token = token_in(self.line)
        return token, expiry(token)


def with_login(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A client's options with the current credentials.

    Raises SourceError if a provider has none, ConfigError if what it has can't be used.
    """
    try:
        config: dict[str, Any] = logged_in(settings)
        line = token_line(settings)
        if line:
            token_in(line)  # reports a failure by name; librdkafka would only report a timeout
            config["oauth_cb"] = Token(line)
    except ValueError as error:
        raise ConfigError(f"{LINE!r} can't be read; it must be {error}") from error
    return config


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
        refuse()
    config = with_login(settings)
    if "sasl.password" in config:
        for client in clients:
            client.set_sasl_credentials(config["sasl.username"], config["sasl.password"])
