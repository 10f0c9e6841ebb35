"""What streamed tables may become: other columns, other names, parts of other tables, nothing at all."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from tests.driven import SIGNAL_TABLE, Driven, driven

if TYPE_CHECKING:
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration


@pytest.fixture
def prepared(each_database: Database) -> Database:
    with each_database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
    return each_database


def seen(job: Driven, table: str) -> list[tuple[str, Any, Any]]:
    """`(op, key, row)` of a table's events, without tombstones."""
    values = [(event["key"], event["value"]) for event in job.events(table) if event["value"]]
    return [(value["op"], key, value["after"] or value["before"]) for key, value in values]


class TestSchemaChanges:
    STEPS = (
        "INSERT INTO t VALUES (1, 'a')",
        "ALTER TABLE t ADD COLUMN n int NOT NULL DEFAULT 7",
        "INSERT INTO t VALUES (2, 'b')",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "INSERT INTO t VALUES (3, 'c')",
        "ALTER TABLE t ALTER COLUMN n TYPE text",
        "INSERT INTO t VALUES (4, 'd', 'x')",
        "ALTER TABLE t DROP COLUMN w",
        "UPDATE t SET n = 'y' WHERE id = 4",
    )
    EVENTS = (
        ("c", {"id": 1}, {"id": 1, "v": "a"}),
        ("c", {"id": 2}, {"id": 2, "v": "b", "n": 7}),
        ("c", {"id": 3}, {"id": 3, "w": "c", "n": 7}),
        ("c", {"id": 4}, {"id": 4, "w": "d", "n": "x"}),
        ("u", {"id": 4}, {"id": 4, "n": "y"}),
    )

    @pytest.mark.parametrize("autocommit", [True, False], ids=["across", "in one transaction"])
    def test_every_row_has_the_columns_of_its_time(self, prepared, tmp_path, spark, autocommit):
        with prepared.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        with driven(prepared, tmp_path, spark) as job, prepared.connect(autocommit=autocommit) as connection:
            for step in self.STEPS:
                connection.execute(step)
            if not autocommit:
                connection.commit()
            job.until_drained(prepared)

            assert seen(job, "t") == list(self.EVENTS)

    def test_a_renamed_table_goes_on_in_another_topic(self, prepared, tmp_path, spark):
        with prepared.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        with driven(prepared, tmp_path, spark) as job, prepared.connect(autocommit=False) as connection:
            connection.execute("INSERT INTO t VALUES (1)")
            connection.execute("ALTER TABLE t RENAME TO s")
            connection.execute("INSERT INTO s VALUES (2)")
            connection.commit()
            job.until_drained(prepared)

            assert seen(job, "t") == [("c", {"id": 1}, {"id": 1})]
            assert seen(job, "s") == [("c", {"id": 2}, {"id": 2})]

    def test_rows_keep_their_key_when_it_is_renamed_or_the_table_is_gone(self, prepared, tmp_path, spark):
        with prepared.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE gone (id int PRIMARY KEY)")
        with driven(prepared, tmp_path, spark) as job, prepared.connect() as connection:
            connection.execute("INSERT INTO t VALUES (1); INSERT INTO gone VALUES (2)")
            connection.execute("ALTER TABLE t RENAME COLUMN id TO no; DROP TABLE gone")
            connection.execute("DELETE FROM t")
            job.until_drained(prepared)

            assert [key for _, key, _ in seen(job, "t")] == [{"id": 1}, {"no": 1}]
            assert seen(job, "gone") == [("c", {"id": 2}, {"id": 2})]

    def test_a_dropped_type_is_still_known_for_rows_before(self, prepared, tmp_path, spark):
        with prepared.connect() as connection:
            connection.execute("CREATE TYPE old AS ENUM ('a'); CREATE TABLE t (id int PRIMARY KEY, e old)")
        with driven(prepared, tmp_path, spark) as job, prepared.connect() as connection:
            connection.execute("INSERT INTO t VALUES (1, 'a')")
            connection.execute("CREATE TYPE new AS ENUM ('a', 'b')")
            connection.execute("ALTER TABLE t ALTER COLUMN e TYPE new USING e::text::new; DROP TYPE old")
            connection.execute("INSERT INTO t VALUES (2, 'b')")
            job.until_drained(prepared)

            assert [row["e"] for _, _, row in seen(job, "t")] == ["a", "b"]


class TestParts:
    def test_partitions_are_tables_of_their_own(self, prepared, tmp_path, spark):
        with prepared.connect() as connection:
            connection.execute(
                "CREATE TABLE p (id int, k text, PRIMARY KEY (id, k)) PARTITION BY LIST (k);"
                "CREATE TABLE p_a PARTITION OF p FOR VALUES IN ('a');"
                "CREATE TABLE p_b PARTITION OF p FOR VALUES IN ('b')"
            )
        with driven(prepared, tmp_path, spark) as job, prepared.connect() as connection:
            connection.execute("INSERT INTO p VALUES (1, 'a')")
            connection.execute("UPDATE p SET k = 'b'")
            connection.execute("CREATE TABLE p_c (id int, k text, PRIMARY KEY (id, k))")
            connection.execute("INSERT INTO p_c VALUES (2, 'c')")
            connection.execute("ALTER TABLE p ATTACH PARTITION p_c FOR VALUES IN ('c')")
            connection.execute("UPDATE p SET id = 3 WHERE k = 'c'")
            job.until_drained(prepared)

            assert seen(job, "p") == []
            assert [op for op, _, _ in seen(job, "p_a")] == ["c", "d"]
            assert seen(job, "p_b") == [("c", {"id": 1, "k": "b"}, {"id": 1, "k": "b"})]
            assert [(op, key["id"]) for op, key, _ in seen(job, "p_c")] == [("c", 2), ("d", 2), ("c", 3)]

    def test_heirs_are_tables_of_their_own(self, prepared, tmp_path, spark):
        with prepared.connect() as connection:
            connection.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (more text) INHERITS (a)")
            connection.execute("ALTER TABLE b REPLICA IDENTITY FULL")
        with driven(prepared, tmp_path, spark) as job, prepared.connect() as connection:
            connection.execute("INSERT INTO a VALUES (1)")
            connection.execute("INSERT INTO b VALUES (2, 'x')")
            connection.execute("UPDATE a SET id = id + 10")
            job.until_drained(prepared)

            assert [(op, row["id"]) for op, _, row in seen(job, "a")] == [("c", 1), ("d", 1), ("c", 11)]
            assert seen(job, "b") == [
                ("c", None, {"id": 2, "more": "x"}),
                ("u", None, {"id": 12, "more": "x"}),
            ]

    def test_what_is_not_in_the_log_gives_no_event_and_stops_nothing(self, prepared, tmp_path, spark):
        with prepared.connect() as connection:
            connection.execute(
                "CREATE UNLOGGED TABLE u (id int PRIMARY KEY); CREATE TABLE t (id int PRIMARY KEY)"
            )
        with driven(prepared, tmp_path, spark) as job, prepared.connect() as connection:
            connection.execute("CREATE TEMPORARY TABLE x (id int PRIMARY KEY)")
            connection.execute("INSERT INTO u VALUES (1); INSERT INTO x VALUES (1); INSERT INTO t VALUES (1)")
            connection.execute("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
            connection.execute("ALTER TABLE u SET LOGGED")
            connection.execute("INSERT INTO u VALUES (2)")
            job.until_drained(prepared)

            assert [event["topic"] for event in job.events()] == ["tm.public.t", "tm.public.u"]


def test_names_that_collide_are_warned_about_once(prepared, tmp_path, spark, caplog):
    with prepared.connect() as connection:
        connection.execute('CREATE TABLE "a b" (id int PRIMARY KEY, "x y" int, "x_y" int)')
        connection.execute("CREATE TABLE a_b (id int PRIMARY KEY)")
    more = {"sanitize__field__names": "true"}
    with (
        driven(prepared, tmp_path, spark, **more) as job,
        prepared.connect() as connection,
        caplog.at_level(logging.WARNING),
    ):
        for number in range(2):
            connection.execute(
                f'INSERT INTO "a b" (id) VALUES ({number}); INSERT INTO a_b (id) VALUES ({number})'
            )
            connection.execute(f'ALTER TABLE "a b" ADD COLUMN c{number} int')
            connection.execute(f"ALTER TABLE a_b ADD COLUMN c{number} int")
            job.until_drained(prepared)

    topics = [line for line in caplog.messages if line.endswith("both go to topic tm.public.a_b")]
    fields = [line for line in caplog.messages if "several columns become" in line]
    assert len(topics) == 1
    assert fields == ["public.a b: several columns become the field 'x_y'"]
