"""One table whose log can't be decoded is set aside, with its entries; the rest goes on."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import orjson
import pytest

from engine.errors import PositionLost
from tests.driven import SIGNAL_TABLE, driven, replayed_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""


@pytest.fixture
def shop(database: Database, tmp_path: Path, spark: SparkSession) -> Database:
    """Tables `t` and `u`; nobody can tell from where on the key of `t` is another one."""
    database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE t (id int PRIMARY KEY, b int NOT NULL)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "CREATE TABLE u (id int PRIMARY KEY)",
        "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
    )
    with driven(database, tmp_path, spark) as job:
        database.execute("INSERT INTO t VALUES (1, 10)")
        job.until_drained(database)
    database.execute(
        "INSERT INTO t VALUES (2, 20)",
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (b)",
        "INSERT INTO t VALUES (3, 30)",
        "INSERT INTO u VALUES (1)",
    )
    return database


def letters(directory: Path) -> list[dict[str, str]]:
    files = sorted((directory / "state" / "dead-letters").rglob("*.jsonl"))
    return [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]


def lacking(job: Driven) -> list[str]:
    return [str(entry.collection) for entry in job.job.state.incomplete]


def test_it_is_set_aside_and_a_snapshot_takes_it_up(shop, tmp_path, spark, caplog):
    with driven(shop, tmp_path, spark) as job:
        job.until_drained(shop)

        assert lacking(job) == ["public.t"]
        assert [event["key"]["id"] for event in job.events("u")] == [1]
        assert len(job.events("t")) == 1
        assert caplog.text.count("its replica identity does not let the log tell") == 1
    kept = letters(tmp_path)
    assert len(kept) == 2
    caplog.clear()
    with driven(shop, tmp_path, spark) as job:
        shop.execute("INSERT INTO t VALUES (4, 40)")
        job.until_drained(shop)

        assert "public.t is set aside since" in caplog.text
        assert len(letters(tmp_path)) == 3
        shop.execute(SNAPSHOT)
        job.until_answered("finished")
        shop.execute("INSERT INTO t VALUES (5, 50)")
        job.until_drained(shop)

        assert lacking(job) == []
        assert letters(tmp_path) == []
        found = [event for event in job.events("t") if "b" in event["key"]]
        assert set(replayed_rows(found, "b")) == {10, 20, 30, 40, 50}


def test_a_letter_holds_the_entry_as_the_server_sent_it(shop, tmp_path, spark):
    with driven(shop, tmp_path, spark) as job:
        job.until_drained(shop)
    found = letters(tmp_path)

    assert [letter["operation"] for letter in found] == ["insert", "insert"]
    assert [
        text in base64.b64decode(letter["message"])
        for letter, text in zip(found, (b"20", b"30"), strict=True)
    ]


def test_what_can_be_set_aside_stops_the_job_where_that_is_wanted(shop, tmp_path, spark):
    with (
        driven(shop, tmp_path, spark, tidemark__table__errors="stop") as job,
        pytest.raises(PositionLost, match=r"public\.t.*tidemark\.table\.errors"),
    ):
        job.until_drained(shop)
