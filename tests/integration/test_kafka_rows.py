"""Rows that go to Kafka beside the turns, sent by processes or executors, several runs at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pytest

from adapters.kafka.beside.lease_answers import LeaseAnswers
from adapters.kafka.beside.senders import ExecutorSenders, ProcessSenders
from adapters.kafka.settings import Fencing, KafkaSettings
from adapters.kafka.sink import KafkaSink
from adapters.kafka.turn_sending import Producers
from adapters.spark.executors import LocalExecutors, SparkExecutors
from engine.errors import ExecutorsFailed, LeaseLost, SinkError, SourceError, TopicsRefused
from engine.job.snapshots.emission import Emission
from engine.snapshot.merge_key import KEY_TYPE
from engine.staging.rows import STAGED
from tests.batches import batch
from tests.staged import files_in, newer, staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from adapters.kafka.beside.senders import Senders
    from engine.staging.rows import StagingArea
    from tests.servers.kafka import KafkaBroker

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessSenders]:
    senders = ProcessSenders(2)
    yield senders
    senders.close()


@pytest.fixture
def sink(kafka: KafkaBroker, tmp_path: Path) -> Iterator[Callable[..., KafkaSink]]:
    """Opens sinks that send rows by these senders; every one is closed, and the senders are not."""
    opened: list[KafkaSink] = []

    def open_sink(
        senders: Senders, tasks: int = 2, client: str = "tidemark", **settings: object
    ) -> KafkaSink:
        connected = {"bootstrap.servers": kafka.bootstrap, "client.id": client}
        made = KafkaSettings(connected, **settings)  # type: ignore[arg-type] # as the test gives them
        opened.append(
            KafkaSink(
                made,
                LocalExecutors(),
                tmp_path / "sink",
                monotonic=time.monotonic,
                producers=Producers(tasks),
                senders=senders,
            )
        )
        return opened[-1]

    yield open_sink
    for record_batch in opened:
        record_batch._rows = None
        record_batch.close()


@pytest.fixture
def area(tmp_path: Path) -> StagingArea:
    return files_in(tmp_path / "staged")


def run_of(area: StagingArea, topic: str, keys: range, *, number: int = 0, value: str = "") -> Emission:
    """A staged run of rows with these keys; row 1 is superseded."""
    events = batch(*((topic, f'{{"id":{key}}}', f'{{"n":{key},"v":"{value}"}}', None) for key in keys))
    merge_keys = pa.array([str(key).encode() for key in keys], KEY_TYPE)
    staged_rows = pa.RecordBatch.from_arrays([*events.columns, merge_keys], schema=STAGED)
    return Emission(staged(area, staged_rows, run=number), newer(1), 0)


def keys_in(kafka: KafkaBroker, topic: str) -> list[int]:
    return sorted(orjson.loads(record.key() or b"")["id"] for record in kafka.records(topic))


def test_survivors_are_sent_by_several_processes_at_once(kafka, sink, processes, area, topic):
    kafka.create_topic(topic, 8)
    opened = sink(processes)
    ways = [opened.take_rows(run_of(area, topic, range(n, n + 1000), number=n), topic) for n in (0, 1000)]
    emitted = [way.result() for way in ways]

    assert [record_batch.rows for record_batch in emitted] == [999, 1000]
    assert keys_in(kafka, topic) == [0, *range(2, 2000)]
    assert [way.done() for way in ways] == [True, True]


def test_executors_send_as_well(kafka, sink, spark: SparkSession, area, topic):
    senders = ExecutorSenders(SparkExecutors(spark), 2)
    ways = [sink(senders).take_rows(run_of(area, topic, range(n, n + 10), number=n), topic) for n in (0, 10)]

    assert sum(way.result().rows for way in ways) == 19
    assert keys_in(kafka, topic) == [0, *range(2, 20)]
    senders.close()


def test_a_producer_is_kept_for_the_next_run_until_something_fails(kafka, sink, processes, area, topic):
    kafka.create_topic(topic, max__message__bytes="20000")
    opened = sink(processes, tasks=1)
    opened.take_rows(run_of(area, topic, range(10)), topic).result()
    started = time.monotonic()
    for number in range(1, 6):
        opened.take_rows(
            run_of(area, topic, range(10 * number, 10 * number + 10), number=number), topic
        ).result()
    took_s = time.monotonic() - started
    with pytest.raises(TopicsRefused, match=r"the event of .* is too large"):
        opened.take_rows(run_of(area, topic, range(60, 61), number=6, value="x" * 30_000), topic).result()
    opened.take_rows(run_of(area, topic, range(70, 80), number=7), topic).result()

    assert took_s < 5.0
    assert keys_in(kafka, topic) == [0, *range(2, 60), *range(70, 80)]


def test_a_batch_too_large_is_sent_again_in_smaller_ones(kafka, sink, processes, area, topic):
    kafka.create_topic(topic, max__message__bytes="20000")
    way = sink(processes).take_rows(run_of(area, topic, range(1000), value="x" * 200), topic)

    assert way.result().rows == 999
    assert set(keys_in(kafka, topic)) == {0, *range(2, 1000)}


def test_a_topic_that_refuses_rows_is_named(kafka, sink, processes, area, topic):
    kafka.create_topic(topic, max__message__bytes="20000")
    way = sink(processes).take_rows(run_of(area, topic, range(5), value="x" * 30_000), topic)

    with pytest.raises(TopicsRefused) as raised:
        way.result()
    assert raised.value.reasons.keys() == {topic}


def test_rows_that_are_gone_are_a_fault_of_the_source(sink, processes, area, topic):
    emission = run_of(area, topic, range(5))
    area.clear()

    with pytest.raises(SourceError, match="gone"):
        sink(processes).take_rows(emission, topic).result()


def test_a_process_that_is_killed_while_it_sends_is_noticed_and_replaced(kafka, sink, area, topic):
    kafka.create_topic(topic)
    kafka.slow_down(topic, 100_000)
    with closing(ProcessSenders(2)) as senders:
        opened = sink(senders, client=topic)
        emission = run_of(area, topic, range(20_000), value="x" * 400)
        way = opened.take_rows(emission, topic)
        while not kafka.count(topic):
            time.sleep(0.05)
        (process,) = senders._processes.values()
        process.kill()

        with pytest.raises(ExecutorsFailed, match="a process that sent rows has ended"):
            way.result()
        kafka.slow_down(topic, 100_000_000)
        assert opened.take_rows(emission, topic).result().rows == 19_999
    assert set(keys_in(kafka, topic)) == {0, *range(2, 20_000)}


def test_rows_that_are_stopped_never_come_behind_what_is_sent_next(kafka, sink, area, topic):
    kafka.create_topic(topic)
    kafka.slow_down(topic, 100_000)
    keys = range(20_000)
    with closing(ProcessSenders(2)) as senders:
        opened = sink(senders, client=topic)
        way = opened.take_rows(run_of(area, topic, keys, value="x" * 400), topic)
        while not kafka.count(topic):
            time.sleep(0.05)
        way.stop()
        there = kafka.count(topic)
        newer_rows = batch(*((topic, f'{{"id":{key}}}', "newer", None) for key in keys[:200]))
        opened.commit(1, [opened.writer(1).write(0, [newer_rows])])
        time.sleep(2)  # for what somebody might have sent
    values = [record.value() for record in kafka.records(topic)]

    assert 0 < there < 10_000
    assert b"newer" not in values[:there]
    assert set(values[there:]) == {b"newer"}


def prepared(sink: KafkaSink) -> None:
    while not sink.prepare_for_rows():
        time.sleep(0.01)


class TestFencing:
    """`tidemark.sink.kafka.fencing=transactions`."""

    def test_runs_are_seen_once_they_are_committed(self, kafka, sink, processes, area, topic):
        kafka.create_topic(topic, 4)
        opened = sink(processes, fencing=Fencing.TRANSACTIONS)
        prepared(opened)
        for number in range(3):
            opened.take_rows(
                run_of(area, topic, range(10 * number, 10 * number + 10), number=number), topic
            ).result()

        assert keys_in(kafka, topic) == [0, *range(2, 30)]

    def test_whoever_was_replaced_sends_no_rows_any_more(self, kafka, sink, area, topic):
        kafka.create_topic(topic)
        first, second = (ProcessSenders(1) for _ in range(2))
        old = sink(first, fencing=Fencing.TRANSACTIONS)
        prepared(old)
        old.take_rows(run_of(area, topic, range(10)), topic).result()
        new = sink(second, fencing=Fencing.TRANSACTIONS)
        new.resume(old.memory())
        prepared(new)
        with pytest.raises(SinkError):
            old.take_rows(run_of(area, topic, range(10, 20), number=1), topic).result()
        new.take_rows(run_of(area, topic, range(20, 30), number=2), topic).result()

        assert keys_in(kafka, topic) == [0, *range(2, 10), *range(20, 30)]
        first.close()
        second.close()

    def test_executors_send_while_the_job_has_its_lease(self, kafka, sink, spark, area, topic):
        kafka.create_topic(topic, 4)
        lease = LeaseInSteps()
        with closing(ExecutorSenders(SparkExecutors(spark), 2)) as senders:
            senders.answer_with(LeaseAnswers(lease, "127.0.0.1", "127.0.0.1"))
            opened = sink(senders, fencing=Fencing.TRANSACTIONS)
            assert opened.takes_rows
            prepared(opened)
            runs = [
                run_of(area, topic, range(10 * number, 10 * number + 10), number=number)
                for number in range(3)
            ]
            ways = [opened.take_rows(emission, topic) for emission in runs[:2]]
            for way in ways:
                way.result()
            lease.lost = True
            with pytest.raises(ExecutorsFailed, match="does not confirm that it has its lease"):
                opened.take_rows(runs[2], topic).result()

        assert keys_in(kafka, topic) == [0, *range(2, 20)]
        assert lease.asked == 3

    @pytest.mark.thorough
    def test_executors_of_a_job_that_was_frozen_behind_its_look_at_the_lease_send_nothing(
        self, kafka, sink, spark, area, topic
    ):
        kafka.create_topic(topic)
        lease = LeaseInSteps()
        with (
            closing(ExecutorSenders(SparkExecutors(spark), 1)) as senders,
            closing(ProcessSenders(2)) as processes,
        ):
            new = sink(processes, fencing=Fencing.TRANSACTIONS)
            senders.answer_with(LeaseAnswers(lease, "127.0.0.1", "127.0.0.1"))
            old = sink(senders, fencing=Fencing.TRANSACTIONS)
            prepared(old)
            # The successor has everything before the old job's answer leaves.
            lease.frozen = lambda: new.resume(old.memory())
            with pytest.raises(SinkError):
                old.take_rows(run_of(area, topic, range(10)), topic).result()
            prepared(new)
            new.take_rows(run_of(area, topic, range(20, 30), number=2), topic).result()

        assert lease.asked == 1
        assert keys_in(kafka, topic) == list(range(20, 30))


class LeaseInSteps:
    """A lease that a test takes away, before the look at it or behind it."""

    def __init__(self) -> None:
        self.asked, self.lost = 0, False
        self.frozen: Callable[[], object] = lambda: None

    def check(self) -> None:
        self.asked += 1
        if self.lost:
            raise LeaseLost("taken over")
        self.frozen()

    confirm = check


_DRIVER = """
import sys, time
from adapters.kafka.beside.senders import ProcessSenders
senders = ProcessSenders(1)
senders.submit(0, time.sleep, 600)
while not senders._processes:
    time.sleep(0.01)
print(senders._processes[0]._process.pid, flush=True)
time.sleep(600)
"""


def test_who_sends_ends_with_the_driver_even_in_the_middle_of_a_run():
    driver = subprocess.Popen([sys.executable, "-c", _DRIVER], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    sender = int(driver.stdout.readline())
    time.sleep(1.0)  # it has begun its task
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    driver.stdout.close()

    assert _ends(sender)


@pytest.mark.thorough
def test_a_process_with_nothing_to_do_ends_and_another_takes_its_place():
    senders = ProcessSenders(1, idle_s=0.3)
    before = senders.submit(0, _process_id, None).result()
    assert senders.submit(0, _process_id, None).result() == before
    assert _ends(before)

    assert senders.submit(0, _process_id, None).result() != before
    senders.close()


def _process_id(_item: None) -> int:
    return os.getpid()


def _ends(process: int) -> bool:
    until_s = time.monotonic() + 10.0
    while time.monotonic() < until_s:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False
