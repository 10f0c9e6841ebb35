"""Where notifications about snapshots go: the enabled channels, and what each needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.config.settings import NotificationChannel, NotificationSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values

_CHANNELS = "notification.enabled.channels"
_NEEDS = {
    NotificationChannel.SINK: ("notification.sink.topic.name", "the topic of the notifications in the sink"),
    NotificationChannel.WEBHOOK: ("tidemark.notification.webhook.url", "the address of the webhook"),
}
"""The property that a channel can't do without, and what it means."""


def notification_settings(values: Values) -> NotificationSettings:
    """Compose the settings."""
    return NotificationSettings(
        channels=_channels(values),
        topic=values.get("notification.sink.topic.name", str),
        webhook=values.get("tidemark.notification.webhook.url", str),
    )


def incomplete_notifications(values: Values) -> Iterator[str]:
    """Yield what an enabled channel lacks."""
    for channel, (name, meaning) in _NEEDS.items():
        if channel in _channels(values) and values.sure(name) and not values.get(name, str):
            yield f"missing {name!r}: {meaning}, which {_CHANNELS!r} asks for"


def idle_notifications(values: Values) -> Iterator[str]:
    """Warn about the channel that does nothing here, and about settings of channels that are off."""
    if "jmx" in values.get(_CHANNELS, frozenset):
        yield "the notification channel jmx (there is no JMX)"
    for channel, (name, _meaning) in _NEEDS.items():
        if channel not in _channels(values) and name in values.given:
            yield f"{name} (the notification channel {channel} is off)"


def _channels(values: Values) -> frozenset[NotificationChannel]:
    named = values.get(_CHANNELS, frozenset)
    return frozenset(channel for channel in NotificationChannel if channel in named)
