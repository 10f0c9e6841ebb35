"""Partitions published under their root: the log has of an old row what the partition's own identity says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.driven import SIGNAL_TABLE, driven, replayed_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""
OWN_INDEX = (
    "CREATE UNIQUE INDEX t1_alt ON t1 (alt)",
    "ALTER TABLE t1 REPLICA IDENTITY USING INDEX t1_alt",
)


@pytest.fixture
def parted(each_database: Database) -> Database:
    with each_database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute(
            "CREATE TABLE t (id int, p int NOT NULL, alt int NOT NULL, v text, PRIMARY KEY (id, p))"
            " PARTITION BY LIST (p)"
        )
        for part in range(3):
            connection.execute(f"CREATE TABLE t{part} PARTITION OF t FOR VALUES IN ({part})".encode())
        connection.execute("INSERT INTO t SELECT g, g % 3, g, 'old' FROM generate_series(1, 30) g")
        connection.execute(
            "CREATE PUBLICATION dbz_publication FOR TABLE t, signals WITH (publish_via_partition_root = true)"
        )
    return each_database


def read(database: Database, directory: Path, spark: Any, *statements: str, **more: str) -> Driven:
    """A job that was asked for the table; the statements ran in its window, if one opened."""
    with driven(database, directory, spark, **more) as job, database.connect() as connection:
        connection.execute(SNAPSHOT)
        job.until(lambda: job.job.window is not None or job.answered("rejected"))
        for statement in statements:
            connection.execute(statement.encode())
        job.until(lambda: job.answered("finished") or job.answered("rejected"))
        job.until_drained(database)
        return job


CHANGES = (
    "DELETE FROM t WHERE id IN (1, 2, 3)",
    "UPDATE t SET v = 'new' WHERE id IN (4, 5, 6)",
    "UPDATE t SET id = id + 100 WHERE id IN (7, 8, 9)",
)


def there(database: Database) -> dict[int, tuple[Any, ...]]:
    with database.connect() as connection:
        return {row[0]: row[1:] for row in connection.execute("SELECT id, p, alt, v FROM t").fetchall()}


def alter(database: Database, *statements: str) -> None:
    with database.connect() as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_a_partition_that_the_log_knows_by_another_key_is_refused(parted, tmp_path, spark):
    alter(parted, *OWN_INDEX)
    job = read(parted, tmp_path, spark, *CHANGES)

    (refused,) = job.answered("rejected")
    assert "public.t1" in refused.text
    assert "(alt)" in refused.text
    assert "REPLICA IDENTITY" in refused.text
    assert all(event["value"] is None or event["value"]["op"] != "r" for event in job.events("t"))


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(["ALTER TABLE t1 REPLICA IDENTITY FULL"], id="one full"),
        pytest.param(["ALTER TABLE t REPLICA IDENTITY FULL"], id="root full"),
        pytest.param(
            [f"ALTER TABLE t{part} REPLICA IDENTITY FULL" for part in ("", "0", "1", "2")], id="all full"
        ),
        pytest.param(
            [
                "CREATE UNIQUE INDEX t1_wide ON t1 (p, alt, id)",
                "ALTER TABLE t1 REPLICA IDENTITY USING INDEX t1_wide",
            ],
            id="an index that has the key",
        ),
        pytest.param(
            [
                "CREATE UNIQUE INDEX t_alt ON t (alt, p)",
                *(f"ALTER TABLE t{part} REPLICA IDENTITY USING INDEX t{part}_alt_p_idx" for part in range(3)),
            ],
            id="all by an index of the root",
        ),
    ],
)
def test_a_key_that_all_partitions_log_serves(parted, tmp_path, spark, statements):
    alter(parted, *statements)
    job = read(parted, tmp_path, spark, *CHANGES)

    assert not job.answered("rejected")
    rows = replayed_rows(job.events("t"), "id", "p")
    # Under an index's identity the log has no old primary key: a consumer keeps the row it had, too.
    found = {row["id"]: (row["p"], row["alt"], row["v"]) for row in rows.values()}
    assert {key: found.get(key) for key in there(parted)} == there(parted)
    assert not {1, 2, 3}.intersection(found)


def test_an_identity_that_changes_while_the_log_is_streamed_is_noticed(parted, tmp_path, spark):
    alter(parted, "CREATE UNIQUE INDEX t_alt ON t (alt, p)")
    with driven(parted, tmp_path, spark) as job, parted.connect() as connection:
        connection.execute("UPDATE t SET v = 'before' WHERE id < 10")
        job.until_drained(parted)
        for part in range(3):
            connection.execute(f"ALTER TABLE t{part} REPLICA IDENTITY USING INDEX t{part}_alt_p_idx".encode())
        connection.execute(SNAPSHOT)
        job.until(lambda: job.job.window is not None)
        connection.execute("DELETE FROM t WHERE id IN (10, 11, 12)")
        job.until_answered("finished")
        job.until_drained(parted)
        told = [
            (event["value"]["op"], (event["value"]["after"] or event["value"]["before"])["alt"])
            for event in job.events("t")
            if event["value"]
        ]

    # A row may be read until the stream has brought its delete, and never behind it.
    for alt in (10, 11, 12):
        assert [op for op, key in told if key == alt][-1] == "d"


def test_a_partition_whose_rows_can_only_be_inserted_is_no_obstacle(parted, tmp_path, spark):
    alter(parted, "ALTER TABLE t1 REPLICA IDENTITY NOTHING")
    job = read(parted, tmp_path, spark, "INSERT INTO t VALUES (1000, 1, 1000, 'new')")

    assert {row["id"] for row in replayed_rows(job.events("t"), "id", "p").values()} == set(there(parted))


def test_the_risk_can_be_accepted(parted, tmp_path, spark, caplog):
    alter(parted, *OWN_INDEX)
    job = read(parted, tmp_path, spark, tidemark__snapshot__accept__risk="public.t")

    assert not job.answered("rejected")
    assert "tidemark.snapshot.accept.risk lists the table" in caplog.text


def test_partitions_without_a_key_are_bags_where_all_are_logged_in_full(parted, tmp_path, spark):
    alter(
        parted,
        "ALTER TABLE t DROP CONSTRAINT t_pkey",
        "INSERT INTO t SELECT * FROM t WHERE id = 1",
        *(f"ALTER TABLE t{part} REPLICA IDENTITY FULL" for part in range(3)),
    )
    with driven(parted, tmp_path, spark) as job, parted.connect() as connection:
        connection.execute(SNAPSHOT.replace("]}", '], "surrogate-key": "id"}'))
        job.until(lambda: job.job.window is not None)
        connection.execute("DELETE FROM t WHERE ctid = (SELECT min(ctid) FROM t1 WHERE id = 1) AND id = 1")
        job.until_answered("finished")
        job.until_drained(parted)
        reads = [e["value"]["after"]["id"] for e in job.events("t") if e["value"] and e["value"]["op"] == "r"]

    assert sorted(reads) == list(range(1, 31))
