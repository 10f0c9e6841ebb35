"""The Kafka sink on a real broker: what records look like, where they lie, and what a broker may do to it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pytest

import adapters.kafka.sink as kafka_sink
from adapters.kafka.partitions import key_hashes
from adapters.kafka.producers.delivery import Delivery
from adapters.kafka.settings import Fencing, KafkaSettings, TopicGroup
from adapters.kafka.sink import KafkaSink
from adapters.kafka.turn_sending import Producers, TurnSending
from adapters.spark.executors import LocalExecutors, SparkExecutors
from engine.config.sinks.settings import TopicRecreated
from engine.errors import ConfigError, SinkError, SinkRefused, TopicsRefused
from tests.batches import batch
from tests.servers.kafka import CLUSTER_ID, KafkaBroker
from tests.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from confluent_kafka import Message
    from pyspark.sql import SparkSession

    from adapters.kafka.errors import BatchRefused

pytestmark = pytest.mark.integration


@pytest.fixture
def sink(kafka: KafkaBroker, tmp_path: Path) -> Iterator[Callable[..., Turns]]:
    """Opens a sink with more options of the client, or other settings; every one is closed."""
    opened: list[Turns] = []

    def open_sink(*, client: dict[str, str] | None = None, tasks: int = 1, **settings: object) -> Turns:
        config = {"bootstrap.servers": kafka.bootstrap, **(client or {})}
        made = KafkaSettings(config, **settings)  # type: ignore[arg-type] # as the test gives them
        opened.append(
            Turns(
                KafkaSink(
                    made,
                    LocalExecutors(),
                    tmp_path / "staging",
                    monotonic=time.monotonic,
                    producers=Producers(tasks),
                )
            )
        )
        return opened[-1]

    yield open_sink
    for attempt in opened:
        attempt.close()


def send(sink: Turns, *parts: list[pa.RecordBatch], turn: int = 1) -> None:
    writer = sink.writer(turn)
    for number, batches in enumerate(parts):
        writer.write(number, batches)
    sink.commit(turn)


def changes(topic: str, keys: range, value: str = "") -> pa.RecordBatch:
    return batch(*((topic, f'{{"id":{key}}}', f'{{"n":{key},"v":"{value}"}}', None) for key in keys))


def test_records_are_the_events_byte_for_byte(kafka, sink, topic):
    text = '{"after":{"t":"é \\" \\n 日本 \\u001f"}}'
    header = '[{"key":"__debezium.newkey","value":"{\\"id\\":2}"},{"key":"none","value":null}]'
    events = [
        (topic, '{"id":1}', text, None),
        (topic, '{"id":1}', None, header),
        (topic, None, "", None),
    ]
    send(sink(), [batch(*events)])
    records = kafka.records(topic)

    assert [record.key() for record in records] == [b'{"id":1}', b'{"id":1}', None]
    assert [record.value() for record in records] == [text.encode(), None, b""]
    assert [record.headers() for record in records] == [
        None,
        [("__debezium.newkey", b'{"id":2}'), ("none", None)],
        None,
    ]


def test_a_key_lies_where_javas_clients_put_it(kafka, sink, topic):
    # Hashes from the tests of Kafka's own murmur2.
    hashes = {
        "21": -973932308,
        "foobar": -790332482,
        "a-little-bit-long-string": -985981536,
        "a-little-bit-longer-string": -1486304829,
        "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        "abc": 479470107,
    }
    kafka.create_topic(topic, 7)
    send(sink(), [batch(*((topic, key, "{}", None) for key in hashes))])
    found = {(record.key() or b"").decode(): record.partition() for record in kafka.records(topic)}

    assert found == {key: (number & 0x7FFFFFFF) % 7 for key, number in hashes.items()}


def test_events_keep_their_order_over_parts_and_turns(kafka, sink, topic):
    opened = sink()
    for turn in (1, 2):
        send(opened, *[[changes(topic, range(50), f"{turn}.{part}")] for part in range(5)], turn=turn)
    values = [orjson.loads(record.value() or b"") for record in kafka.records(topic)]

    assert [(value["v"], value["n"]) for value in values] == [
        (f"{turn}.{part}", key) for turn in (1, 2) for part in range(5) for key in range(50)
    ]


def test_many_bytes_are_sent_by_the_executors_topic_by_topic(kafka, sink, topic, monkeypatch):
    monkeypatch.setattr(kafka_sink, "_LOCAL_BYTES", 0)
    topics = [f"{topic}-{number}" for number in range(5)]
    mixed = [[batch(*((name, "k", f"{part}", None) for name in topics))] for part in range(4)]
    send(sink(tasks=3), *mixed)
    found = {name: [record.value() for record in kafka.records(name)] for name in topics}

    assert found == {name: [b"0", b"1", b"2", b"3"] for name in topics}


def visible(kafka: KafkaBroker, topic: str, count: int) -> list[Message]:
    """A topic's records, once there are so many: a commit returns before every partition shows its own."""
    deadline = time.monotonic() + 20
    while len(records := kafka.records(topic)) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    return records


@pytest.mark.parametrize("fencing", Fencing)
def test_many_bytes_for_a_topic_are_sent_by_groups_of_its_partitions(
    kafka, sink, topic, fencing, monkeypatch
):
    monkeypatch.setattr(kafka_sink, "_LOCAL_BYTES", 0)
    kafka.create_topic(topic, 8)
    parts = [[changes(topic, range(200), str(number)), changes(topic, range(100))] for number in range(3)]
    send(sink(tasks=3, fencing=fencing), *parts)
    records = visible(kafka, topic, 900)
    found: dict[bytes, list[str]] = {}
    for record in records:
        found.setdefault(record.key() or b"", []).append(orjson.loads(record.value() or b"")["v"])
    keys = pa.array([(record.key() or b"").decode() for record in records], pa.large_string())

    assert found == {
        b'{"id":%d}' % key: ["0", "", "1", "", "2", ""] if key < 100 else ["0", "1", "2"]
        for key in range(200)
    }
    assert [record.partition() for record in records] == (key_hashes(keys) % 8).tolist()


@pytest.mark.parametrize("by", ["driver", "executors"])
def test_a_truncate_is_a_barrier_for_all_partitions(kafka, sink, topic, by, monkeypatch):
    if by == "executors":
        monkeypatch.setattr(kafka_sink, "_LOCAL_BYTES", 0)
    kafka.create_topic(topic, 4)
    truncate = batch((topic, None, '{"before":null,"after":null,"source":{},"op":"t"}', None))
    waits: list[int] = []
    flush = Delivery._flush

    def noted(delivery: Delivery) -> None:
        waits.append(delivery._sent)
        flush(delivery)

    monkeypatch.setattr(Delivery, "_flush", noted)
    before, after = (changes(topic, range(20), value) for value in ("before", "after"))
    send(sink(tasks=3), [before], [pa.concat_batches([before, truncate, after])], [after])

    assert waits == [40, 41, 81]
    assert kafka.count(topic) == 81


def test_spark_sends_a_large_turn(kafka, spark: SparkSession, tmp_path, topic):
    settings = KafkaSettings({"bootstrap.servers": kafka.bootstrap})
    sink = Turns(
        KafkaSink(
            settings,
            SparkExecutors(spark),
            tmp_path / "staging",
            monotonic=time.monotonic,
            producers=Producers(2),
        )
    )
    topics = [topic, f"{topic}-b"]
    send(sink, *[[changes(name, range(20_000), "x" * 500)] for name in topics for _ in range(2)])
    sink.close()

    assert [kafka.count(name) for name in topics] == [40_000, 40_000]


def test_a_missing_topic_is_created_by_its_rules(kafka, sink, topic):
    groups = (
        TopicGroup((f"{topic}-.*",), (), 3, 1, {"cleanup.policy": "compact"}),
        TopicGroup(partitions=2, replication_factor=1),
    )
    send(sink(topics=groups), [changes(f"{topic}-a", range(1)), changes(topic, range(1))])

    assert (kafka.partitions(f"{topic}-a"), kafka.partitions(topic)) == (3, 2)
    assert kafka.setting(f"{topic}-a", "cleanup.policy") == "compact"


def test_a_missing_topic_is_named_where_none_is_created(sink, topic, monkeypatch):
    monkeypatch.setattr("adapters.kafka.topics._TIMEOUT_S", 0.5)

    with pytest.raises(SinkError, match=f"{topic}: the topic is missing; create it"):
        send(sink(create_topics=False), [changes(topic, range(1))])


def test_a_topic_that_was_waited_for_in_vain_is_not_waited_for_again(kafka, sink, topic, monkeypatch):
    monkeypatch.setattr("adapters.kafka.topics._TIMEOUT_S", 3.0)
    opened = sink(create_topics=False)
    took_s = []
    for _ in range(2):
        begun_s = time.monotonic()
        with pytest.raises(TopicsRefused, match="the topic is missing"):
            send(opened, [changes(topic, range(1))])
        took_s.append(time.monotonic() - begun_s)
    kafka.create_topic(topic)
    send(opened, [changes(topic, range(1))])

    assert took_s[1] < 3.0 <= took_s[0]
    assert kafka.count(topic) == 1


def test_rules_that_the_broker_refuses_stop_the_job(sink, topic):
    groups = (TopicGroup(replication_factor=3),)
    with pytest.raises(SinkRefused, match=f"{topic}: the topic can't be created: .*replication"):
        send(sink(topics=groups), [changes(topic, range(1))])


@pytest.mark.parametrize("limit", ["producer's", "topic's"])
def test_a_record_too_large_stops_the_job_with_table_and_key(kafka, sink, topic, limit):
    kafka.create_topic(topic, max__message__bytes="20000" if limit == "topic's" else "10000000")
    large = batch((topic, '{"id":7}', '"' + "x" * (30_000 if limit == "topic's" else 2_000_000) + '"', None))

    with pytest.raises(
        SinkRefused, match=rf"{topic}: the event of \d+ bytes with the key '{{\"id\":7}}' is too large"
    ):
        send(sink(), [changes(topic, range(3))], [large])


def test_a_batch_too_large_is_sent_in_smaller_ones(kafka, sink, topic, caplog):
    kafka.create_topic(topic, max__message__bytes="20000")
    opened = sink(client={"linger.ms": "500"})
    with caplog.at_level(logging.WARNING):
        for turn in (1, 2):
            send(opened, [changes(topic, range(100), "x" * 1000)], turn=turn)
    keys = [orjson.loads(record.key() or b"")["id"] for record in kafka.records(topic)]

    assert keys == [*range(100)] * 2
    assert "set producer.batch.size below" in caplog.text


@pytest.mark.parametrize("limit", ["producer's", "topic's"])
def test_records_too_large_go_to_the_topic_for_them(kafka, sink, topic, limit, caplog):
    kafka.create_topic(topic, max__message__bytes="20000" if limit == "topic's" else "10000000")
    size = 30_000 if limit == "topic's" else 2_000_000
    large = batch((topic, '{"id":7}', '"' + "x" * size + '"', None))
    with caplog.at_level(logging.WARNING):
        send(
            # One batch holds all: records of a second one would arrive before the turn is sent again.
            sink(dead_letter_topic=f"{topic}-dead", client={"linger.ms": "500"}),
            [changes(topic, range(3)), large, changes(topic, range(3, 6))],
        )
    (dead,) = kafka.records(f"{topic}-dead")

    assert [record.key() for record in kafka.records(topic)] == [b'{"id":%d}' % key for key in range(6)]
    assert (dead.key(), len(dead.value() or b"")) == (b'{"id":7}', size + 2)
    assert ("topic", topic.encode()) in (dead.headers() or [])
    assert f"went to {topic}-dead" in caplog.text


def test_a_record_too_large_for_the_topic_for_them_as_well_is_refused_by_its_own(kafka, sink, topic):
    for name in (topic, f"{topic}-dead"):
        kafka.create_topic(name, max__message__bytes="20000")
    large = batch((topic, '{"id":7}', '"' + "x" * 30_000 + '"', None))
    said = rf"^{topic}: the event of \d+ bytes .* is too large, and its dead letter was not taken"
    with pytest.raises(TopicsRefused, match=said) as raised:
        send(sink(dead_letter_topic=f"{topic}-dead"), [large, changes(f"{topic}-a", range(3))])

    assert raised.value.reasons.keys() == {topic}
    assert kafka.count(f"{topic}-a") == 3


@pytest.mark.parametrize("by", ["driver", "tasks"])
def test_a_truncate_keeps_its_place(kafka, sink, topic, by, monkeypatch):
    if by == "tasks":
        monkeypatch.setattr(kafka_sink, "_LOCAL_BYTES", 0)
    truncate = batch((topic, None, '{"op":"t"}', None))
    opened = sink(tasks=2)
    for turn in (1, 2):
        before, after = changes(topic, range(50), f"{turn}<"), changes(topic, range(50), f"{turn}>")
        send(opened, [before, truncate], [after], [truncate, changes(f"{topic}-b", range(3))], turn=turn)
    values = [orjson.loads(record.value() or b"") for record in kafka.records(topic)]

    assert [value.get("op") or value["v"] for value in values] == [
        text for turn in (1, 2) for text in (*[f"{turn}<"] * 50, "t", *[f"{turn}>"] * 50, "t")
    ]


def test_truncates_among_several_partitions_are_warned_about_once(kafka, sink, topic, caplog):
    kafka.create_topic(topic, 2)
    truncate = '{"before":null,"after":null,"source":{},"op":"t","ts_ms":1,"transaction":null}'
    opened = sink()
    with caplog.at_level(logging.WARNING):
        for turn in (1, 2):
            for name in (topic, f"{topic}-one"):
                send(opened, [batch((name, None, truncate, None))], turn=turn + 10 * (name != topic))

    assert [record.message for record in caplog.records] == [
        f"{topic} has 2 partitions: a truncate is not in order with the changes in the other ones"
    ]


def test_a_topic_that_was_deleted_is_made_again(kafka, sink, topic):
    opened = sink(client={"delivery.timeout.ms": "2000"})
    send(opened, [changes(topic, range(1))])
    kafka.delete_topic(topic)
    with pytest.raises(SinkError):
        send(opened, [changes(topic, range(1, 2))], turn=2)
    with pytest.raises(TopicsRefused, match=f"{topic}: the topic was recreated, it lacks what"):
        send(opened, [changes(topic, range(1, 2))], turn=2)
    send(opened, [changes(topic, range(1, 2))], turn=2)

    assert kafka.count(topic) == 1


@pytest.mark.parametrize("recreated", TopicRecreated)
def test_a_topic_that_somebody_else_made_anew_is_noticed(kafka, sink, topic, recreated, monkeypatch):
    opened = sink(recreated=recreated)
    send(opened, [changes(topic, range(1))])
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    monkeypatch.setattr("adapters.kafka.topics._LOOK_EVERY_S", 0.0)
    with pytest.raises(SinkRefused, match=f"{topic}: the topic was recreated") as raised:
        send(opened, [changes(topic, range(1, 2))], turn=2)
    send(opened, [changes(topic, range(1, 2))], turn=2)

    reason = getattr(raised.value, "reasons", {}).get(topic)
    asked = {TopicRecreated.STOP: None, TopicRecreated.WARN: False, TopicRecreated.SNAPSHOT: True}
    assert getattr(reason, "snapshot", None) is asked[recreated]
    assert kafka.count(topic) == 1


class TestFencing:
    """`tidemark.sink.kafka.fencing=transactions`."""

    @pytest.mark.parametrize("size", ["small", "large"])
    @pytest.mark.parametrize("has_sent", [True, False])
    def test_whoever_was_replaced_sends_nothing_more(self, kafka, sink, topic, size, has_sent, monkeypatch):
        if size == "large":
            monkeypatch.setattr(kafka_sink, "_LOCAL_BYTES", 0)
        frozen = sink(fencing=Fencing.TRANSACTIONS)
        frozen.resume({})
        if has_sent:
            send(frozen, [changes(topic, range(3))])
        frozen.writer(2).write(0, [changes(topic, range(3, 6), "old")])
        successor = sink(fencing=Fencing.TRANSACTIONS)
        successor.resume(frozen.memory())
        with pytest.raises(SinkError, match="the transactional id"):
            frozen.commit(2)
        send(successor, [changes(topic, range(3, 6), "new")], turn=2)
        values = [orjson.loads(record.value() or b"")["v"] for record in kafka.records(topic)]

        assert values == [""] * (3 * has_sent) + ["new"] * 3

    def test_a_job_that_is_replaced_after_its_turn_was_refused_sends_nothing_more(self, kafka, sink, topic):
        kafka.create_topic(topic, cleanup__policy="compact")
        frozen = sink(fencing=Fencing.TRANSACTIONS)
        with pytest.raises(TopicsRefused):
            send(frozen, [batch((topic, None, "{}", None))])
        frozen.writer(1).write(0, [changes(topic, range(3), "old")])
        # The job looks at its lease, and freezes.
        successor = sink(fencing=Fencing.TRANSACTIONS)
        successor.resume(frozen.memory())
        with pytest.raises(SinkError, match="the transactional id"):
            frozen.commit(1)
        send(successor, [changes(topic, range(3), "new")])
        values = [orjson.loads(record.value() or b"")["v"] for record in kafka.records(topic)]

        assert values == ["new"] * 3

    def test_a_job_that_is_replaced_while_a_batch_is_too_large_sends_nothing_more(
        self, kafka, sink, topic, monkeypatch
    ):
        kafka.create_topic(topic, max__message__bytes="20000")
        frozen, turns = sink(fencing=Fencing.TRANSACTIONS), []
        smaller = TurnSending.make_batches_smaller

        def freeze(sending: TurnSending, refused: BatchRefused) -> None:
            successor = sink(fencing=Fencing.TRANSACTIONS)
            successor.resume(frozen.memory())
            turns.append(successor)
            smaller(sending, refused)

        with monkeypatch.context() as freezing:
            freezing.setattr(TurnSending, "make_batches_smaller", freeze)
            with pytest.raises(SinkError, match=r"a batch of \d+ records is too large"):
                send(frozen, [changes(topic, range(100), "o" * 1000)])
        send(turns[0], [changes(topic, range(3), "new")])
        values = [orjson.loads(record.value() or b"")["v"] for record in kafka.records(topic)]

        assert values == ["new"] * 3

    def test_what_a_frozen_producer_had_sent_is_not_committed(self, kafka, sink, topic, monkeypatch):
        frozen, turns = sink(fencing=Fencing.TRANSACTIONS), []

        def freeze(_delivery: Delivery) -> None:
            successor = sink(fencing=Fencing.TRANSACTIONS)
            successor.resume({})
            turns.append(successor)

        with monkeypatch.context() as freezing:
            freezing.setattr(Delivery, "_flush", freeze)  # between `produce` and the end of the transaction
            with pytest.raises(SinkError, match="the transactional id"):
                send(frozen, [changes(topic, range(3), "old")])
        send(turns[0], [changes(topic, range(3), "new")])
        values = [orjson.loads(record.value() or b"")["v"] for record in kafka.records(topic)]

        assert values == ["new"] * 3

    @pytest.mark.parametrize("fencing", Fencing)
    def test_jobs_of_other_checkpoints_do_not_disturb_each_other(self, kafka, sink, topic, fencing):
        jobs = [sink(fencing=fencing) for _ in "ab"]
        for name, job in zip("ab", jobs, strict=True):
            job.resume({"/transactional.id": f"{topic}-{name}", "/transactional.ids": "2"})
        for turn in range(1, 6):
            for name, job in zip("ab", jobs, strict=True):
                send(job, [changes(topic, range(20), f"{name}{turn}")], turn=turn)
        values = [orjson.loads(record.value() or b"")["v"] for record in kafka.records(topic)]

        for name in "ab":
            theirs = [value for value in values if value.startswith(name)]
            assert theirs == [f"{name}{turn}" for turn in range(1, 6) for _ in range(20)]

    def test_large_turns_are_sent(self, kafka, sink, topic, monkeypatch):
        monkeypatch.setattr(kafka_sink, "_LOCAL_BYTES", 0)
        opened = sink(fencing=Fencing.TRANSACTIONS, tasks=2)
        for turn in (1, 2):
            both = [changes(name, range(turn)) for name in (topic, f"{topic}-b")]
            send(opened, both, turn=turn)

        assert [len(kafka.records(name)) for name in (topic, f"{topic}-b")] == [3, 3]

    @pytest.mark.parametrize("answered", ["before the rest is sent", "while the rest is sent"])
    def test_a_refused_topic_is_named_and_the_turn_done_again_without_it(
        self, kafka, sink, topic, answered, monkeypatch
    ):
        kafka.create_topic(topic, cleanup__policy="compact")
        opened, rest = sink(fencing=Fencing.TRANSACTIONS), range(30_000)
        refused, other = batch((topic, None, "{}", None)), changes(f"{topic}-a", rest, "x" * 1000)
        behind = changes(topic, rest, "x" * 100)  # comes back to the queue, to be sent again
        produce = Delivery._produce

        def produce_late(delivery: Delivery, sent: pa.RecordBatch) -> None:
            produce(delivery, sent)
            if answered == "before the rest is sent":
                time.sleep(1)  # the answer is there, and nobody has asked for it

        with monkeypatch.context() as slowed:
            slowed.setattr(Delivery, "_produce", produce_late)
            with pytest.raises(TopicsRefused, match="a compacted topic takes no record without a key"):
                send(opened, [refused, behind, other])
        send(opened, [other])

        assert [record.key() for record in kafka.records(f"{topic}-a")] == [
            b'{"id":%d}' % key for key in rest
        ]


@pytest.mark.parametrize("made_again", [False, True])
def test_a_topic_made_anew_while_no_job_ran_is_noticed(kafka, sink, topic, made_again):
    first = sink()
    send(first, [changes(topic, range(1))])
    saved = dict(first.memory())
    first.close()
    kafka.delete_topic(topic)
    if made_again:
        kafka.create_topic(topic)
    opened = sink()
    opened.resume(saved)
    with pytest.raises(TopicsRefused, match=f"{topic}: the topic was recreated"):
        send(opened, [changes(topic, range(1, 2))])
    opened.resume(saved)  # as a retry does: it is told once
    send(opened, [changes(topic, range(1, 2))])

    assert kafka.count(topic) == 1
    assert opened.memory()[topic] not in {"", saved[topic]}


@pytest.mark.thorough
def test_a_turn_larger_than_a_quota_takes_within_the_timeout_is_sent_once(kafka, sink, topic, caplog):
    kafka.slow_down(topic, 200_000)
    opened = sink(client={"client.id": topic, "delivery.timeout.ms": "6000"})
    with caplog.at_level(logging.INFO):
        send(opened, [changes(topic, range(2500), "x" * 1000)])
    keys = [orjson.loads(record.key() or b"")["id"] for record in kafka.records(topic)]
    progress = [record.message for record in caplog.records if "of 2500 events sent" in record.message]

    assert keys == [*range(2500)]
    assert progress


class TestRefused:
    """A topic that refuses events: the commit says which, and the others have all of theirs."""

    def refused(
        self, kafka, opened: Turns, topics: list[str], batches: list[pa.RecordBatch]
    ) -> TopicsRefused:
        with pytest.raises(TopicsRefused) as raised:
            send(opened, batches)
        for name in topics:
            assert kafka.count(name) == 100
        return raised.value

    @pytest.mark.parametrize("local_bytes", [0, 64 << 20], ids=["by the executors", "by the driver"])
    def test_a_compacted_topic_without_keys(self, kafka, sink, topic, local_bytes, monkeypatch):
        monkeypatch.setattr(kafka_sink, "_LOCAL_BYTES", local_bytes)
        kafka.create_topic(topic, cleanup__policy="compact")
        keyless = batch((topic, None, "{}", None), (topic, None, "{}", None))
        others = [changes(f"{topic}-{name}", range(50)) for name in "ab"]
        error = self.refused(kafka, sink(), [f"{topic}-a", f"{topic}-b"], [*others, keyless, *others])

        assert error.reasons.keys() == {topic}
        assert str(error).startswith(f"{topic}: the topic refuses events: ")
        assert "a compacted topic takes no record without a key: give its table a key by" in str(error)

    def test_a_row_too_large_and_a_topic_that_is_missing(self, kafka, sink, topic, monkeypatch):
        monkeypatch.setattr("adapters.kafka.topics._TIMEOUT_S", 2.0)
        kafka.create_topic(topic, max__message__bytes="20000")
        kafka.create_topic(f"{topic}-a")
        large = batch((topic, "7", '"' + "x" * 30_000 + '"', None))
        rest = [changes(f"{topic}-a", range(50)), large, changes(f"{topic}-b", range(9))]
        opened = sink(create_topics=False)
        error = self.refused(kafka, opened, [f"{topic}-a"], [*rest, changes(f"{topic}-a", range(50))])

        assert error.reasons.keys() == {topic, f"{topic}-b"}

    @pytest.mark.parametrize("local_bytes", [0, 64 << 20], ids=["by the executors", "by the driver"])
    def test_a_topic_that_is_withheld_gets_nothing(self, kafka, sink, topic, local_bytes, monkeypatch):
        monkeypatch.setattr(kafka_sink, "_LOCAL_BYTES", local_bytes)
        kafka.create_topic(topic)
        opened = sink()
        for turn in (1, 2):
            writer = opened.writer(turn)
            parts = [
                writer.write(number, [changes(topic, range(number, 3)), changes(f"{topic}-a", range(5))])
                for number in range(2)
            ]
            withheld = list(opened.withhold(parts, topic)) if turn == 1 else []
            opened.commit(turn)
            keys = [event["key"] for found in withheld for event in found.to_pylist()]

            assert keys == ([f'{{"id":{key}}}' for key in (0, 1, 2, 1, 2)] if turn == 1 else [])
            assert kafka.count(topic) == (0 if turn == 1 else 5)
            assert kafka.count(f"{topic}-a") == 10 * turn

    def test_the_next_turn_is_taken(self, kafka, sink, topic):
        kafka.create_topic(topic, cleanup__policy="compact")
        opened = sink()
        self.refused(kafka, opened, [], [batch((topic, None, "{}", None))])
        send(opened, [changes(f"{topic}-a", range(3)), changes(topic, range(3))])

        assert kafka.count(f"{topic}-a") == kafka.count(topic) == 3


def test_settings_that_no_client_takes_are_refused_at_once(sink):
    with pytest.raises(ConfigError, match=r"the sink 'kafka' can't be set up: .*ssl\.ca\.location failed"):
        sink(client={"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"})


def test_the_cluster_tells_a_sink_from_others(sink):
    assert sink().identity() == sink().identity() == CLUSTER_ID


def test_brokers_that_do_not_answer_are_named(sink, monkeypatch):
    monkeypatch.setattr("adapters.kafka.topics._TIMEOUT_S", 1.0)

    with pytest.raises(SinkError, match=r"kafka 127\.0\.0\.1:1: not reached: .*[Cc]onnect"):
        sink(client={"bootstrap.servers": "127.0.0.1:1"}).writer(1)


class TestOutage:
    """A broker of the test's own, which it may kill."""

    @pytest.fixture
    def broker(self) -> Iterator[KafkaBroker]:
        with KafkaBroker() as made:
            yield made

    @pytest.fixture
    def opened(self, broker, tmp_path) -> Iterator[Callable[[str], Turns]]:
        sinks: list[Turns] = []

        def open_sink(timeout_ms: str) -> Turns:
            settings = KafkaSettings(
                {"bootstrap.servers": broker.bootstrap, "delivery.timeout.ms": timeout_ms}
            )
            sinks.append(
                Turns(KafkaSink(settings, LocalExecutors(), tmp_path / "staging", monotonic=time.monotonic))
            )
            return sinks[-1]

        yield open_sink
        for target in sinks:
            target.close()

    @pytest.mark.thorough
    def test_a_commit_waits_for_a_broker_that_comes_back(self, broker, opened, topic):
        sink = opened("60000")
        send(sink, [changes(topic, range(10))])
        broker.kill()
        back = threading.Timer(2.0, broker.start)
        back.start()
        send(sink, [changes(topic, range(10, 20))], turn=2)
        back.join()

        assert [record.key() for record in broker.records(topic)] == [b'{"id":%d}' % key for key in range(20)]

    @pytest.mark.thorough
    def test_a_turn_that_was_not_delivered_is_sent_again_in_order(self, broker, opened, topic):
        sink = opened("4000")
        send(sink, [changes(topic, range(10))])
        broker.kill()
        with pytest.raises(
            SinkError, match=f"{topic}: 100 events were not delivered within 4000 ms .*refused"
        ):
            send(sink, [changes(topic, range(100), "first")], turn=2)
        applied = sink.resolve_commit(2)
        broker.start()
        send(sink, [changes(topic, range(100), "again")], turn=2)
        values = [orjson.loads(record.value() or b"")["v"] for record in broker.records(topic)]

        assert not applied
        assert values == [""] * 10 + ["again"] * 100

    def test_no_event_is_lost_or_out_of_order_while_the_broker_is_killed_over_and_over(
        self, broker, opened, topic
    ):
        sink = opened("20000")
        kills, sent, turn = 0, 0, 0
        killing = threading.Thread(target=lambda: None)
        while kills < 3 or killing.is_alive():
            if not killing.is_alive():
                kills += 1
                killing = threading.Thread(target=self.kill_in_a_while, args=[broker])
                killing.start()
            turn += 1
            while not sink.resolve_commit(turn):
                with contextlib.suppress(SinkError):
                    send(sink, [changes(topic, range(sent, sent + 2000), "x" * 200)], turn=turn)
            sent += 2000
        keys = [orjson.loads(record.key() or b"")["id"] for record in broker.records(topic)]
        counted = Counter(keys)

        assert counted.keys() == set(range(sent))
        assert list(dict.fromkeys(keys)) == list(range(sent))
        # What comes again comes as a run of its own, from a turn's first event on.
        assert all(after == before + 1 or after % 2000 == 0 for before, after in pairwise(keys))

    @staticmethod
    def kill_in_a_while(broker: KafkaBroker) -> None:
        time.sleep(1.0)
        broker.kill()
        broker.start()
