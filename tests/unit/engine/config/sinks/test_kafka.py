"""Options of Kafka's clients, from Java's names to librdkafka's."""

from __future__ import annotations

import pytest

from adapters.kafka.settings import KafkaSettings
from engine.config.sinks.kafka import CONSUMER, PRODUCER, named, translate

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
