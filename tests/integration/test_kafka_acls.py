"""A broker that allows the job little: what is asked before there is a slot, what becomes of one table."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from confluent_kafka.admin._acl import AclOperation

from adapters.postgres.job import building
from adapters.source.assembly import job as source_job
from adapters.source.assembly import wiring
from adapters.source.assembly.supplied import NOBODY
from engine.config import parse
from engine.errors import SinkError
from tests.command import Command
from tests.driven import SIGNAL_TABLE, TIMEOUT_S, driven, properties
from tests.servers.kafka import AS_JOB, WITH_ACLS, KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration

LOG = {"id": "hello", "type": "log", "data": {"message": "hello"}}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(security=WITH_ACLS) as made:
        yield made


@pytest.fixture
def tables(database: Database) -> Database:
    database.execute(
        SIGNAL_TABLE, "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)"
    )
    return database


def into(broker: KafkaBroker, database: Database, **more: str) -> dict[str, str]:
    """A configuration for topics of this database's own."""
    login = {f"producer__{name.replace('.', '__')}": text for name, text in AS_JOB.items()}
    return {
        "topic__prefix": database.name,
        "tidemark__sink": "kafka",
        "producer__bootstrap__servers": broker.bootstrap,
        **login,
        **more,
    }


def slots(database: Database) -> int:
    with database.connect() as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
        ).fetchone()
    return int(row[0]) if row else -1


def start(database: Database, directory: Any, spark: Any, **more: str) -> None:
    with building(parse(properties(database, directory, **more)), spark, NOBODY) as job:
        job.settle()
        job.start()


@pytest.mark.parametrize("topics", ["there", "missing"])
def test_a_job_that_may_write_to_no_topic_makes_no_slot(broker, tables, tmp_path, spark, topics):
    if topics == "there":
        for table in ("signals", "a", "b"):
            broker.create_topic(f"{tables.name}.public.{table}")
            broker.allow("job", AclOperation.DESCRIBE, f"{tables.name}.public.{table}")
    before = sorted(broker.topics())
    with pytest.raises(SinkError, match=rf"{tables.name}\.public\.a: the topic .*; let the job's user write"):
        start(tables, tmp_path, spark, **into(broker, tables))

    assert slots(tables) == 0
    assert sorted(broker.topics()) == before
    assert not any(broker.count(name) for name in before if name.startswith(f"{tables.name}."))


@pytest.mark.parametrize("fencing", ["none", "transactions"])
def test_a_table_whose_topic_is_forbidden_is_told_of_and_goes_on_when_it_is_allowed(
    broker, tables, tmp_path, spark, caplog, monkeypatch, fencing
):
    pace_of = wiring.pace
    monkeypatch.setattr(
        source_job, "pace", lambda *given, **more: replace(pace_of(*given, **more), probe_s=1.0)
    )
    topic_a, topic_b = f"{tables.name}.public.a", f"{tables.name}.public.b"
    for name in (topic_a, topic_b, f"{tables.name}.public.signals"):
        broker.create_topic(name)
    broker.allow("job", AclOperation.WRITE, topic_b)
    broker.allow("job", AclOperation.DESCRIBE, topic_a)
    broker.allow_transactions("job", AclOperation.WRITE, f"tidemark-{tables.name}-")
    said = into(broker, tables, tidemark__sink__kafka__fencing=fencing)
    with caplog.at_level(logging.WARNING), driven(tables, tmp_path, spark, **said) as job:
        told = caplog.text
        made = slots(tables)
        for key in range(3):
            with tables.connect() as connection:
                connection.execute("INSERT INTO a VALUES (%s)", [key])
                connection.execute("INSERT INTO b VALUES (%s)", [key])
        deadline = time.monotonic() + TIMEOUT_S

        def until(*, holds: bool) -> bool:
            return holds or time.monotonic() > deadline

        job.job.run(lambda: until(holds=bool(job.job.state.incomplete) and broker.count(topic_b) >= 3))
        aside = [str(entry.collection) for entry in job.job.state.incomplete]
        broker.allow("job", AclOperation.WRITE, topic_a)
        job.job.run(lambda: until(holds=not job.job.state.incomplete))

    assert f"{topic_a}: the topic may not be written to; let the job's user write" in told
    assert f"{topic_b}: " not in told
    assert (made, aside) == (1, ["public.a"])
    assert [orjson.loads(record.key() or b"")["id"] for record in broker.records(topic_a)] == [0, 1, 2]
    assert {orjson.loads(record.key() or b"")["id"] for record in broker.records(topic_b)} == {0, 1, 2}


def test_topics_that_may_be_made_are_made_with_the_first_event(broker, tables, tmp_path, spark):
    broker.allow("job", AclOperation.CREATE, f"{tables.name}.", prefixed=True)
    broker.allow("job", AclOperation.WRITE, f"{tables.name}.", prefixed=True)
    with driven(tables, tmp_path, spark, **into(broker, tables)) as job:
        before = [name for name in broker.topics() if name.startswith(f"{tables.name}.")]
        with tables.connect() as connection:
            connection.execute("INSERT INTO a VALUES (1)")
        job.until(lambda: broker.partitions(f"{tables.name}.public.a"))

    assert before == []
    assert broker.count(f"{tables.name}.public.a") == 1


def test_the_rights_that_security_md_names_are_enough(broker, tables, tmp_path, spark):
    # Transactional ids included: a second job must take those of the first one away.
    signals, consumer = f"{tables.name}.control", "signal__consumer__"
    broker.create_topic(signals)
    for operation in (AclOperation.WRITE, AclOperation.CREATE):
        broker.allow("job", operation, f"{tables.name}.public.", prefixed=True)
    broker.allow("job", AclOperation.READ, signals)
    broker.allow_transactions("job", AclOperation.WRITE, f"tidemark-{tables.name}-")
    said = into(
        broker,
        tables,
        tidemark__sink__kafka__fencing="transactions",
        signal__kafka__topic=signals,
        signal__kafka__bootstrap__servers=broker.bootstrap,
        **{f"{consumer}{name.replace('.', '__')}": text for name, text in AS_JOB.items()},
    )
    for key in (1, 2):
        with driven(tables, tmp_path, spark, **said) as job:
            with tables.connect() as connection:
                connection.execute("INSERT INTO a VALUES (%s)", [key])
            broker.send(signals, orjson.dumps(LOG).decode(), tables.name)
            job.until(lambda: job.answered("accepted"))
            job.until_drained(tables)

    keys = [orjson.loads(record.key() or b"")["id"] for record in broker.records(f"{tables.name}.public.a")]
    assert keys == [1, 2]


def test_a_wrong_password_ends_the_command_with_2_and_makes_no_slot(broker, tables, tmp_path):
    login = AS_JOB["sasl.jaas.config"].replace("secret", "n0t-the-one")
    said = properties(tables, tmp_path, **into(broker, tables, producer__sasl__jaas__config=login))

    with Command(said, tmp_path) as job:
        code = job.ended(TIMEOUT_S)

    assert code == 2, job.log
    assert "Traceback" not in job.log
    assert "n0t-the-one" not in job.log
    assert slots(tables) == 0
