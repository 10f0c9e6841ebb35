"""Verifying and repairing tables of the sink `jdbc`: each fault put into them is found, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.driven import TIMEOUT_S, driven
from tests.integration.test_jdbc_sink import SIGNAL_TABLE, settings, target
from tests.integration.test_verification import writing

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from signals.answers import Answer
    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]
__all__ = ["target"]

ROWS = 600
TARGET = "tm_public_orders"
TABLES = (
    (
        "CREATE TABLE orders (id int, part text, price numeric(10, 2), any_number numeric, at timestamp(3),"
        " zoned timestamptz, day date, clock time, f4 real, f8 double precision, done bool, data bytea,"
        " doc jsonb, u uuid, tags text[], span interval, large text, PRIMARY KEY (id, part))"
    ),
    "ALTER TABLE orders ALTER large SET STORAGE EXTERNAL",
    f"""INSERT INTO orders SELECT i, E'p\\t\\\\"' || i % 3, i / 7.0, i / 3.0,
        timestamp '2024-02-29 12:00' + i * interval '10 ms',
        '2024-02-29 12:00+02'::timestamptz + i * interval '1 us',
        date '2024-01-01' + i, time '10:00' + i * interval '1 ms', i / 3.0, 1e300 / i, i % 2 = 0,
        decode(md5(i::text), 'hex'), jsonb_build_object('i', i, 'n', null), md5(i::text)::uuid,
        CASE WHEN i % 5 > 0 THEN ARRAY['a,b', NULL, 'i"' || i] END, i * interval '1 hour',
        CASE WHEN i % 50 = 0 THEN repeat(md5(i::text), 100) END FROM generate_series(1, {ROWS}) i""",
)
SMALL = {"incremental__snapshot__chunk__size": "50", "tidemark__window__max__chunks": "4"}
KINDS = ("equal", "missing", "different", "extra", "changed")


@pytest.fixture
def orders(database: Database) -> Database:
    database.execute(SIGNAL_TABLE, *TABLES)
    return database


def asked(job: Driven, database: Database, type_: str, id_: str, timeout_s: float = TIMEOUT_S) -> Answer:
    """The last answer to a signal of this type, which is sent now."""
    with database.connect() as connection:
        data = json.dumps({"data-collections": ["public.orders"], "type": type_})
        connection.execute("INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)", [id_, data])
    ends = {"finished", "failed", "rejected"}
    job.until(
        lambda: [answer for answer in job.answers if answer.id == id_ and answer.outcome in ends], timeout_s
    )
    return next(answer for answer in job.answers if answer.id == id_ and answer.outcome in ends)


def rows_of(database: Database, table: str) -> list[Any]:
    """All rows, without the interval, which is microseconds in the target."""
    with database.connect() as connection:
        return connection.execute(
            "SELECT id, part, price, any_number, at, zoned, day, clock, f4, f8, done, data, doc, u, tags,"
            f" large FROM {table} ORDER BY 1, 2".encode()
        ).fetchall()


def counts(answer: Answer) -> dict[str, int]:
    return {kind: answer.facts[kind] for kind in KINDS}


def test_faults_in_a_table_are_found_and_healed(
    orders: Database, target: Database, tmp_path: Path, spark: SparkSession
):
    with driven(orders, tmp_path, spark, **settings(target, **SMALL)) as job:
        asked(job, orders, "incremental", "copy")
        accepted = asked(job, orders, "verify", "right")
        with target.connect() as connection:
            connection.execute(f"DELETE FROM {TARGET} WHERE id % 100 = 1".encode())
            connection.execute(f"UPDATE {TARGET} SET f8 = f8 / 2 WHERE id % 100 = 2".encode())
            connection.execute(f"UPDATE {TARGET} SET large = NULL WHERE id = 50".encode())
            connection.execute(f"UPDATE {TARGET} SET part = '\\N' || chr(9) WHERE id % 200 = 3".encode())
        rejected = asked(job, orders, "verify", "wrong")
        mended = asked(job, orders, "repair", "mend")

        assert rows_of(target, TARGET) == rows_of(orders, "orders")
        assert counts(asked(job, orders, "verify", "again"))["equal"] == ROWS
    assert accepted.outcome == "finished", accepted.text
    assert counts(accepted) == dict.fromkeys(KINDS, 0) | {"equal": ROWS}
    missing, different, extra = ROWS // 100 + ROWS // 200, ROWS // 100 + 1, ROWS // 200
    assert rejected.outcome == "failed"
    found = {"missing": missing, "different": different, "extra": extra, "changed": 0}
    assert counts(rejected) == {"equal": ROWS - missing - different, **found}
    assert {tuple(json.loads(key)) for key in rejected.facts["first"]["extra"]} == {
        (str(3 + 200 * number), "\\N\t") for number in range(extra)
    }
    assert mended.outcome == "finished", mended.text
    assert (mended.facts["reads"], mended.facts["deletes"]) == (missing + different, extra)


def test_what_is_written_meanwhile_is_no_difference_in_a_table(
    orders: Database, target: Database, tmp_path: Path, spark: SparkSession
):
    """Rows change, come, go and move, and large values stay as they are, while they are compared."""

    def step(connection: Any, number: int) -> None:
        key = number * 37 % ROWS + 1
        if key != 599:
            connection.execute("UPDATE orders SET price = %s WHERE id = %s", [number % 1000, key])
        connection.execute("DELETE FROM orders WHERE id = %s", [number % 50 + 5000])
        connection.execute("INSERT INTO orders (id, part) VALUES (%s, '')", [number % 50 + 5000])
        connection.execute("UPDATE orders SET id = -id WHERE id IN (7, -7)")

    with driven(orders, tmp_path, spark, **settings(target, **SMALL)) as job:
        asked(job, orders, "incremental", "copy")
        with target.connect() as connection:
            connection.execute(f"UPDATE {TARGET} SET tags = '{{}}' WHERE id = 599".encode())
            connection.execute(f"INSERT INTO {TARGET} (id, part) VALUES (9999, 'x')".encode())
        with writing(orders, step):
            rejected = asked(job, orders, "verify", "wrong")
            mended = asked(job, orders, "repair", "mend")
            accepted = asked(job, orders, "verify", "right")
        job.until_drained(orders)
        assert rows_of(target, TARGET) == rows_of(orders, "orders")
    assert [rejected.facts[kind] for kind in ("missing", "different", "extra")] == [0, 1, 1]
    assert rejected.facts["changed"] > 0
    assert mended.outcome == "finished", mended.text
    assert mended.facts["deletes"] == 1
    assert accepted.outcome == "finished", accepted.text


def test_a_truncated_or_altered_table_is_read_again(
    orders: Database, target: Database, tmp_path: Path, spark: SparkSession
):
    with driven(orders, tmp_path, spark, **settings(target, **SMALL)) as job:
        asked(job, orders, "incremental", "copy")
        with target.connect() as connection:
            connection.execute(f"INSERT INTO {TARGET} (id, part) VALUES (9999, 'x')".encode())
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
        with target.connect() as connection:
            connection.execute(f"INSERT INTO {TARGET} (id, part) VALUES (9999, 'x')".encode())
        with orders.connect() as connection:
            connection.execute("DELETE FROM orders")
        emptied = asked(job, orders, "repair", "emptied")
        assert rows_of(target, TARGET) == []
    assert counts(accepted) == dict.fromkeys(KINDS, 0) | {"equal": 2}
    assert (emptied.outcome, emptied.facts["deletes"]) == ("finished", 1), emptied.text
