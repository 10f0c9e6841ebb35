"""Verifying tables that somebody else keeps: they lag, and have types and columns of their own."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.against import KINDS, SETTLE_MS, counts, kept, last_answer
from tests.driven import SIGNAL_TABLE, driven
from tests.integration.test_jdbc_sink import target
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
TABLES = (
    "CREATE TYPE mood AS ENUM ('calm', 'wild')",
    (
        "CREATE TABLE orders (id int, part text, price numeric(10, 2), at timestamp(3), zoned timestamptz,"
        " day date, f8 double precision, done bool, data bytea, doc jsonb, u uuid, tags text[],"
        " short varchar(9), feels mood, large text, secret text, PRIMARY KEY (id, part))"
    ),
    "ALTER TABLE orders ALTER large SET STORAGE EXTERNAL",
    "CREATE TABLE markers (id text PRIMARY KEY)",
    f"""INSERT INTO orders SELECT i, E'p\\t\\\\"' || i % 3, i / 7.0,
        timestamp '2024-02-29 12:00' + i * interval '10 ms',
        '2024-02-29 12:00+02'::timestamptz + i * interval '1 us', date '2024-01-01' + i, 1e300 / i, i % 2 = 0,
        decode(md5(i::text), 'hex'), jsonb_build_object('i', i, 'n', null), md5(i::text)::uuid,
        CASE WHEN i % 5 > 0 THEN ARRAY['a,b', NULL, 'i"' || i] END, nullif('s' || i % 4, 's0'),
        CASE i % 3 WHEN 0 THEN 'calm' WHEN 1 THEN 'wild' END::mood,
        CASE WHEN i % 50 = 0 THEN repeat(md5(i::text), 100) END, 'secret'
        FROM generate_series(1, {ROWS}) i""",
)
THERE = (
    "CREATE SCHEMA copy",
    (
        "CREATE TABLE copy.t_orders (loaded timestamptz DEFAULT now(), large text, id bigint,"
        " part varchar(40), price numeric, at timestamp, zoned timestamptz, day text, f8 double precision,"
        " done bool, data bytea, doc json, u text, tags text[], short text, feels text,"
        " PRIMARY KEY (id, part))"
    ),
    "CREATE TABLE copy.t_markers (id varchar(80) PRIMARY KEY)",
)
COLUMNS = "id, part, price, at, zoned, day, f8, done, data, doc, u, tags, short, feels, large"
SMALL = {
    "incremental__snapshot__chunk__size": "50",
    "tidemark__window__max__chunks": "4",
    "column__exclude__list": "public.orders.secret",
    "tidemark__verify__settle__ms": str(SETTLE_MS),
    "tidemark__verify__against__there__connection__password": "",
    "tidemark__verify__against__there__collection__name__format": "copy.t_${source.table}",
}
MARKED = {
    "tidemark__verify__against__there__marker__collection": "public.markers",
    "tidemark__verify__settle__ms": "3600000",
    "skipped__operations": "none",
}


@pytest.fixture
def orders(database: Database) -> Database:
    database.execute(SIGNAL_TABLE, *TABLES)
    return database


@pytest.fixture
def there(target: Database) -> Database:
    target.execute(*THERE)
    return target


def settings(there: Database) -> dict[str, str]:
    server = there.server
    prefix = "tidemark__verify__against__there__connection__"
    return {
        **SMALL,
        f"{prefix}url": f"jdbc:postgresql://{server.host}:{server.port}/{there.name}",
        f"{prefix}username": server.user,
        f"{prefix}password": server.password,
    }


def asked(job: Driven, database: Database, id_: str, **more: str) -> Answer:
    """The last answer to a verification against the table, which is asked for now."""
    data = json.dumps({"data-collections": ["public.orders"], "type": "verify", "against": "there", **more})
    with database.connect() as connection:
        connection.execute("INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)", [id_, data])
    return last_answer(job, id_)


def copied(orders: Database, there: Database, where: str = "true", *, lag_s: float = 0.0) -> None:
    """Bring the table up to the source's present rows, and first note which markers there are by then.

    What is read comes to the table `lag_s` later, and the markers behind it.
    """
    with orders.connect() as source, there.connect() as keeper:
        markers = source.execute("SELECT id FROM markers").fetchall()
        shown = COLUMNS.replace("doc", "doc::text").replace("feels", "feels::text")
        found = source.execute(f"SELECT {shown} FROM orders WHERE {where}".encode()).fetchall()
        keys = [(row[0], row[1]) for row in found]
        marks = ", ".join(["%s"] * len(COLUMNS.split(", ")))
        time.sleep(lag_s)
        names = [name for name in COLUMNS.split(", ") if name not in {"id", "part"}]
        assigned = ", ".join(f"{name} = EXCLUDED.{name}" for name in names)
        with keeper.transaction(), keeper.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO copy.t_orders ({COLUMNS}) VALUES ({marks})"
                f" ON CONFLICT (id, part) DO UPDATE SET {assigned}".encode(),
                found,
            )
            present = cursor.execute(f"SELECT id, part FROM copy.t_orders WHERE {where}".encode()).fetchall()
            gone = sorted(set(present) - set(keys))
            cursor.executemany("DELETE FROM copy.t_orders WHERE id = %s AND part = %s", gone)
            cursor.executemany("INSERT INTO copy.t_markers VALUES (%s) ON CONFLICT DO NOTHING", markers)


def test_faults_in_a_table_of_others_are_found(
    orders: Database, there: Database, tmp_path: Path, spark: SparkSession
):
    copied(orders, there)
    with driven(orders, tmp_path, spark, **settings(there)) as job:
        began = time.monotonic()
        accepted = asked(job, orders, "right")
        took = time.monotonic() - began
        with there.connect() as connection:
            connection.execute("DELETE FROM copy.t_orders WHERE id % 100 = 1")
            connection.execute("UPDATE copy.t_orders SET price = price + 0.001 WHERE id % 100 = 2")
            connection.execute("UPDATE copy.t_orders SET large = NULL WHERE id = 50")
            connection.execute("UPDATE copy.t_orders SET feels = 'wild' WHERE id = 51")
            connection.execute("INSERT INTO copy.t_orders (id, part) VALUES (9999, 'x'), (9998, E'\\t')")
        rejected = asked(job, orders, "wrong")

    assert accepted.outcome == "finished", accepted.text
    assert "accepted as settled" in accepted.text
    assert counts(accepted) == dict.fromkeys(KINDS, 0) | {"equal": ROWS}
    assert (accepted.facts["basis"], accepted.facts["against"]) == ("settled", "there")
    assert took >= SETTLE_MS / 1000
    assert rejected.outcome == "failed", rejected.text
    different = 6 + 2
    found = {"missing": 6, "different": different, "extra": 2}
    assert counts(rejected) == {"equal": ROWS - 6 - different, **found}, rejected.text
    extra = {tuple(json.loads(key).values()) for key in rejected.facts["first"]["extra"]}
    assert extra == {(9999, "x"), (9998, "\t")}


def step(connection: Any, number: int) -> None:
    """Rows change, come, go and come back."""
    key = number * 37 % (ROWS // 2) + 1
    connection.execute("UPDATE orders SET short = %s WHERE id = %s", [f"n{number % 2}", key])
    connection.execute("DELETE FROM orders WHERE id = %s", [number % 50 + 5000])
    connection.execute("INSERT INTO orders (id, part) VALUES (%s, '')", [number % 50 + 5000])
    connection.execute("UPDATE orders SET id = -id WHERE id IN (7, -7)")
    time.sleep(0.05)


def test_what_lags_is_no_difference(orders: Database, there: Database, tmp_path: Path, spark: SparkSession):
    """Somebody brings rows to the table late, while they are written."""
    copied(orders, there)
    faults = (500, 9999)
    with driven(orders, tmp_path, spark, **settings(there)) as job:
        with there.connect() as connection:
            connection.execute("UPDATE copy.t_orders SET done = NOT done WHERE id = 500")
            connection.execute("INSERT INTO copy.t_orders (id, part) VALUES (9999, 'x')")
        with kept(partial(copied, orders, there, f"id NOT IN {faults}")), writing(orders, step):
            rejected = asked(job, orders, "wrong")
        copied(orders, there)
        accepted = asked(job, orders, "right")

    assert [rejected.facts[kind] for kind in KINDS[1:]] == [0, 1, 1], rejected.text
    assert rejected.facts["first"]["different"] == [json.dumps(["500", 'p\t\\"2'], separators=(",", ":"))]
    assert accepted.outcome == "finished", accepted.text


def test_a_table_that_shows_markers_needs_no_time_to_settle(
    orders: Database, there: Database, tmp_path: Path, spark: SparkSession
):
    """Somebody brings rows to the table seconds late, while they are written, and markers behind them."""
    copied(orders, there)
    faults = (500, 501, 9999)
    with driven(orders, tmp_path, spark, **settings(there) | MARKED) as job:
        with there.connect() as connection:
            connection.execute("UPDATE copy.t_orders SET done = NOT done WHERE id = 500")
            connection.execute("DELETE FROM copy.t_orders WHERE id = 501")
            connection.execute("INSERT INTO copy.t_orders (id, part) VALUES (9999, 'x')")
        with kept(partial(copied, orders, there, f"id NOT IN {faults}", lag_s=2.0)), writing(orders, step):
            rejected = asked(job, orders, "wrong")
        with kept(partial(copied, orders, there)):
            accepted = asked(job, orders, "right")

    assert [rejected.facts[kind] for kind in KINDS[1:]] == [1, 1, 1], rejected.text
    assert rejected.facts["basis"] == "marker"
    assert " is rejected at " in rejected.text
    assert accepted.outcome == "finished", accepted.text
    assert " is accepted at " in accepted.text
    assert counts(accepted)["equal"] >= ROWS - 1


def test_markers_need_the_truncates(orders: Database, there: Database, tmp_path: Path, spark: SparkSession):
    more = MARKED | {"skipped__operations": "t"}
    with driven(orders, tmp_path, spark, **settings(there) | more) as job:
        answer = asked(job, orders, "refused")

    assert (answer.outcome, "set skipped.operations=none" in answer.text) == ("rejected", True), answer.text


def test_what_can_not_be_compared_is_said(
    orders: Database, there: Database, tmp_path: Path, spark: SparkSession
):
    with driven(orders, tmp_path, spark, **settings(there)) as job:
        unknown = asked(job, orders, "unknown", against="nowhere")
        mended = asked(job, orders, "mended", type="repair")
        there.execute("ALTER TABLE copy.t_orders DROP COLUMN doc")
        lacking = asked(job, orders, "lacking")
        there.execute("DROP TABLE copy.t_orders")
        missing = asked(job, orders, "missing")

    assert (unknown.outcome, "known: there" in unknown.text) == ("rejected", True), unknown.text
    assert (mended.outcome, "is for 'verify'" in mended.text) == ("rejected", True), mended.text
    assert (lacking.outcome, "lacks the columns doc" in lacking.text) == ("failed", True), lacking.text
    assert (missing.outcome, "has no such table" in missing.text) == ("failed", True), missing.text
