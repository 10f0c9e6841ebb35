"""What is said of signals: which channels are on, and what the topic's consumer is told."""

from __future__ import annotations

import pytest

from engine.config import parse
from engine.model import Channel
from tests.unit.engine.config.least import POSTGRES as LEAST
from tests.unit.engine.config.least import problems_of

TOPIC = {"signal.kafka.topic": "asks", "signal.kafka.bootstrap.servers": "broker:9092"}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="s3cret";'


def problems(changes: dict[str, str]) -> str:
    return "\n".join(problems_of(LEAST, changes))


def warning(changes: dict[str, str]) -> str:
    return "\n".join(parse(LEAST | changes).warnings)


def test_a_topic_with_brokers_is_all_that_the_kafka_channel_needs():
    signals = parse(LEAST | TOPIC).signals

    assert signals.channels == {Channel.KAFKA}
    assert signals.topic.name == "asks"
    assert signals.topic.client == {"bootstrap.servers": "broker:9092", "group.id": "kafka-signal"}
    assert not signals.topic.from_beginning


def test_a_channel_that_is_asked_for_has_debeziums_names_for_topic_and_file():
    changes = {
        "signal.enabled.channels": "kafka,file",
        "signal.kafka.bootstrap.servers": "b:1",
        "signal.kafka.groupId": "mine",
    }
    signals = parse(LEAST | changes).signals

    assert (signals.topic.name, signals.file) == ("fulfillment-signal", "file-signals.txt")
    assert signals.topic.client["group.id"] == "mine"


def test_consumer_options_are_translated_from_javas_names():
    changes = {
        "signal.consumer.security.protocol": "SASL_SSL",
        "signal.consumer.sasl.mechanism": "PLAIN",
        "signal.consumer.sasl.jaas.config": JAAS,
        "signal.consumer.ssl.truststore.type": "PEM",
        "signal.consumer.ssl.truststore.location": "/ca.pem",
        "signal.consumer.auto.offset.reset": "earliest",
        "signal.consumer.fetch.max.wait.ms": "50",
    }
    topic = parse(LEAST | TOPIC | changes).signals.topic

    assert topic.from_beginning
    assert topic.client == {
        "bootstrap.servers": "broker:9092",
        "group.id": "kafka-signal",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "s3cret",
        "ssl.ca.location": "/ca.pem",
        "fetch.wait.max.ms": "50",
    }
    assert "s3cret" not in repr(topic)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"signal.enabled.channels": "kafka"},
            "missing 'signal.kafka.bootstrap.servers': the kafka signal channel needs it",
        ),
        (
            {**TOPIC, "signal.consumer.auto.offset.reset": "none"},
            "'signal.consumer.auto.offset.reset' must be latest or earliest",
        ),
        (
            {**TOPIC, "signal.consumer.fetch.max.wait.ms": "soon"},
            "'signal.consumer.fetch.max.wait.ms' is 'soon'",
        ),
        ({**TOPIC, "signal.consumer.no.such": "1"}, "'signal.consumer.no.such' can't be used"),
        ({**TOPIC, "signal.consumer.ssl.truststore.location": "/ca.jks"}, "is a Java key store"),
        ({"signal.enabled.channels": "smoke"}, "it must be a list of source, kafka, file, jmx"),
        ({**TOPIC, "signal.kafka.poll.timeout.ms": "0"}, "'signal.kafka.poll.timeout.ms' is '0'"),
    ],
)
def test_what_can_not_be_used_is_named(changes, said):
    assert said in problems(changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"signal.enabled.channels": "source"},
            "the signal channel source (there is no signal.data.collection)",
        ),
        ({"signal.enabled.channels": "file,jmx"}, "the signal channel jmx (there is no JMX)"),
        (
            {"signal.enabled.channels": "file", "signal.kafka.topic": "t", "signal.consumer.x": "y"},
            "signal.kafka.topic (the signal channel kafka is off), signal.consumer.x",
        ),
        (
            {**TOPIC, "signal.enabled.channels": "kafka", "signal.file": "f"},
            "signal.file (the signal channel file is",
        ),
    ],
)
def test_what_is_said_of_a_channel_that_is_off_is_told_as_without_effect(changes, said):
    assert said in warning(changes)


def test_a_consumers_secret_shows_in_no_problem():
    broken = JAAS.replace("required", "sometimes")
    changes = {
        "signal.consumer.security.protocol": "SASL_SSL",
        "signal.consumer.sasl.mechanism": "PLAIN",
        "signal.consumer.sasl.jaas.config": broken,
    }

    assert "s3cret" not in problems(TOPIC | changes)
    assert "signal.consumer.sasl.jaas.config" in problems(TOPIC | changes)
