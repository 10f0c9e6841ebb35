"""TLS and SASL to a real broker, with a certificate authority of the test's own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from adapters.kafka.settings import KafkaSettings
from adapters.kafka.sink import KafkaSink
from adapters.spark.executors import LocalExecutors
from engine.config import parse
from engine.errors import ConfigError, SinkError
from tests.batches import batch
from tests.servers.certificates import Authority, Certificate
from tests.servers.kafka import KafkaBroker, Security
from tests.turns import Turns
from tests.unit.adapters.kafka.test_properties import KAFKA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration

PASSWORD = 'it\'s \\ a "secret"'
JAAS = "org.apache.kafka.common.security.%sLoginModule required"


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def client(authority: Authority) -> Certificate:
    return authority.certificate("client")


@pytest.fixture(scope="module")
def tls(authority: Authority) -> Iterator[KafkaBroker]:
    """A broker that speaks TLS and wants a certificate of its clients."""
    settings = {**_stores(authority), "ssl.client.auth": "required"}
    with KafkaBroker(security=Security("SSL", settings)) as broker:
        yield broker


@pytest.fixture(scope="module")
def sasl(authority: Authority) -> Iterator[KafkaBroker]:
    """A broker that speaks TLS and knows a user by PLAIN and by SCRAM."""
    settings = {
        **_stores(authority),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.clients.plain.sasl.jaas.config": f'{JAAS % "plain.Plain"} user_plain="{_escaped()}";',
        "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{JAAS % 'scram.Scram'};",
    }
    with KafkaBroker(security=Security("SASL_SSL", settings, {"scram": PASSWORD})) as broker:
        yield broker


def _stores(authority: Authority) -> dict[str, str]:
    """The broker's settings: its key with its certificate, and whom it trusts, as PEM files."""
    server = authority.certificate("broker", "IP:127.0.0.1")
    both = authority.root.with_name("broker.pem")
    both.write_text(server.key.read_text() + server.certificate.read_text())
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.root),
    }


def _escaped() -> str:
    return PASSWORD.replace("\\", "\\\\").replace('"', '\\"')


def _trusting(authority: Authority, protocol: str) -> dict[str, str]:
    return {
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.root),
    }


def _login(mechanism: str, user: str, password: str) -> dict[str, str]:
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{JAAS % module} username="{user}" password="{password}";',
    }


def send(broker: KafkaBroker, directory: Path, topic: str, options: dict[str, str]) -> None:
    """Send one event with a producer of these options, as a configuration file gives them."""
    given = {f"producer.{name}": text for name, text in options.items()}
    settings = parse({**KAFKA, **given, "producer.bootstrap.servers": broker.bootstrap})
    kafka = settings.sink_as(KafkaSettings)
    sink = Turns(KafkaSink(kafka, LocalExecutors(), directory / "staging", monotonic=time.monotonic))
    try:
        sink.writer(1).write(0, [batch((topic, "k", "v", None))])
        sink.commit(1)
    finally:
        sink.close()


@pytest.mark.parametrize("store", ["PEM", "PKCS12", "inline"])
def test_a_client_shows_its_certificate(tls, authority, client, tmp_path, topic, store):
    key, chain = client.key.read_text(), client.certificate.read_text()
    match store:
        case "PEM":
            (tmp_path / "client.pem").write_text(key + chain)
            own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "client.pem")}
        case "PKCS12":
            own = {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(client.archive("hush")),
                "ssl.keystore.password": "hush",
            }
        case _:
            own = {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": key,
                "ssl.keystore.certificate.chain": chain,
            }
    send(tls, tmp_path, topic, {**_trusting(authority, "SSL"), **own})

    assert tls.count(topic) == 1


def test_a_client_without_certificate_is_told_why(tls, authority, tmp_path, topic, monkeypatch):
    monkeypatch.setattr("adapters.kafka.topics._TIMEOUT_S", 3.0)

    with pytest.raises(SinkError, match=r"not reached: .*(?i:ssl|tls|disconnected)"):
        send(tls, tmp_path, topic, _trusting(authority, "SSL"))


def test_a_broker_of_another_authority_is_not_trusted(tls, tmp_path, topic, monkeypatch):
    monkeypatch.setattr("adapters.kafka.topics._TIMEOUT_S", 3.0)
    stranger = Authority(tmp_path / "stranger", "stranger")

    with pytest.raises(SinkError, match=r"not reached: .*certificate verify failed"):
        send(tls, tmp_path, topic, _trusting(stranger, "SSL"))


@pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "plain"), ("SCRAM-SHA-512", "scram")])
def test_a_user_logs_in(sasl, authority, tmp_path, topic, mechanism, user):
    send(sasl, tmp_path, topic, {**_trusting(authority, "SASL_SSL"), **_login(mechanism, user, _escaped())})

    assert sasl.count(topic) == 1


@pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "plain"), ("SCRAM-SHA-512", "scram")])
def test_a_wrong_password_is_told_and_not_shown(sasl, authority, tmp_path, topic, mechanism, user):
    begun_s = time.monotonic()
    with pytest.raises(ConfigError, match=r"the login is refused .*[aA]uthentication.*sasl\.jaas") as caught:
        send(
            sasl,
            tmp_path,
            topic,
            {**_trusting(authority, "SASL_SSL"), **_login(mechanism, user, "hush-hush")},
        )
    assert "hush" not in f"{caught.value}{caught.value!r}{caught.value.__cause__!r}"
    assert time.monotonic() - begun_s < 15


@pytest.mark.parametrize("speaks", ["tls", "sasl"])
def test_a_port_that_speaks_another_protocol_is_hinted_at(speaks, request, tmp_path, topic, monkeypatch):
    monkeypatch.setattr("adapters.kafka.topics._TIMEOUT_S", 3.0)

    with pytest.raises(SinkError, match=r"not reached: .*look at producer\.security\.protocol"):
        send(request.getfixturevalue(speaks), tmp_path, topic, {})


def test_a_file_that_is_no_archive_is_refused(authority, tls, tmp_path, topic):
    own = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(authority.root),
        "ssl.keystore.password": "hush",
    }
    with pytest.raises(ConfigError, match=r"the sink 'kafka' can't be set up: .*PKCS#12") as caught:
        send(tls, tmp_path, topic, {**_trusting(authority, "SSL"), **own})
    assert "hush" not in str(caught.value)
