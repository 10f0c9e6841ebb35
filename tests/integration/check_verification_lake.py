"""Verifying and repairing tables of Delta Lake and Iceberg: each fault is found, and nothing else.

`make verify-lake`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from adapters.lake.table_name import TableName
from adapters.lakehouse.formats import dialect_of
from adapters.lakehouse.settings import LakeFormat, LakeSettings
from engine.config import parse
from engine.errors import Loss
from tests.driven import driven, properties
from tests.integration import check_verification_jdbc
from tests.integration.check_lake_job import drained, lake_settings
from tests.integration.check_verification_jdbc import KINDS, ROWS, SMALL, TABLES, counts
from tests.integration.test_jdbc_sink import SIGNAL_TABLE
from tests.integration.test_verification import writing

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from signals.answers import Answer
    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]
BOTH = pytest.mark.parametrize("kind", [LakeFormat.DELTA, LakeFormat.ICEBERG])
SETTINGS = {**SMALL, "snapshot__mode": "never"}
SOURCE_ROWS = "SELECT id, part, price, done, f8, large FROM orders ORDER BY id, part"


class Target:
    """The table, as somebody else reads and spoils it."""

    def __init__(self, spark: SparkSession, database: Database, directory: Path, kind: LakeFormat) -> None:
        self.settings = lake_settings(kind, directory, **SETTINGS)
        lake = parse(properties(database, directory, **self.settings)).sink_as(LakeSettings)
        dialect: Any = dialect_of(kind, lake, "somebody")
        self._spark, self._name = spark.newSession(), dialect.target(TableName("", "tm_public_orders"))
        for option, value in {**dialect.conf, "spark.sql.session.timeZone": "UTC"}.items():
            self._spark.conf.set(option, value)

    def run(self, statement: str) -> None:
        """Run a statement about the table `{}`."""
        self._spark.sql(statement.format(self._name)).collect()

    def rows(self) -> list[tuple[Any, ...]]:
        """Some columns of all rows."""
        shown = self._spark.table(self._name).select("id", "part", "price", "done", "f8", "large")
        return sorted(tuple(row) for row in shown.collect())


@pytest.fixture
def orders(database: Database) -> Database:
    database.execute(SIGNAL_TABLE, *TABLES)
    return database


def asked(job: Driven, database: Database, type_: str, id_: str) -> Answer:
    """As of a table of the sink `jdbc`; a comparison waits for merges."""
    return check_verification_jdbc.asked(job, database, type_, id_, 600)


def source_rows(database: Database) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return sorted(connection.execute(SOURCE_ROWS).fetchall())


@BOTH
def test_faults_in_a_table_are_found_and_healed(
    orders: Database, tmp_path: Path, lake_spark: SparkSession, kind: LakeFormat
):
    table = Target(lake_spark, orders, tmp_path, kind)
    with driven(orders, tmp_path, lake_spark, **table.settings) as job:
        asked(job, orders, "incremental", "copy")
        accepted = asked(job, orders, "verify", "right")
        table.run("DELETE FROM {} WHERE id % 100 = 1")
        table.run("UPDATE {} SET f8 = f8 / 2, tags = array('x') WHERE id % 100 = 2")
        table.run("UPDATE {} SET large = NULL WHERE id = 50")
        table.run("UPDATE {} SET part = '\\\\N\\t' WHERE id % 200 = 3")
        table.run("INSERT INTO {0} SELECT * FROM {0} WHERE id % 300 = 4")
        rejected = asked(job, orders, "verify", "wrong")
        mended = asked(job, orders, "repair", "mend")
        again = asked(job, orders, "verify", "again")
        drained(job, tmp_path)

    assert accepted.outcome == "finished", accepted.text
    assert counts(accepted) == dict.fromkeys(KINDS, 0) | {"equal": ROWS}
    missing, different, twice = ROWS // 100 + ROWS // 200, ROWS // 100 + 1, ROWS // 300
    extra = ROWS // 200 + twice
    assert rejected.outcome == "failed", rejected.text
    found = {"missing": missing, "different": different, "extra": extra, "changed": 0}
    assert counts(rejected) == {"equal": ROWS - missing - different - twice, **found}
    assert {tuple(json.loads(key)) for key in rejected.facts["first"]["extra"]} >= {
        (str(3 + 200 * number), "\\N\t") for number in range(ROWS // 200)
    }
    assert mended.outcome == "finished", mended.text
    assert (mended.facts["reads"], mended.facts["deletes"]) == (missing + different + twice, extra)
    assert counts(again) == dict.fromkeys(KINDS, 0) | {"equal": ROWS}, again.text
    assert table.rows() == source_rows(orders)


@BOTH
def test_what_is_written_meanwhile_is_no_difference_in_a_table(
    orders: Database, tmp_path: Path, lake_spark: SparkSession, kind: LakeFormat
):
    """Rows change, come, go and move, and large values stay as they are, while they are compared."""

    def step(connection: Any, number: int) -> None:
        key = number * 37 % ROWS + 1
        if key != 599:
            connection.execute("UPDATE orders SET price = %s WHERE id = %s", [number % 1000, key])
        connection.execute("DELETE FROM orders WHERE id = %s", [number % 50 + 5000])
        connection.execute("INSERT INTO orders (id, part) VALUES (%s, '')", [number % 50 + 5000])
        connection.execute("UPDATE orders SET id = -id WHERE id IN (7, -7)")

    table = Target(lake_spark, orders, tmp_path, kind)
    with driven(orders, tmp_path, lake_spark, **table.settings) as job:
        asked(job, orders, "incremental", "copy")
        drained(job, tmp_path)
        table.run("UPDATE {} SET tags = array() WHERE id = 599")
        table.run("INSERT INTO {} (id, part) VALUES (9999, 'x')")
        with writing(orders, step):
            rejected = asked(job, orders, "verify", "wrong")
            mended = asked(job, orders, "repair", "mend")
            accepted = asked(job, orders, "verify", "right")
        job.until_drained(orders)
        drained(job, tmp_path)
        assert table.rows() == source_rows(orders)
    assert [rejected.facts[name] for name in ("missing", "different", "extra")] == [0, 1, 1]
    assert rejected.facts["changed"] > 0
    assert mended.outcome == "finished", mended.text
    assert mended.facts["deletes"] == 1
    assert accepted.outcome == "finished", accepted.text


@BOTH
def test_a_truncated_or_altered_table_is_read_again(
    orders: Database, tmp_path: Path, lake_spark: SparkSession, kind: LakeFormat
):
    table = Target(lake_spark, orders, tmp_path, kind)
    with driven(orders, tmp_path, lake_spark, **table.settings) as job:
        asked(job, orders, "incremental", "copy")
        drained(job, tmp_path)
        table.run("INSERT INTO {} (id, part) VALUES (9999, 'x')")
        with orders.connect() as connection:
            data = json.dumps({"data-collections": ["public.orders"], "type": "verify"})
            connection.execute("INSERT INTO signals VALUES ('v', 'execute-snapshot', %s)", [data])
            job.until(
                lambda: any(table.progress and table.progress.rows for table in job.job.state.snapshot.tables)
            )
            connection.execute("TRUNCATE orders")
            connection.execute("ALTER TABLE orders ADD COLUMN more int")
            connection.execute("INSERT INTO orders (id, part, more) VALUES (1, 'a', 5), (2, 'b', 6)")
        job.until_answered("finished", 2)
        accepted = job.answered("finished")[-1]
        drained(job, tmp_path)
        table.run("INSERT INTO {} (id, part) VALUES (9999, 'x')")
        orders.execute("DELETE FROM orders")
        emptied = asked(job, orders, "repair", "emptied")
        drained(job, tmp_path)
        assert table.rows() == []
    assert counts(accepted) == dict.fromkeys(KINDS, 0) | {"equal": 2}
    assert (emptied.outcome, emptied.facts["deletes"]) == ("finished", 1), emptied.text


@BOTH
def test_a_lost_log_heals_into_a_table(
    orders: Database, tmp_path: Path, lake_spark: SparkSession, kind: LakeFormat
):
    table = Target(lake_spark, orders, tmp_path, kind)
    settings = {**table.settings, "tidemark__recovery": "repair", "slot__name": "job"}
    with driven(orders, tmp_path, lake_spark, **settings) as job:
        asked(job, orders, "incremental", "copy")
        drained(job, tmp_path)
    orders.execute(
        "SELECT pg_drop_replication_slot('job')",
        "UPDATE orders SET price = -1 WHERE id % 100 = 1",
        "DELETE FROM orders WHERE id % 100 = 2",
        "UPDATE orders SET id = id + 10000 WHERE id % 200 = 3",
        "INSERT INTO orders (id, part) VALUES (20000, 'new')",
    )
    with driven(orders, tmp_path, lake_spark, **settings) as job:
        job.until(lambda: len(job.answered("finished")) == 2, 600)  # of the signals' table, too
        drained(job, tmp_path)
        state = job.job.state

    assert state.recovery is not None
    assert (state.recovery.loss, state.incomplete) == (Loss.SLOT_MISSING, ())
    (healed,) = (answer for answer in job.answered("finished") if answer.collection == "public.orders")
    gone, moved = ROWS // 100, ROWS // 200
    assert (healed.facts["reads"], healed.facts["deletes"]) == (ROWS // 100 + moved + 1, gone + moved)
    assert table.rows() == source_rows(orders)
