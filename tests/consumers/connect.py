"""Kafka Connect as a process of its own with one connector, and Debezium's JDBC sink in it."""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson
from confluent_kafka import Consumer, TopicPartition

from tests.consumers.libraries import jdbc_sink
from tests.servers.port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database

_TIMEOUT_S = 180.0
_HEADERS = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


def sink_into(
    database: Database, broker: KafkaBroker, topics: Sequence[str], directory: Path, **more: str
) -> None:
    """Have the JDBC sink write topics into a database that it makes the tables of, until all is there.

    `more` are further settings, `__` for a dot; headers are read by Connect's default converter. Raises
    RuntimeError with what a task has died of.
    """
    server = database.server
    connector = {
        "name": database.name,
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "1",
        "topics": ",".join(topics),
        "connection.url": f"jdbc:postgresql://{server.host}:{server.port}/{database.name}?stringtype=unspecified",
        "connection.username": server.user,
        "connection.password": server.password,
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    with _standalone(broker, connector, directory) as address:
        _wait_until_read(broker, topics, f"{address}/connectors/{database.name}", database.name)


@contextmanager
def _standalone(broker: KafkaBroker, connector: Mapping[str, str], directory: Path) -> Iterator[str]:
    """The worker; gives the address of its interface."""
    address = f"http://127.0.0.1:{free_port()}"
    worker = {
        "bootstrap.servers": broker.bootstrap,
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        "offset.storage.file.filename": str(directory / "offsets"),
        "offset.flush.interval.ms": "500",
        "listeners": address,
        "consumer.auto.offset.reset": "earliest",
    }
    paths = [_properties(directory / "worker.properties", worker)]
    paths += [_properties(directory / "connector.properties", connector)]
    command: list[str | Path] = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", _HEADERS]
    command += ["-cp", f"{jdbc_sink()}/*", "org.apache.kafka.connect.cli.ConnectStandalone", *paths]
    with (directory / "connect.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield address
        if process.poll() is not None:
            raise RuntimeError(f"Connect has ended:\n{(directory / 'connect.log').read_text()[-3000:]}")
    finally:
        process.kill()
        process.wait()


def _properties(path: Path, settings: Mapping[str, str]) -> Path:
    path.touch(mode=0o600)
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def _wait_until_read(broker: KafkaBroker, topics: Sequence[str], address: str, name: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    places = [TopicPartition(topic, number) for topic in topics for number in range(broker.partitions(topic))]
    consumer = Consumer({**broker.plain, "group.id": f"connect-{name}", "enable.auto.commit": False})
    try:
        while not _read(consumer, places):
            if trace := _died_of(address):
                raise RuntimeError(f"the sink's task has died: {trace[:4000]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"the sink has not read {topics} within {_TIMEOUT_S:g} s")
            time.sleep(0.5)
    finally:
        consumer.close()


def _read(consumer: Consumer, places: Sequence[TopicPartition]) -> bool:
    committed = consumer.committed(list(places), timeout=10.0)
    ends = [consumer.get_watermark_offsets(place, timeout=10.0)[1] for place in places]
    return all(place.offset >= end for place, end in zip(committed, ends, strict=True) if end)


def _died_of(address: str) -> str:
    """The trace of a task that has failed; empty while none has."""
    try:
        with urllib.request.urlopen(f"{address}/status", timeout=5) as answer:  # noqa: S310
            status: dict[str, Any] = orjson.loads(answer.read())
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return ""  # the worker is still starting
    return next((task["trace"] for task in status["tasks"] if task["state"] == "FAILED"), "")
