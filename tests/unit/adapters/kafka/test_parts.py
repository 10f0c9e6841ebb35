"""What the Kafka sink decides without a broker: files, shares, configuration, truncates."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from adapters.kafka.client import client
from adapters.kafka.errors import Reason, message_of
from adapters.kafka.parts import TurnParts
from adapters.kafka.producers.records import between_truncates, of_topics, truncated
from adapters.staging.turn_parts import ArrowPart
from engine.events.batch import EVENTS
from tests.batches import batch, numbered

TRUNCATE = '{"before":null,"after":null,"source":{"table":"t"},"op":"t","ts_ms":1,"transaction":null}'


def test_parts_are_read_in_their_order_with_what_each_topic_has(tmp_path: Path):
    turn = TurnParts(tmp_path, 1 << 20)
    elsewhere = pickle.loads(pickle.dumps(turn))  # noqa: S301  our own bytes
    second = [
        numbered(),
        batch(("a", "1", "{}", None), ("b", "2", None, None)),
        batch(("c", "3", "{}", None)),
    ]
    parts = [
        elsewhere.write(10, [batch(("b", "4", "{}", None))]),
        turn.write(2, second),
        turn.write(3, [numbered()]),
    ]
    for attempt in (turn.attempt(parts), turn.spill(parts), turn.attempt(parts)):
        keys = [key for record_batch in attempt.batches() for key in record_batch.column("key").to_pylist()]

        assert keys == ["1", "2", "3", "4"]
        assert attempt.events() == {"a": 1, "b": 2, "c": 1}
    assert [part.path.name for part in attempt.parts if isinstance(part, ArrowPart)] == [
        "part-00002.arrow",
        "part-00010.arrow",
    ]


def test_a_part_that_is_written_again_replaces_itself(tmp_path: Path):
    turn = TurnParts(tmp_path, 1 << 20)
    turn.write(0, [batch(("a", "1", "{}", None))])
    part = turn.write(0, [batch(("a", "2", "{}", None))])

    assert [record_batch.column("key").to_pylist() for record_batch in turn.attempt([part]).batches()] == [
        ["2"]
    ]


def test_parts_beyond_the_bound_are_files(tmp_path: Path):
    one = batch(("a", "1", "{}", None))
    turn = TurnParts(tmp_path, one.nbytes)
    second = turn.write(1, [one])
    turn.write(0, [one])
    attempt = turn.attempt([second, turn.write(0, [batch(("a", "0", "{}", None))])])

    assert [isinstance(part, ArrowPart) for part in attempt.parts] == [True, False]
    assert [batch.column("key").to_pylist() for batch in attempt.batches()] == [["0"], ["1"]]


def test_rows_are_held_though_their_file_is_gone(tmp_path: Path):
    path = tmp_path / "rows.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, EVENTS) as stream:
        stream.write_batch(batch(("a", "1", "{}", None)))
    turn = TurnParts(tmp_path, 1 << 20)
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as rows:
        part = turn.write(0, rows)
    path.unlink()

    assert turn.attempt([part]).bytes > 0
    assert [record_batch.column("key").to_pylist() for record_batch in turn.attempt([part]).batches()] == [
        ["1"]
    ]


def test_a_task_takes_its_topics_alone():
    rows = batch(*((topic, str(number), "{}", None) for number, topic in enumerate("abacab")))

    assert of_topics(rows, frozenset("ac")).column("key").to_pylist() == ["0", "2", "3", "4"]
    assert of_topics(rows, frozenset("abc")) is rows
    assert of_topics(rows, frozenset("x")).num_rows == 0


def test_truncates_of_these_topics_come_alone():
    rows = batch(
        ("t", "1", "{}", None),
        ("t", None, TRUNCATE, None),
        ("u", None, TRUNCATE, None),
        ("t", None, "{}", None),
        ("t", None, TRUNCATE, None),
    )
    pieces = [(piece.column("topic").to_pylist(), alone) for piece, alone in between_truncates(rows, {"t"})]

    assert pieces == [(["t"], False), (["t"], True), (["u", "t"], False), (["t"], True)]


@pytest.mark.parametrize("value", [TRUNCATE, f'{{"schema":{{}},"payload":{TRUNCATE}}}'])
def test_a_truncate_is_known_by_having_no_key_and_no_row(value: str):
    rows = batch(
        ("truncated", None, value, None),
        ("keyed", "1", value, None),
        ("keyless", None, '{"before":null,"after":{"t":"\\"op\\":\\"t\\""},"source":{},"op":"c"}', None),
        ("tombstone", None, None, None),
    )

    assert truncated(rows) == {"truncated"}


def test_what_delivery_rests_on_can_not_be_set_otherwise():
    config = client(
        {"acks": "1", "enable.idempotence": "false", "partitioner": "random", "linger.ms": "9"}, Reason()
    )

    assert (config["acks"], config["enable.idempotence"], config["partitioner"]) == (
        "all",
        True,
        "murmur2_random",
    )
    assert config["linger.ms"] == "9"


def test_the_buffer_has_room_for_the_largest_record():
    config = client({"message.max.bytes": "1000000000"}, Reason())

    assert config["queue.buffering.max.kbytes"] * 1024 > 1_000_000_000


def test_the_reason_is_why_a_broker_is_down_rather_than_that_all_are():
    reason = Reason()
    reason(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    reason(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))

    assert reason.with_cause("not reached") == "not reached (connection refused)"
    assert Reason().with_cause("not reached") == "not reached"
    assert (
        message_of(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "Broker: Message size too large"))
        == "message size too large"
    )


def test_a_part_beyond_the_bound_is_written_as_it_comes(tmp_path):
    drawn = []

    def batches():
        for number in range(4):
            drawn.append(len(list(tmp_path.iterdir())))
            yield numbered(number)

    turn = TurnParts(tmp_path, numbered(0).nbytes)
    part = turn.write(0, batches())

    assert drawn == [0, 0, 1, 1]
    assert sum(batch.num_rows for batch in turn.attempt([part]).batches()) == 4


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("SASL SCRAM-SHA-512: Authentication failed", True),
        (
            "SASL OAUTHBEARER mechanism handshake failed: Broker: Request not valid in current SASL state",
            False,
        ),
    ],
)
def test_a_login_that_expires_amid_the_first_one_is_not_refused(text, refused):
    reason = Reason()
    reason(KafkaError(KafkaError._AUTHENTICATION, text))

    assert reason.login_refused is refused
    assert reason.take_refusal()
