"""A real job into a real broker: what its topics say is what the source holds, whatever happens meanwhile."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from adapters.kafka.beside.sending import RowSending
from adapters.kafka.settings import Fencing
from adapters.postgres.job import building
from adapters.source.assembly import job as source_job
from adapters.source.assembly import wiring
from adapters.source.assembly.supplied import Onlookers
from adapters.system import system_clock
from engine.config import parse
from engine.errors import SinkRefused
from engine.isolation.incomplete import Cause
from tests.driven import SIGNAL_TABLE, Driven, driven, properties
from tests.replay import compare, replay, shape_of
from tests.servers.kafka import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from engine.job.loop import Job
    from engine.job.snapshots.emission import Emission
    from signals.answers import Answer
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
FENCINGS = (pytest.param(Fencing.NONE, marks=pytest.mark.thorough), Fencing.TRANSACTIONS)

TABLE = ("public", "items")
TOPIC = "tm.public.items"
ROWS = 3000


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as made:
        yield made


@pytest.fixture
def items(database: Database) -> Database:
    database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE items (id int PRIMARY KEY, v text)",
        f"INSERT INTO items SELECT g, 'v' || g FROM generate_series(1, {ROWS}) g",
    )
    return database


def into(broker: KafkaBroker, **more: str) -> dict[str, str]:
    return {"tidemark__sink": "kafka", "producer__bootstrap__servers": broker.bootstrap, **more}


def ask_for_a_snapshot(database: Database) -> None:
    with database.connect() as connection:
        data = '{"data-collections": ["public.items"]}'
        connection.execute("INSERT INTO signals VALUES ('s', 'execute-snapshot', %s)", [data])


def write(database: Database, number: int) -> None:
    with database.connect() as connection:
        connection.execute("UPDATE items SET v = %s WHERE id %% 7 = %s", [f"updated {number}", number % 7])
        connection.execute("DELETE FROM items WHERE id = %s", [10 * number + 1])
        connection.execute("UPDATE items SET id = -id WHERE id = %s", [10 * number + 2])
        connection.execute("INSERT INTO items VALUES (%s, 'new')", [100_000 + number])


def assert_replayed(broker: KafkaBroker, database: Database, directory: Path) -> None:
    """Apply what a consumer reads, partition by partition, and compare."""
    broker.save(TOPIC, directory / "consumed")
    with database.connect() as connection:
        shape = shape_of(connection, TABLE)
        replay(connection, directory / "consumed", {TOPIC: shape})
        compared = compare(connection, TABLE)
    assert compared.equal, compared


def assert_replayed_over(broker: KafkaBroker, database: Database) -> None:
    """The same on top of the first rows, which no event tells of."""
    rows = {str(key): f"v{key}" for key in range(1, ROWS + 1)}
    for record in broker.records(TOPIC):
        key = str(orjson.loads(record.key() or b"")["id"])
        after = record.value() and orjson.loads(record.value() or b"")["after"]
        rows = {name: text for name, text in rows.items() if name != key} | (
            {key: after["v"]} if after else {}
        )
    with database.connect() as connection:
        found = connection.execute("SELECT id::text, v FROM items").fetchall()

    assert rows == dict(found)


@contextmanager
def running(database: Database, directory: Path, spark: SparkSession, **more: str) -> Iterator[Driven]:
    """A job that turns by itself, in a thread."""
    answers: list[Answer] = []
    stop = threading.Event()
    onlookers = Onlookers(observe=lambda _seen: None, answer=answers.append)
    settings = parse(properties(database, directory, **more))
    with building(settings, spark, onlookers, clock=system_clock(stop.wait)) as job:
        died: list[BaseException] = []
        thread = threading.Thread(target=_run, args=(job, stop, died))
        thread.start()
        try:
            yield Driven(job, directory, answers)
        finally:
            stop.set()
            thread.join(60)
    assert not died, died


def _run(job: Job, stop: threading.Event, died: list[BaseException]) -> None:
    try:
        job.run(stop.is_set)
    except BaseException as error:  # noqa: BLE001  (told at the end)
        died.append(error)


@pytest.mark.parametrize("fencing", FENCINGS)
def test_topics_replayed_are_the_source(broker, items, tmp_path, spark, fencing):
    more = {"topic__creation__default__partitions": "3", "tidemark__sink__kafka__fencing": fencing.value}
    with driven(items, tmp_path, spark, **into(broker, **more)) as job:
        ask_for_a_snapshot(items)
        for number in range(10):
            write(items, number)
            job.job.turn()
        job.until_answered("finished")
        job.until_drained(items)

    assert broker.partitions(TOPIC) == 3
    assert_replayed(broker, items, tmp_path)


@pytest.mark.parametrize("fencing", FENCINGS)
def test_rows_sent_beside_the_turns_replayed_are_the_source(
    broker, items, tmp_path, spark, fencing, monkeypatch
):
    sent = beside(monkeypatch)
    more = {"topic__creation__default__partitions": "3", "tidemark__sink__kafka__fencing": fencing.value}
    with driven(items, tmp_path, spark, **into(broker, **more)) as job:
        ask_for_a_snapshot(items)
        for number in range(30):
            write(items, number)
            job.job.turn()
        job.until_answered("finished")
        job.until_drained(items)

    assert sent
    assert_replayed(broker, items, tmp_path)


def test_processes_killed_while_they_send_lose_nothing(broker, items, tmp_path, spark, monkeypatch):
    sent = beside(monkeypatch)
    kills = 0
    with running(items, tmp_path, spark, **into(broker)) as job:
        until(lambda: job.job.state.position)
        ask_for_a_snapshot(items)
        for number in range(200):
            write(items, number)
            if kills < 3 and len(sent) > kills:
                time.sleep(0.01 * kills)
                kills += 1
                sink: Any = job.job._parts.sink
                sink._rows._senders.end()
            if job.answered("finished"):
                break
            time.sleep(0.1)
        until(lambda: job.answered("finished"))
        with items.connect() as connection:
            connection.execute("INSERT INTO items VALUES (999999, 'last')")
        until(lambda: b"999999" in b"".join(record.key() or b"" for record in broker.records(TOPIC)))

    assert kills == 3
    assert_replayed(broker, items, tmp_path)


def beside(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Let windows of few rows go beside the turns; the list is of the runs that do."""
    sent: list[object] = []
    begin = RowSending.begin

    def noted(sending: RowSending, emission: Emission) -> object:
        sent.append(emission)
        return begin(sending, emission)

    monkeypatch.setattr(wiring, "LOCAL_ROWS", 50)
    monkeypatch.setattr(RowSending, "begin", noted)
    return sent


@pytest.mark.thorough
def test_a_job_killed_between_sending_and_saving_repeats_and_loses_nothing(
    broker, items, tmp_path, spark, monkeypatch
):
    class Killed(BaseException):
        pass

    def die(*_given: object) -> None:
        raise Killed

    with driven(items, tmp_path, spark, **into(broker)) as job:
        ask_for_a_snapshot(items)
        write(items, 0)
        job.until(lambda: broker.partitions(TOPIC))
        write(items, 1)
        monkeypatch.setattr(type(job.job._parts.store), "promote", die)
        with pytest.raises(Killed):
            job.until_drained(items)
    monkeypatch.undo()
    sent = broker.count(TOPIC)
    with driven(items, tmp_path, spark, **into(broker)) as job:
        write(items, 2)
        job.until_answered("finished")
        job.until_drained(items)

    assert sent > 0
    assert_replayed(broker, items, tmp_path)


@pytest.mark.thorough
def test_a_job_waits_for_a_broker_that_is_down_and_goes_on(broker, items, tmp_path, spark, caplog):
    with running(items, tmp_path, spark, **into(broker, producer__delivery__timeout__ms="1500")) as job:
        until(lambda: job.job.state.position)
        write(items, 0)
        until(lambda: broker.partitions(TOPIC))
        broker.kill()
        ask_for_a_snapshot(items)
        write(items, 1)
        until(lambda: "trying again" in caplog.text)
        broker.start()
        write(items, 2)
        until(lambda: job.answered("finished"))
        with items.connect() as connection:
            connection.execute("INSERT INTO items VALUES (999999, 'last')")
        until(lambda: b"999999" in b"".join(record.key() or b"" for record in broker.records(TOPIC)))

    assert_replayed(broker, items, tmp_path)


@pytest.mark.thorough
def test_two_jobs_with_checkpoints_of_their_own_share_topics(broker, items, tmp_path, spark):
    # Each tells everything, so what a consumer has in the end is right, and neither fences the other.
    fenced = into(broker, tidemark__sink__kafka__fencing="transactions")
    other = {**fenced, "slot__name": f"other_{items.name}"}
    with (
        driven(items, tmp_path / "a", spark, **fenced) as one,
        driven(items, tmp_path / "b", spark, **other) as two,
    ):
        for number in range(10):
            write(items, number)
            one.job.turn()
            two.job.turn()
        one.until_drained(items)
        two.until_drained(items)
    inserted = sum(b'"op":"c"' in (record.value() or b"") for record in broker.records(TOPIC))

    assert inserted == 2 * 20  # of each number a new row, and one under a new key
    assert_replayed_over(broker, items)


@pytest.mark.thorough
def test_a_topic_made_anew_stops_the_job_where_that_is_wanted(broker, items, tmp_path, spark, monkeypatch):
    monkeypatch.setattr("adapters.kafka.topics._LOOK_EVERY_S", 0.0)
    with driven(items, tmp_path, spark, **into(broker, tidemark__sink__topic__recreated="stop")) as job:
        write(items, 1)
        job.until_drained(items)
        broker.recreate_topic(TOPIC)
        write(items, 2)
        with pytest.raises(
            SinkRefused, match=f"{TOPIC}: the topic was recreated, it lacks what was sent before"
        ):
            job.job.run(lambda: False)

    assert broker.count(TOPIC) == 0


@pytest.mark.thorough
def test_what_is_too_large_for_its_topic_stops_the_job_where_that_is_wanted(broker, items, tmp_path, spark):
    with driven(items, tmp_path, spark, **into(broker, tidemark__table__errors="stop")) as job:
        with items.connect() as connection:
            connection.execute("UPDATE items SET v = repeat('x', 2000000) WHERE id = 1")
        with pytest.raises(
            SinkRefused, match=rf"{TOPIC}: the event of \d+ bytes with the key '{{\"id\":1}}' is too"
        ):
            job.job.run(lambda: False)


def test_a_topic_that_refuses_events_holds_up_its_own_table_alone(broker, items, tmp_path, spark):
    broker.create_topic("tm.public.large", max__message__bytes="20000")
    with items.connect() as connection:
        connection.execute("CREATE TABLE large (id int PRIMARY KEY, v text)")
    with running(items, tmp_path, spark, **into(broker)) as job:
        until(lambda: job.job.state.position)
        with items.connect() as connection:
            connection.execute("INSERT INTO large VALUES (1, repeat('x', 50000))")
        until(lambda: job.job.state.incomplete)
        write(items, 0)
        until(lambda: broker.partitions(TOPIC))
        (aside,) = job.job.state.incomplete
        broker.configure("tm.public.large", max__message__bytes="100000")
        with items.connect() as connection:
            data = '{"data-collections": ["public.large"]}'
            connection.execute("INSERT INTO signals VALUES ('l', 'execute-snapshot', %s)", [data])
        until(lambda: job.answered("finished"))
        ask_for_a_snapshot(items)
        until(lambda: len(job.answered("finished")) > 1)

        assert (str(aside.collection), aside.cause, aside.aside) == ("public.large", Cause.REFUSED, True)
        assert job.job.state.incomplete == ()
    assert broker.count("tm.public.large") == 1
    assert_replayed(broker, items, tmp_path)


@pytest.mark.thorough
def test_a_topic_that_takes_events_again_gets_what_was_kept_before_anything_newer(
    broker, items, tmp_path, spark, monkeypatch
):
    pace_of = wiring.pace
    monkeypatch.setattr(
        source_job, "pace", lambda *given, **more: replace(pace_of(*given, **more), probe_s=1.0)
    )
    large = "tm.public.large"
    broker.create_topic(large, max__message__bytes="20000")
    with items.connect() as connection:
        connection.execute("CREATE TABLE large (id int PRIMARY KEY, v text)")
    with running(items, tmp_path, spark, **into(broker)) as job:
        until(lambda: job.job.state.position)
        with items.connect() as connection:
            connection.execute("INSERT INTO large SELECT g, 'small' FROM generate_series(1, 50) g")
            connection.execute("INSERT INTO large VALUES (51, repeat('x', 50000))")
            connection.execute("INSERT INTO large SELECT g, 'small' FROM generate_series(52, 100) g")
        until(lambda: job.job.state.incomplete)
        write(items, 0)
        until(lambda: broker.partitions(TOPIC))
        until(lambda: job.job.state.incomplete[0].kept == 50)
        with items.connect() as connection:
            connection.execute("UPDATE large SET v = 'newer' WHERE id IN (1, 51, 100)")
        broker.configure(large, max__message__bytes="100000")
        until(lambda: not job.job.state.incomplete)
        with items.connect() as connection:
            connection.execute("DELETE FROM large WHERE id = 2")
        ask_for_a_snapshot(items)
        until(lambda: job.answered("finished"))
    sent = [
        (orjson.loads(record.value() or b'{"op":null}')["op"], orjson.loads(record.key() or b"")["id"])
        for record in broker.records(large)
    ]
    # Of what was sent more than once, the last counts.
    order = list(dict.fromkeys(reversed(sent)))[::-1]

    assert order == [
        *(("c", key) for key in range(1, 101)),
        *(("u", key) for key in (1, 51, 100)),
        *(("d", 2), (None, 2)),
    ]
    assert len(sent) < 300
    assert not list((tmp_path / "state" / "dead-letters").iterdir())
    assert_replayed(broker, items, tmp_path)


def until(condition) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, "not within 240 s"
        time.sleep(0.1)
