"""A machine that has no more descriptors of files and sockets. Nothing is lost for that."""

from __future__ import annotations

import contextlib
import resource
import time
from typing import TYPE_CHECKING

import pytest

import adapters.kafka.sink as kafka_sink
from adapters.kafka.settings import KafkaSettings
from adapters.kafka.sink import KafkaSink
from adapters.spark.executors import LocalExecutors
from engine.errors import SinkError
from tests.batches import batch
from tests.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tests.servers.kafka import KafkaBroker

pytestmark = pytest.mark.integration


@contextlib.contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open nothing more.

    The limit is on a descriptor's number, so one of 3 closes every gap,
    also one that another thread makes meanwhile.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("local_bytes", [0, 64 << 20], ids=["by files", "by memory"])
def test_a_turn_without_descriptors_is_refused_and_sent_once_there_are(
    kafka: KafkaBroker, tmp_path, topic, local_bytes, monkeypatch
):
    monkeypatch.setattr(kafka_sink, "_LOCAL_BYTES", local_bytes)
    settings = KafkaSettings({"bootstrap.servers": kafka.bootstrap, "delivery.timeout.ms": "2000"})
    sink = Turns(KafkaSink(settings, LocalExecutors(), tmp_path / "staging", monotonic=time.monotonic))
    monkeypatch.setattr("adapters.kafka.topics._TIMEOUT_S", 2.0)
    kafka.create_topic(topic)
    rows = batch(*((topic, f"{key}", "{}", None) for key in range(10)))
    with contextlib.closing(sink):
        with no_more_files(), pytest.raises(SinkError) as refused:
            send(sink, rows)
        send(sink, rows)

    assert "open files" in str(refused.value)
    assert [record.key() for record in kafka.records(topic)] == [f"{key}".encode() for key in range(10)]


def send(sink: Turns, rows: pa.RecordBatch) -> None:
    sink.writer(1).write(0, [rows])
    sink.commit(1)
