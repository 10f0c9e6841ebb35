"""A Kafka consumer in a process of its own, which notes when each stamped row has reached it."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

STAMP = re.compile(rb'"after":\{"id":\d+,"stamp":(\d+)')
_SILENT_S = 2.0


class Consuming:
    """A consumer at work; `delays` ends it."""

    def __init__(self, client: dict[str, Any], topic: str) -> None:
        context = get_context("spawn")
        self._ready, self._stop = context.Event(), context.Event()
        self._answers = context.SimpleQueue()
        events = (self._ready, self._stop)
        self.process = context.Process(
            target=_consume, args=(client, topic, *events, self._answers), daemon=True
        )
        self.process.start()
        if not self._ready.wait(30):
            raise TimeoutError("the consumer does not start")

    def delays(self) -> np.ndarray:
        """Milliseconds from the stamp to the consumer, of each row, once no more come."""
        self._stop.set()
        found: np.ndarray = self._answers.get()
        return found


@contextmanager
def consuming(client: dict[str, Any], topic: str) -> Iterator[Consuming]:
    """A consumer of a topic with one partition, from its end on."""
    consumer = Consuming(client, topic)
    try:
        yield consumer
    finally:
        consumer.process.kill()
        consumer.process.join()


def _consume(client: dict[str, Any], topic: str, ready: Any, stop: Any, answers: Any) -> None:
    consumer = Consumer({**client, "group.id": "bench", "enable.auto.commit": False, "fetch.wait.max.ms": 10})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)
    consumer.assign([TopicPartition(topic, 0, end)])
    ready.set()
    delays: list[float] = []
    last = time.monotonic()
    while not stop.is_set() or time.monotonic() - last < _SILENT_S:
        for record in consumer.consume(1000, timeout=0.005):
            last, now = time.monotonic(), time.time()
            stamp = STAMP.search(record.value() or b"")
            if stamp:
                delays.append(now * 1000 - int(stamp[1]) / 1000)
    consumer.close()
    answers.put(np.array(delays))
