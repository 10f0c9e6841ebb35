"""What is said of notifications: which channels are on, and what each needs."""

from __future__ import annotations

import pytest

from engine.config import parse
from engine.config.explain import explain
from engine.config.settings import NotificationChannel
from tests.unit.engine.config.least import POSTGRES, SQLSERVER, problems_of

CHANNELS = "notification.enabled.channels"
TOPIC = "notification.sink.topic.name"
URL = "tidemark.notification.webhook.url"


@pytest.mark.parametrize("least", [POSTGRES, SQLSERVER])
def test_every_channel_is_taken_with_what_it_needs(least: dict[str, str]):
    given = {CHANNELS: "sink, log,webhook", TOPIC: "notices", URL: "https://u:pw@hooks.example:8443/a?b=c"}
    settings = parse(least | given).notifications

    assert settings.channels == frozenset(NotificationChannel)
    assert settings.topic == "notices"
    assert settings.webhook == given[URL]


def test_by_default_no_channel_is_on():
    assert parse(POSTGRES).notifications.channels == frozenset()


def test_the_sink_needs_a_topic_and_the_webhook_an_address():
    said = "\n".join(problems_of(POSTGRES, {CHANNELS: "sink,webhook"}))

    assert f"missing {TOPIC!r}: the topic of the notifications in the sink" in said
    assert f"missing {URL!r}: the address of the webhook" in said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (CHANNELS, "sink,pigeon", "a list of sink, log, webhook, jmx"),
        (TOPIC, "a topic", "letters, digits, hyphens, dots and underscores"),
        (URL, "ftp://host/x", "an address such as https://"),
        (URL, "http://host:port/x", "an address such as https://"),
        (URL, "http://host:70000/x", "an address such as https://"),
        (URL, "http://[::1:8080/x", "an address such as https://"),
        (URL, "http://[x@host/x", "an address such as https://"),
    ],
)
def test_what_can_not_be_meant_is_refused(name: str, value: str, said: str):
    (problem,) = problems_of(POSTGRES, {name: value})

    assert said in problem


def test_jmx_is_named_as_without_effect():
    (warning,) = (line for line in parse(POSTGRES | {CHANNELS: "jmx,log"}).warnings if "jmx" in line)

    assert "the notification channel jmx (there is no JMX)" in warning


def test_settings_of_a_channel_that_is_off_are_named_as_without_effect():
    warnings = "\n".join(parse(POSTGRES | {TOPIC: "notices", URL: "http://host/x"}).warnings)

    assert f"{TOPIC} (the notification channel sink is off)" in warnings
    assert f"{URL} (the notification channel webhook is off)" in warnings


def test_the_address_is_shown_nowhere_because_its_path_may_be_a_secret():
    given = POSTGRES | {CHANNELS: "webhook", URL: "https://hooks.example/T0/s3cret"}

    assert "s3cret" not in repr(parse(given))
    assert not any("s3cret" in row.value for row in explain(given))
