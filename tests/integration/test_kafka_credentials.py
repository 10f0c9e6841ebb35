"""Credentials that expire, at a broker that wants them again all the time: tokens and a changing password."""

from __future__ import annotations

import base64
import json
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from adapters.kafka.settings import KafkaSettings
from adapters.kafka.sink import KafkaSink
from adapters.kafka.topics import Topics
from adapters.source.assembly.signal_desk import make_desk
from adapters.spark.executors import LocalExecutors
from adapters.system import system_clock
from engine.config import parse
from engine.config.text.references import resolve
from tests.batches import batch
from tests.servers.kafka import KafkaBroker, Security
from tests.turns import Turns
from tests.unit.adapters.kafka.test_properties import KAFKA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from engine.config import Settings

pytestmark = pytest.mark.integration

SECURITY = "org.apache.kafka.common.security"
BEARER = f"{SECURITY}.oauthbearer.OAuthBearerLoginModule"
SCRAM = f"{SECURITY}.scram.ScramLoginModule"
USER = "changing"
EVERY_S = 0.5


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """A broker that lets nobody stay for longer than a second without logging in again."""
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512",
        "connections.max.reauth.ms": "1000",
        "listener.name.clients.oauthbearer.sasl.jaas.config": f"{BEARER} required;",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
    }
    with KafkaBroker(security=Security("SASL_PLAINTEXT", settings, {USER: "password-0"})) as broker:
        yield broker


def token(lifetime_s: float) -> str:
    """An unsigned JWT, which the broker's own check for tests takes."""
    now = time.time()
    parts = {"alg": "none"}, {"sub": "tidemark", "iat": now, "exp": now + lifetime_s}
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        + "."
    )


@contextmanager
def changing(change: Callable[[int], None], every_s: float) -> Iterator[list[int]]:
    """Change a credential again and again; gives the changes so far."""
    stop, done = threading.Event(), [0]
    change(0)

    def run() -> None:
        while not stop.wait(every_s):
            change(len(done))
            done.append(len(done))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def settings(broker: KafkaBroker, mechanism: str, line: str, topic: str) -> Settings:
    """A job that sends to the broker and reads signals of it, by the same login."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": line}
    given = {
        **KAFKA,
        "signal.kafka.topic": topic,
        "signal.kafka.bootstrap.servers": broker.bootstrap,
        "producer.bootstrap.servers": broker.bootstrap,
        **{
            f"{client}.{name}": text
            for client in ("producer", "signal.consumer")
            for name, text in login.items()
        },
    }
    found, problems = resolve(given, {})
    assert not problems
    return parse(found)


def go_on(
    broker: KafkaBroker, made: Settings, directory: Path, topic: str, changes: list[int], least: int
) -> None:
    """Send a turn and read a signal every moment until the credential has changed so often."""
    signals = made.signals.topic.name
    kafka = made.sink_as(KafkaSettings)
    sink = Turns(KafkaSink(kafka, LocalExecutors(), directory / "staging", monotonic=time.monotonic))
    desk = make_desk(made.signals, KAFKA["topic.prefix"], system_clock(), lambda _answer: None)
    desk.resume({}, 1)
    heard = turn = 0
    try:
        while len(changes) < least:
            turn += 1
            broker.send(
                signals, json.dumps({"type": "log", "data": {"message": str(turn)}}), KAFKA["topic.prefix"]
            )
            sink.writer(turn).write(0, [batch((topic, f"k{turn}", "v", None))])
            sink.commit(turn)
            heard += len(desk.commands((), list))
            time.sleep(EVERY_S)
        deadline = time.monotonic() + 20
        while heard < turn and time.monotonic() < deadline:
            heard += len(desk.commands((), list))
            time.sleep(0.1)
    finally:
        desk.close()
        sink.close()
    assert broker.count(topic) >= turn
    assert heard == turn


def test_tokens_are_asked_for_again_before_they_expire(broker, tmp_path, topic):
    broker.create_topic(f"{topic}-signals")
    file = tmp_path / "token"

    def change(_count: int) -> None:
        replace(file, token(8.0))

    with changing(change, 0.5) as changes:
        made = settings(
            broker, "OAUTHBEARER", f'{BEARER} required token="${{dir:{tmp_path}:token}}";', f"{topic}-signals"
        )
        go_on(broker, made, tmp_path, topic, changes, 20)


def test_a_token_that_expires_before_the_first_question_is_asked_for_again(broker, tmp_path, topic):
    file, line = tmp_path / "token", f'{BEARER} required token="${{dir:{tmp_path}:token}}";'
    replace(file, token(2.0))
    made = settings(broker, "OAUTHBEARER", line, f"{topic}-signals").sink_as(KafkaSettings)
    topics = Topics(made, time.monotonic)
    time.sleep(4.0)
    replace(file, token(60.0))
    assert topics.brokers.reach()


@pytest.mark.thorough
def test_a_password_that_changes_is_asked_for_again(broker, tmp_path, topic, caplog):
    broker.create_topic(f"{topic}-signals")
    admin = AdminClient(broker.plain)

    def change(count: int) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion(USER, info, f"password-{count}".encode())
        admin.alter_user_scram_credentials([upsertion])[USER].result(10)
        replace(tmp_path / "password", f"password-{count}")

    line = f'{SCRAM} required username="{USER}" password="${{dir:{tmp_path}:password}}";'
    with changing(change, 4.0) as changes:
        made = settings(broker, "SCRAM-SHA-512", line, f"{topic}-signals")
        go_on(broker, made, tmp_path, topic, changes, 4)

    assert "password-" not in caplog.text


def replace(file: Path, text: str) -> None:
    """As a provider writes it: never half of it is there."""
    partial = file.with_suffix(".partial")
    partial.write_text(text)
    partial.rename(file)
