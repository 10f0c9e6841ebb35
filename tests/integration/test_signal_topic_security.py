"""The signal topic over TLS with a user: a real broker, a test authority, Java's names for the options."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import pytest

from adapters.source.assembly.signal_desk import make_desk
from adapters.system import system_clock
from engine.config import parse
from engine.model import LogMessage
from tests.servers.certificates import Authority
from tests.servers.kafka import KafkaBroker, Security

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.model import Command
    from signals.desk import Desk

pytestmark = pytest.mark.integration

USER, PASSWORD = "signals", "corr3ct-h0rse"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOG = '{"type": "log", "data": {"message": "here"}}'


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[KafkaBroker]:
    mine = authority.certificate("broker", "IP:127.0.0.1")
    store = mine.key.with_suffix(".pem")
    store.write_bytes(mine.key.read_bytes() + mine.certificate.read_bytes())
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{MODULE} required;",
    }
    with KafkaBroker(security=Security("SASL_SSL", settings, {USER: PASSWORD})) as broker:
        yield broker


def desk(broker: KafkaBroker, topic: str, root: Path, password: str) -> Desk:
    settings = parse(
        {
            "database.hostname": "db",
            "database.user": "u",
            "database.dbname": "d",
            "topic.prefix": "shop",
            "plugin.name": "pgoutput",
            "snapshot.mode": "never",
            "tidemark.sink": "null",
            "signal.kafka.topic": topic,
            "signal.kafka.bootstrap.servers": broker.bootstrap,
            "signal.consumer.security.protocol": "SASL_SSL",
            "signal.consumer.sasl.mechanism": "SCRAM-SHA-512",
            "signal.consumer.sasl.jaas.config": f'{MODULE} required username="{USER}" password="{password}";',
            "signal.consumer.ssl.truststore.type": "PEM",
            "signal.consumer.ssl.truststore.location": str(root),
        }
    )
    return make_desk(settings.signals, "shop", system_clock(), lambda _answer: None)


def received(desk: Desk, timeout_s: float) -> list[Command]:
    """The commands that come within the time; the first ends the wait."""
    desk.resume({}, 1)
    deadline = time.monotonic() + timeout_s
    commands: list[Command] = []
    while not commands and time.monotonic() < deadline:
        commands += desk.commands((), list)
        time.sleep(0.05)
    desk.close()
    return commands


def test_signals_come_over_tls_for_a_user_who_may(broker, authority, topic):
    broker.create_topic(topic)
    broker.send(topic, LOG, "shop")

    assert received(desk(broker, topic, authority.root, PASSWORD), 30.0) == [
        LogMessage(f"{topic}-0@0", "here")
    ]


def test_a_wrong_password_is_told_once_and_shown_to_nobody(broker, authority, topic, caplog):
    broker.create_topic(topic)
    broker.send(topic, LOG, "shop")
    with caplog.at_level(logging.DEBUG):
        assert received(desk(broker, topic, authority.root, "wr0ng-h0rse"), 8.0) == []

    assert caplog.text.count("signals can't be read") == 1
    assert "uthentication failed" in caplog.text
    assert "wr0ng-h0rse" not in caplog.text


@pytest.mark.thorough
def test_a_broker_of_another_authority_is_told_once(broker, tmp_path, topic, caplog):
    broker.create_topic(topic)
    broker.send(topic, LOG, "shop")
    with caplog.at_level(logging.INFO):
        assert received(desk(broker, topic, Authority(tmp_path, "other").root, PASSWORD), 8.0) == []

    assert caplog.text.count("signals can't be read") == 1
    assert "certificate" in caplog.text
