"""Options of Kafka's clients, from Java's names to librdkafka's."""

from __future__ import annotations

import pytest

from engine.config import parse
from engine.config.sinks.kafka import CONSUMER, PRODUCER, named, translate
from engine.config.sinks.settings import KafkaSettings, TopicGroup
from engine.config.sources.selection import group_of
from engine.errors import ConfigError

LOGIN = 'org.apache.kafka.common.security.%sLoginModule required username="u" password="p\\"w";'
SASL = {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512"}


def translated(**options: str) -> dict[str, str]:
    found = translate(
        named("producer.", {name.replace("__", "."): text for name, text in options.items()}), PRODUCER
    )
    assert found.problems == []
    return found.config


def problem(options: dict[str, str]) -> str:
    (text,) = translate(named("producer.", options), PRODUCER).problems
    return text


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
    return parse({**KAFKA, **{name.replace("__", "."): text for name, text in more.items()}}).sink.kafka


@pytest.mark.parametrize(
    ("name", "text", "target", "expected"),
    [
        ("linger.ms", "20", "linger.ms", "20"),
        ("request.timeout.ms", "5000", "socket.timeout.ms", "5000"),
        ("max.request.size", "2000000", "message.max.bytes", "2000000"),
        ("transaction.timeout.ms", "60000", "transaction.timeout.ms", "60000"),
        ("buffer.memory", "33554432", "queue.buffering.max.kbytes", "32768"),
        ("send.buffer.bytes", "-1", "socket.send.buffer.bytes", "0"),
        ("compression.type", "LZ4", "compression.type", "lz4"),
        ("compression.zstd.level", "3", "compression.level", "3"),
        ("enable.metrics.push", "FALSE", "enable.metrics.push", "false"),
        ("security.protocol", "ssl", "security.protocol", "SSL"),
        ("ssl.endpoint.identification.algorithm", "", "ssl.endpoint.identification.algorithm", "none"),
        ("ssl.truststore.certificates", "PEM TEXT", "ssl.ca.pem", "PEM TEXT"),
        ("ssl.keystore.key", "PEM TEXT", "ssl.key.pem", "PEM TEXT"),
    ],
)
def test_an_option_is_translated(name: str, text: str, target: str, expected: str) -> None:
    assert translate(named("", {name: text}), PRODUCER).config == {target: expected}


def test_what_changes_nothing_here_is_passed_over() -> None:
    assert translated(acks="-1", enable__idempotence="TRUE", max__block__ms="1", key__serializer="x") == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"acks": "1"}, "'producer.acks' is '1'; it must be all or -1"),
        ({"enable.idempotence": "false"}, "it must be true"),
        ({"max.in.flight.requests.per.connection": "6"}, "from 1 to 5"),
        ({"partitioner.class": "RoundRobinPartitioner"}, "'producer.partitioner.class' is"),
        ({"transactional.id": "t"}, "without transactions"),
        ({"ssl.truststore.location": "/t.jks"}, "set ssl.truststore.type=PEM"),
        ({"ssl.keystore.location": "/k.jks", "ssl.keystore.type": "JKS"}, "ssl.keystore.type=PKCS12"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "OpenSSL chooses"),
        ({"sasl.kerberos.service.name": "kafka"}, "Kerberos is not supported"),
        ({"sasl.mechanism": "GSSAPI"}, "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"queue.buffering.max.messages": "1"}, "Kafka has no such option"),
        ({"security.protocol": "SASL_SSL", "sasl.jaas.config": "x"}, "missing 'producer.sasl.mechanism'"),
        (SASL, "missing 'producer.sasl.jaas.config'"),
        (
            {**SASL, "sasl.jaas.config": LOGIN % "plain.Plain"},
            "'producer.sasl.jaas.config' can't be used: it has a module of PLAIN, and the mechanism is SCRAM",
        ),
        (
            {**SASL, "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"},
            "can't be read",
        ),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(options: dict[str, str], said: str) -> None:
    assert said in problem(options)


def test_key_stores_in_pem_and_pkcs12_are_read() -> None:
    pem = translated(ssl__keystore__type="PEM", ssl__keystore__location="/k.pem", ssl__key__password="s")
    trusted = translated(ssl__truststore__type="pem", ssl__truststore__location="/ca.pem")
    archive = translated(
        ssl__keystore__type="PKCS12", ssl__keystore__location="/k.p12", ssl__keystore__password="s"
    )

    assert pem == {
        "ssl.key.location": "/k.pem",
        "ssl.certificate.location": "/k.pem",
        "ssl.key.password": "s",
    }
    assert trusted == {"ssl.ca.location": "/ca.pem"}
    assert archive == {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "s"}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.Plain"), ("SCRAM-SHA-256", "scram.Scram"), ("scram-sha-512", "scram.Scram")],
)
def test_the_user_is_taken_out_of_jaas(mechanism: str, module: str) -> None:
    config = translated(
        security__protocol="SASL_PLAINTEXT", sasl__mechanism=mechanism, sasl__jaas__config=LOGIN % module
    )

    assert (config["sasl.username"], config["sasl.password"]) == ("u", 'p"w')


def test_no_secret_is_shown() -> None:
    secrets = {
        "sasl.jaas.config": 'x.PlainLoginModule required password="hush";',
        "ssl.keystore.key": "hush",
        "ssl.key.password": "hush",
        "ssl.keystore.password": "hush",
    }
    found = translate(named("producer.", {**SASL, **secrets}), PRODUCER)

    assert "hush" in str(found.config)
    assert "hush" not in repr(found) + str(found.problems) + repr(KafkaSettings(found.config))


def test_a_consumer_takes_what_only_producers_have_for_a_mistake() -> None:
    found = translate(named("signal.consumer.", {"fetch.max.wait.ms": "7", "linger.ms": "1"}), CONSUMER)

    assert found.config == {"fetch.wait.max.ms": "7"}
    assert found.problems == ["'signal.consumer.linger.ms' can't be used: Kafka has no such option"]


def test_the_connectors_options_override_the_workers() -> None:
    found = settings(bootstrap__servers="a:1", producer__linger__ms="1", producer__override__linger__ms="2")

    assert found.client == {"bootstrap.servers": "b:1", "linger.ms": "2"}


def test_the_workers_brokers_serve_where_no_others_are_named() -> None:
    given = {name: text for name, text in KAFKA.items() if name != "producer.bootstrap.servers"}

    assert parse({**given, "bootstrap.servers": "a:1"}).sink.kafka.client == {"bootstrap.servers": "a:1"}


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
