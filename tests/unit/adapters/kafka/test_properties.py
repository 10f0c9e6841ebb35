"""The settings of the sink `kafka`."""

from __future__ import annotations

import pytest

from adapters.kafka.properties import producer_client
from adapters.kafka.settings import KafkaSettings, TopicGroup
from adapters.kafka.topics import group_of
from engine.config import parse
from engine.errors import ConfigError

LEAST = {
    "database.hostname": "h",
    "database.user": "u",
    "database.dbname": "d",
    "topic.prefix": "p",
    "snapshot.mode": "never",
}
KAFKA = {
    **LEAST,
    "tidemark.sink": "kafka",
    "tidemark.checkpoint": "/c",
    "producer.bootstrap.servers": "b:1",
}


def settings(**more: str) -> KafkaSettings:
    return parse({**KAFKA, **{name.replace("__", "."): text for name, text in more.items()}}).sink_as(
        KafkaSettings
    )


def test_the_connectors_options_override_the_workers() -> None:
    found = settings(bootstrap__servers="a:1", producer__linger__ms="1", producer__override__linger__ms="2")

    assert found.client == {"bootstrap.servers": "b:1", "linger.ms": "2"}


def test_the_workers_brokers_serve_where_no_others_are_named() -> None:
    given = {name: text for name, text in KAFKA.items() if name != "producer.bootstrap.servers"}

    found = parse({**given, "bootstrap.servers": "a:1"}).sink_as(KafkaSettings)
    assert found.client == {"bootstrap.servers": "a:1"}


def test_topics_are_created_by_the_first_group_that_fits() -> None:
    found = settings(
        topic__creation__default__partitions="3",
        topic__creation__default__replication__factor="-1",
        topic__creation__groups="logs, rest",
        topic__creation__logs__include="p\\.log.*,p\\.audit",
        topic__creation__logs__exclude="p\\.logo",
        topic__creation__logs__retention__ms="60000",
        topic__creation__rest__include="p\\..*_rest",
        topic__creation__rest__replication__factor="2",
    ).topics

    assert group_of("p.logins", found) is found[0]
    assert group_of("p.LOGINS", found) is found[2]
    assert group_of("p.logo", found) is found[2]
    assert group_of("p.a_rest", found) is found[1]
    assert found[0].config == {"retention.ms": "60000"}
    assert (found[1].replication_factor, found[1].partitions) == (2, -1)
    assert found[2] == TopicGroup(partitions=3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topic.creation.groups": "a"}, "missing 'topic.creation.a.include'"),
        ({"topic.creation.b.partitions": "1"}, "'topic.creation.b.partitions' is of no group"),
        ({"topic.creation.default.partitions": "x"}, "'topic.creation.default.partitions' is 'x'"),
        ({"producer.bootstrap.servers": ""}, "missing 'producer.bootstrap.servers'"),
    ],
)
def test_what_is_wrong_with_topics_is_said(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings(**given)


def test_another_sink_has_no_use_for_kafkas_options() -> None:
    idle = {"producer.acks": "1", "topic.creation.default.partitions": "1"}
    found = parse({**LEAST, "tidemark.sink": "console", **idle})

    assert "producer.acks (tidemark.sink is not kafka)" in found.warnings[0]
    assert "topic.creation.default.partitions (tidemark.sink is not kafka)" in found.warnings[0]


def test_the_workers_brokers_are_known_whatever_the_sink_is() -> None:
    given = {"tidemark.sink": "console", "bootstrap.servers": "a:1", "producer.linger.ms": "1", "other": "x"}

    assert producer_client(given) == {"bootstrap.servers": "a:1", "linger.ms": "1"}
