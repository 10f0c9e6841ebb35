"""Three brokers, of which one and then two are killed: what all replicas in sync have is not lost."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import orjson
import pytest

from adapters.kafka.settings import KafkaSettings
from adapters.kafka.sink import KafkaSink
from adapters.spark.executors import LocalExecutors
from engine.errors import SinkError
from tests.batches import batch
from tests.servers.kafka import KafkaBroker
from tests.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration

TOPIC = "rows"


@pytest.fixture
def brokers() -> Iterator[list[KafkaBroker]]:
    with contextlib.ExitStack() as closing:
        found = [KafkaBroker({"node.id": str(number)}, heap="160m") for number in (1, 2, 3)]
        for broker in found:
            closing.callback(broker.close)
        for broker in found:
            broker.launch(",".join(voter.voter for voter in found))
        for broker in found:
            broker.wait_until_it_answers()
        yield found


def send(sink: Turns, turn: int, keys: range) -> None:
    sink.writer(turn).write(0, [batch(*((TOPIC, f"{key}", f"{turn}", None) for key in keys))])
    sink.commit(turn)


@pytest.mark.thorough
def test_min_insync_replicas_is_waited_for(brokers: list[KafkaBroker], tmp_path: Path):
    brokers[0].create_topic(TOPIC, 2, 3, min__insync__replicas="2")
    settings = {
        "bootstrap.servers": ",".join(broker.bootstrap for broker in brokers),
        "delivery.timeout.ms": "6000",
        "socket.timeout.ms": "3000",
    }
    sink = Turns(
        KafkaSink(KafkaSettings(settings), LocalExecutors(), tmp_path / "staging", monotonic=time.monotonic)
    )
    with contextlib.closing(sink):
        send(sink, 1, range(100))
        brokers[2].kill()
        send(sink, 2, range(100))
        brokers[1].kill()
        with pytest.raises(SinkError) as refused:
            send(sink, 3, range(100))
        applied = sink.resolve_commit(3)
        for broker in brokers[1:]:
            broker.launch()
        for broker in brokers[1:]:
            broker.wait_until_it_answers()
        while not sink.resolve_commit(3):
            with contextlib.suppress(SinkError):
                send(sink, 3, range(100))
        records = brokers[0].records(TOPIC)
    turns: dict[bytes, list[int]] = {}
    for record in records:
        turns.setdefault(record.key() or b"", []).append(orjson.loads(record.value() or b""))

    assert not applied
    assert "not delivered within 6000 ms" in str(refused.value)
    assert len(turns) == 100
    # What was sent while a quorum was missing may be there twice, never before what was sent earlier.
    assert all(sorted(set(seen)) == [1, 2, 3] and seen == sorted(seen) for seen in turns.values())
