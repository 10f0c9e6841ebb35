"""The cases of Debezium's AbstractIncrementalSnapshotTest, by their names there, on two sources.

`make debezium-cases` runs them on PostgreSQL and on the stand-in for SQL Server. Where our behaviour differs
on purpose, the test says what it is instead. Those with a physical row identifier are left out: only Oracle's
connector has one.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.driven import Driven, driven, replayed_rows
from tests.driven_sqlserver import SIGNALS, DrivenSqlServer, driven_sqlserver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database
    from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration

ROWS = 1_000
EXPECTED = {number + 1: number for number in range(ROWS)}
SMALL = {"incremental__snapshot__chunk__size": "50", "tidemark__window__max__chunks": "2"}


@dataclass
class Subject:
    """A source with a signal table. `prefix` qualifies names in signals, `schema` in SQL."""

    directory: Path
    spark: SparkSession
    prefix: str
    schema: str

    def execute(self, *statements: str) -> None:
        raise NotImplementedError

    def capture(self, table: str) -> None:
        """Have a table's changes captured."""

    def job(self, **more: str) -> Any:
        raise NotImplementedError

    def drain(self, job: Any) -> None:
        raise NotImplementedError

    def table(self, name: str, columns: str = "pk int PRIMARY KEY, aa int", *, rows: int = ROWS) -> None:
        """A table with the values 0 to `rows` - 1 under the keys from 1 on."""
        self.execute(f"CREATE TABLE {self.schema}.{name} ({columns})")
        self.capture(name)
        self.insert(name, [(number + 1, number) for number in range(rows)])

    def insert(self, name: str, rows: Sequence[tuple[object, ...]]) -> None:
        if rows:
            values = ", ".join(f"({', '.join(map(str, row))})" for row in rows)
            self.execute(f"INSERT INTO {self.schema}.{name} VALUES {values}")

    def send(self, kind: str, *tables: str, **data: Any) -> None:
        """Commit a signal that names these tables of the schema."""
        self.raw(kind, [f"{self.prefix}{name}" for name in tables], **data)

    def raw(self, kind: str, names: Sequence[str], **data: Any) -> None:
        fields = {"type": "incremental", **({"data-collections": list(names)} if names else {}), **data}
        text = orjson.dumps({name.replace("_", "-"): value for name, value in fields.items()}).decode()
        quoted = text.replace("'", "''")
        self.execute(f"INSERT INTO {self.schema}.signals VALUES ('ad-hoc', '{kind}', '{quoted}')")


class OnPostgres(Subject):
    def __init__(self, database: Database, directory: Path, spark: SparkSession) -> None:
        super().__init__(directory, spark, "public.", "public")
        self.database = database
        self.execute("CREATE TABLE signals (id text, type text, data text)")

    def execute(self, *statements: str) -> None:
        with self.database.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def job(self, **more: str) -> Any:
        return driven(self.database, self.directory, self.spark, **(SMALL | more))

    def drain(self, job: Driven) -> None:
        job.until_drained(self.database)


class OnSqlServer(Subject):
    def __init__(
        self, server: SqlServer, shop: StandInDatabase, directory: Path, spark: SparkSession
    ) -> None:
        super().__init__(directory, spark, "shop.dbo.", "dbo")
        self.server, self.shop = server, shop
        self.execute(SIGNALS.replace("PRIMARY KEY", "NOT NULL"))
        self.capture("signals")
        server.start_capture(0.02)

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.shop.execute(statement)

    def capture(self, table: str) -> None:
        self.shop.enable_cdc(f"dbo.{table}")

    def job(self, **more: str) -> Any:
        settings = {"signal__data__collection": "shop.dbo.signals"} | SMALL | more
        return driven_sqlserver(self.server, self.directory, self.spark, **settings)

    def drain(self, job: DrivenSqlServer) -> None:
        self.server.stop_capture()
        self.shop.capture()
        job.until_streamed(self.shop)
        self.server.start_capture(0.02)


@pytest.fixture(params=["postgres", "sqlserver"])
def subject(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Subject:
    if request.param == "postgres":
        return OnPostgres(request.getfixturevalue("database"), tmp_path, spark)
    server = request.getfixturevalue("sqlserver")
    return OnSqlServer(server, request.getfixturevalue("shop"), tmp_path, spark)


def values(job: Driven, table: str = "a") -> dict[int, int]:
    """What a consumer has of a table: values by key."""
    return {key: row["aa"] for key, row in replayed_rows(job.events(table), "pk").items()}


def reads(job: Driven, table: str = "a") -> list[int]:
    """The keys of the READ events, in order."""
    found = [one["value"]["after"] for one in job.events(table) if one["value"]]
    ops = [one["value"]["op"] for one in job.events(table) if one["value"]]
    return [row["pk"] for row, op in zip(found, ops, strict=True) if op == "r"]


@contextmanager
def begun(subject: Subject, *tables: str) -> Iterator[Driven]:
    """A job that has sent some rows of a snapshot of these tables, and not all."""
    with subject.job() as job:
        subject.send("execute-snapshot", *tables)
        job.until(lambda: reads(job, tables[0]))
        assert len(reads(job, tables[0])) < ROWS
        yield job


def test_snapshot_only(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "a")
        job.until_answered("finished")

        assert values(job) == EXPECTED
        assert sorted(reads(job)) == sorted(EXPECTED)


def test_invalid_tables_in_the_list(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "invalid1", "a", "invalid2")
        job.until_answered("finished")

        assert values(job) == EXPECTED
        assert "no collection matches" in job.answered("accepted")[0].text


def test_inserts(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "a")
        subject.insert("a", [(number + 1, number) for number in range(ROWS, 2 * ROWS)])
        job.until_answered("finished")
        subject.drain(job)

        assert values(job) == {number + 1: number for number in range(2 * ROWS)}


def test_inserts_with_kafka_snapshot_signal(subject: Subject, kafka: KafkaBroker, topic: str):
    subject.table("a")
    kafka.create_topic(topic)
    more = {
        "signal__enabled__channels": "source,kafka",
        "signal__kafka__topic": topic,
        "signal__kafka__bootstrap__servers": kafka.bootstrap,
    }
    with subject.job(**more) as job:
        data = {"type": "INCREMENTAL", "data-collections": [f"{subject.prefix}a"]}
        kafka.send(topic, orjson.dumps({"type": "execute-snapshot", "data": data}).decode(), "tm")
        subject.insert("a", [(number + 1, number) for number in range(ROWS, 2 * ROWS)])
        job.until_answered("finished")
        subject.drain(job)

        assert values(job) == {number + 1: number for number in range(2 * ROWS)}


def test_inserts_without_pks(subject: Subject):
    """A table without a key needs a surrogate key here."""
    subject.table("a", "pk int, aa int")
    with subject.job() as job:
        subject.send("execute-snapshot", "a", surrogate_key="pk")
        job.until_answered("finished")

        assert sorted(reads(job)) == sorted(EXPECTED)


def test_inserts_without_pks_and_null(subject: Subject):
    subject.table("a", "pk int, aa int", rows=0)
    subject.insert("a", [("NULL", 1), (1, 2), ("NULL", 3), (2, 4)])
    with subject.job(incremental__snapshot__chunk__size="1") as job:
        subject.send("execute-snapshot", "a", surrogate_key="pk")
        job.until_answered("finished")

        found = [one["value"]["after"] for one in job.events("a")]
        assert sorted(row["aa"] for row in found) == [1, 2, 3, 4]


def test_updates(subject: Subject):
    subject.table("a")
    with begun(subject, "a") as job:
        subject.execute(f"UPDATE {subject.schema}.a SET aa = aa + 2000")
        job.until_answered("finished")
        subject.drain(job)

        assert values(job) == {key: value + 2000 for key, value in EXPECTED.items()}


def test_updates_with_restart(subject: Subject):
    subject.table("a")
    with begun(subject, "a"):
        subject.execute(f"UPDATE {subject.schema}.a SET aa = aa + 2000")
    with subject.job() as job:
        job.until_answered("finished")
        subject.drain(job)

        assert values(job) == {key: value + 2000 for key, value in EXPECTED.items()}


def test_updates_large_chunk(subject: Subject):
    subject.table("a")
    with subject.job(incremental__snapshot__chunk__size=str(2 * ROWS)) as job:
        subject.send("execute-snapshot", "a")
        subject.execute(f"UPDATE {subject.schema}.a SET aa = aa + 2000")
        job.until_answered("finished")
        subject.drain(job)

        assert values(job) == {key: value + 2000 for key, value in EXPECTED.items()}


def test_snapshot_only_with_restart(subject: Subject):
    subject.table("a")
    with begun(subject, "a"):
        pass
    with subject.job() as job:
        job.until_answered("finished")

        assert values(job) == EXPECTED
        assert sorted(reads(job)) == sorted(EXPECTED)


def test_when_snapshot_multiple_tables_and_connector_restarts_then_only_not_already_processed(
    subject: Subject,
):
    subject.table("a")
    subject.table("b")
    with subject.job() as job:
        subject.send("execute-snapshot", "a", "b")
        job.until(lambda: reads(job, "b"))
        assert sorted(reads(job)) == sorted(EXPECTED)
    with subject.job() as job:
        job.until(lambda: len(reads(job, "b")) == ROWS)

        assert len(reads(job)) == ROWS
        assert values(job, "b") == EXPECTED


def test_snapshot_preceeded_by_schema_change(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "a")
        job.until_answered("finished")
        subject.execute(f"CREATE TABLE {subject.schema}.b (pk int PRIMARY KEY, aa int, c int)")
        subject.capture("b")
        subject.insert("b", [(1, 2, 3)])
        subject.send("execute-snapshot", "a")
        job.until_answered("finished", 2)
        subject.drain(job)

        assert len(reads(job)) == 2 * ROWS
        assert values(job, "b") == {1: 2}


def test_snapshot_with_regex_data_collections(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.raw("execute-snapshot", [".*a"])
        job.until_answered("finished")

        assert values(job) == EXPECTED


def test_snapshot_with_regex_data_collections_not_exist(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.raw("execute-snapshot", [".*notExist"])
        job.until_answered("rejected")
        subject.drain(job)

        assert reads(job) == []


def test_snapshot_with_duplicate_data_collections(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "a", "a")
        job.until_answered("finished")
        subject.drain(job)

        assert sorted(reads(job)) == sorted(EXPECTED)


@pytest.mark.parametrize("named", [(), ("a",)], ids=["without_collections", "with_all_collections"])
def test_stop_current_incremental_snapshot_and_take_new_incremental_snapshot_after_restart(
    subject: Subject, named: tuple[str, ...]
):
    subject.table("a")
    with begun(subject, "a") as job:
        subject.send("stop-snapshot", *named)
        job.until_answered("stopped")
        read = len(reads(job))
        assert read < ROWS
    with subject.job() as job:
        subject.drain(job)
        assert len(reads(job)) == read
        subject.send("execute-snapshot", "a")
        job.until_answered("finished")

        assert len(reads(job)) == read + ROWS


def test_remove_not_yet_captured_collection_from_in_progress_incremental_snapshot(subject: Subject):
    subject.table("a")
    subject.table("b")
    with begun(subject, "a", "b") as job:
        subject.send("stop-snapshot", "b")
        job.until_answered("finished")
        subject.drain(job)

        assert (values(job), reads(job, "b")) == (EXPECTED, [])


def test_remove_started_captured_collection_from_in_progress_incremental_snapshot(subject: Subject):
    subject.table("a")
    subject.table("b")
    with begun(subject, "a", "b") as job:
        subject.send("stop-snapshot", "a")
        job.until_answered("finished")
        subject.drain(job)

        assert len(reads(job)) < ROWS
        assert values(job, "b") == EXPECTED


def test_snapshot_new_table_without_captured_schema(subject: Subject):
    with subject.job(tidemark__snapshot__new="off") as job:
        subject.table("a")
        subject.send("execute-snapshot", "a")
        job.until_answered("finished")
        subject.drain(job)

        assert values(job) == EXPECTED


def test_snapshot_with_additional_condition(subject: Subject):
    subject.table("a")
    subject.insert("a", [(key, 12345678) for key in range(2001, 2011)])
    with subject.job() as job:
        subject.send("execute-snapshot", "a", additional_condition="aa = 12345678")
        job.until_answered("finished")

        assert sorted(reads(job)) == list(range(2001, 2011))


def test_snapshot_with_new_additional_conditions_field(subject: Subject):
    subject.table("a")
    subject.insert("a", [(key, 12345678) for key in range(2001, 2011)])
    with subject.job() as job:
        condition = {"data-collection": f"{subject.prefix}a", "filter": "aa = 12345678"}
        subject.send("execute-snapshot", "a", additional_conditions=[condition])
        job.until_answered("finished")

        assert sorted(reads(job)) == list(range(2001, 2011))


def test_snapshot_with_additional_condition_with_restart(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "a", additional_condition="aa >= 100")
        job.until(lambda: reads(job))
        assert len(reads(job)) < ROWS - 100
    with subject.job() as job:
        job.until_answered("finished")

        assert sorted(reads(job)) == list(range(101, ROWS + 1))


def test_snapshot_with_surrogate_key(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "a", surrogate_key="aa")
        job.until_answered("finished")

        assert values(job) == EXPECTED


def test_snapshot_with_additional_condition_with_surrogate_key(subject: Subject):
    subject.table("a")
    subject.insert("a", [(key, 12345678) for key in range(2001, 2011)])
    with subject.job() as job:
        more = {"additional_condition": "aa = 12345678", "surrogate_key": "aa"}
        subject.send("execute-snapshot", "a", **more)
        job.until_answered("finished")

        assert sorted(reads(job)) == list(range(2001, 2011))


@pytest.mark.parametrize("strategy", ["insert_insert", "insert_delete"])
def test_watermarking_strategy(subject: Subject, strategy: str):
    if subject.schema == "public":
        subject.execute("ALTER TABLE signals REPLICA IDENTITY FULL")
    subject.table("a")
    with subject.job(incremental__snapshot__watermarking__strategy=strategy) as job:
        subject.send("execute-snapshot", "a")
        job.until_answered("finished")

        assert values(job) == EXPECTED


def test_should_not_get_stuck_on_invalid_surrogate_key(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "a", surrogate_key="totally_invalid_column_name")
        job.until_answered("rejected")
        subject.send("execute-snapshot", "a")
        subject.insert("a", [(ROWS + 1, ROWS)])
        job.until_answered("finished")
        subject.drain(job)

        assert values(job) == {**EXPECTED, ROWS + 1: ROWS}
