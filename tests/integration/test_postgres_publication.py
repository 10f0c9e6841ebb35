"""What a publication leaves out, and from when on it has a table: a snapshot must agree with the log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.server.publication import Publication
from adapters.postgres.server.questions.questions import Questions
from adapters.postgres.server.watches import membership
from adapters.postgres.snapshot.table_changes.older_writers import Writers
from engine.model import CollectionId
from tests.driven import SIGNAL_TABLE, TIMEOUT_S, driven, properties, replayed_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""
BLOCKING = SNAPSHOT.replace('{"data', '{"type": "blocking", "data')
TABLES = """
CREATE SCHEMA s; CREATE SCHEMA "Odd schema";
CREATE TABLE plain (a int PRIMARY KEY, b text, c int GENERATED ALWAYS AS (a + 1) STORED);
CREATE TABLE "Odd schema"."Odd table" ("A" int PRIMARY KEY, b int);
CREATE TABLE heir () INHERITS (plain);
CREATE TABLE s.listed (a int PRIMARY KEY, b text);
CREATE UNLOGGED TABLE unlogged (a int PRIMARY KEY);
CREATE VIEW seen AS SELECT * FROM plain;
CREATE TABLE root (a int, b int, PRIMARY KEY (a, b)) PARTITION BY LIST (b);
CREATE TABLE leaf1 PARTITION OF root FOR VALUES IN (1);
CREATE TABLE middle PARTITION OF root FOR VALUES IN (2, 3) PARTITION BY LIST (b);
CREATE TABLE s.leaf2 PARTITION OF middle FOR VALUES IN (2);
CREATE TABLE leaf3 PARTITION OF middle FOR VALUES IN (3);
"""
FULL = "ALTER TABLE {} REPLICA IDENTITY FULL"
PUBLICATIONS = [
    "FOR ALL TABLES",
    "FOR ALL TABLES WITH (publish_via_partition_root = true)",
    "FOR TABLE plain, root",
    "FOR TABLE ONLY plain (a, b), heir, root WITH (publish_via_partition_root = true)",
    "FOR TABLE leaf1, middle WITH (publish_via_partition_root = true)",
    "FOR TABLE middle",
    "FOR TABLE root, leaf3 WITH (publish_via_partition_root = true)",
    "FOR TABLE plain WHERE (a > 5), s.leaf2 WHERE (b < 9)",
    "FOR TABLE root (a, b) WHERE (a > 5) WITH (publish_via_partition_root = true)",
    "FOR TABLES IN SCHEMA s",
    "FOR TABLES IN SCHEMA s WITH (publish_via_partition_root = true)",
    "FOR TABLES IN SCHEMA s, TABLE s.listed WHERE (a > 5), plain WHERE (a > 6)",
    "FOR TABLES IN SCHEMA s, TABLE root WHERE (a > 6) WITH (publish_via_partition_root = true)",
]
ON_18 = [
    "FOR TABLE plain, root WITH (publish_generated_columns = stored)",
    "FOR TABLE plain (a, c)",
]


def everything(_schema: str, _table: str) -> bool:
    return True


class TestAgreement:
    """Our reading of the catalog against PostgreSQL's own view."""

    def compared(self, database: Database, publication: str) -> None:
        with database.connect() as connection:
            connection.execute(TABLES)
            connection.execute(f"CREATE PUBLICATION p {publication}".encode())
            # The view of PostgreSQL 15 names generated columns too, though their values are not sent.
            unsent = {"c"} if connection.info.server_version < 180_000 else set()
            expected = {
                (schema, name): (set(columns) - unsent, condition)
                for schema, name, columns, condition in connection.execute(
                    "SELECT schemaname, tablename, attnames, rowfilter FROM pg_publication_tables"
                    " WHERE pubname = 'p'"
                )
            }
            columns: dict[tuple[str, str], set[str]] = {}
            oids = {}
            for oid, schema, name, column in connection.execute(
                "SELECT c.oid::bigint, n.nspname, c.relname, a.attname FROM pg_class c"
                " JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid"
                " WHERE a.attnum > 0 AND a.attgenerated = '' AND c.relkind IN ('r', 'p', 'v')"
            ):
                columns.setdefault((schema, name), set()).add(column)
                oids[schema, name] = oid
            ours, asked = Publication("p", everything), Questions(connection).publications
            shares = ours.shares(asked, list(oids.values()))
            found = {
                name: (set(share.columns) if share.columns else columns[name], share.row_filter)
                for name, oid in oids.items()
                if (share := shares.get(oid))
            }

            assert found == expected
            assert [collection.parts for collection in ours.captured(asked)] == sorted(expected)

    @pytest.mark.parametrize("publication", PUBLICATIONS)
    def test_it_is_the_view_s(self, each_database, publication):
        self.compared(each_database, publication)

    @pytest.mark.parametrize("publication", ON_18)
    def test_generated_columns_are_published_where_that_is_chosen(self, database, publication):
        self.compared(database, publication)

    def test_a_locked_table_is_not_waited_for(self, database):
        with database.connect() as connection, database.connect(autocommit=False) as holder:
            connection.execute(TABLES)
            connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
            connection.execute("SET lock_timeout = 250")
            holder.execute("LOCK TABLE plain IN ACCESS EXCLUSIVE MODE")

            assert CollectionId(("public", "plain")) in Publication("p", everything).captured(
                Questions(connection).publications
            )

    def test_the_mark_changes_with_the_entries_of_the_table_alone(self, each_database):
        with each_database.connect() as connection:
            connection.execute("CREATE TABLE a (id int PRIMARY KEY)")
            connection.execute("CREATE TABLE b (id int PRIMARY KEY)")
            connection.execute("CREATE PUBLICATION p FOR TABLE a")
            row = connection.execute("SELECT 'a'::regclass::oid::bigint").fetchone()
            assert row is not None
            marks = [
                Publication("p", everything).shares(Questions(connection).publications, [row[0]])[row[0]].mark
            ]
            for statement in (
                "ALTER PUBLICATION p ADD TABLE b",
                "ALTER PUBLICATION p SET TABLE a, b",
                "ALTER PUBLICATION p DROP TABLE a",
                "ALTER PUBLICATION p ADD TABLE a",
            ):
                connection.execute(statement)
                share = (
                    Publication("p", everything)
                    .shares(Questions(connection).publications, [row[0]])
                    .get(row[0])
                )
                marks.append(share.mark if share else "")

            assert marks[0] == marks[1] == marks[2]
            assert marks[3] == ""
            assert marks[4] not in marks[:4]


@pytest.fixture
def table(each_database: Database) -> Database:
    """A table of which nothing is published yet."""
    each_database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE t (id int PRIMARY KEY, n int, v text)",
        "INSERT INTO t SELECT g, g, 'old' FROM generate_series(1, 10) g",
        "CREATE PUBLICATION dbz_publication FOR TABLE signals",
    )
    return each_database


class TestOlderWriters:
    """A transaction that changed the table before it was published: the change is never in the log."""

    def rows(
        self, table: Database, tmp_path: Path, spark: Any, *, prepared: bool = False, risk: str = ""
    ) -> tuple[Any, ...]:
        """What a consumer has of rows 3 and 11 once the snapshot is done and the writer committed."""
        accepted = {"tidemark__snapshot__accept__risk": risk}
        with driven(table, tmp_path, spark, **accepted) as job, table.connect() as connection:
            with table.connect(autocommit=False) as writer:
                writer.execute("UPDATE t SET v = 'new' WHERE id = 3")
                writer.execute("INSERT INTO t VALUES (11, 11, 'new')")
                connection.execute("ALTER PUBLICATION dbz_publication ADD TABLE t")
                connection.execute(SNAPSHOT)
                job.until_answered("accepted")
                if prepared:
                    for _ in range(5):
                        job.job.turn()
                    writer.execute("PREPARE TRANSACTION 'older'")
                for _ in range(30):
                    job.job.turn()
                self.early = len(job.answered("finished"))
                writer.commit()
            if prepared:
                connection.execute("COMMIT PREPARED 'older'")
            job.until_answered("finished")
            job.until_drained(table)
            found = replayed_rows(job.events("t"))
            return tuple(found.get(key, {}).get("v") for key in (3, 11))

    def test_it_is_waited_for(self, table, tmp_path, spark, caplog):
        assert self.rows(table, tmp_path, spark) == ("new", "new")
        assert self.early == 0
        assert "waits for transactions that were writing to it" in caplog.text
        assert "process " in caplog.text

    def test_so_is_one_that_is_prepared_meanwhile(self, table, tmp_path, spark, caplog):
        assert self.rows(table, tmp_path, spark, prepared=True) == ("new", "new")
        assert self.early == 0
        assert "prepared transaction older" in caplog.text

    def test_without_waiting_its_changes_are_lost(self, table, tmp_path, spark, monkeypatch):
        monkeypatch.setattr(Writers, "wait", lambda *_args: None)

        assert self.rows(table, tmp_path, spark) == ("old", None)

    def test_the_risk_can_be_accepted(self, table, tmp_path, spark, caplog):
        assert self.rows(table, tmp_path, spark, risk="public.t") == ("old", None)
        assert self.early == 1
        assert "tidemark.snapshot.accept.risk lists the table" in caplog.text

    def test_nobody_waits_for_a_transaction_that_has_not_written_to_the_table(self, table, tmp_path, spark):
        with (
            driven(table, tmp_path, spark) as job,
            table.connect() as connection,
            table.connect(autocommit=False) as other,
        ):
            other.execute("CREATE TABLE elsewhere (id int)")
            other.execute("SELECT * FROM t")
            connection.execute("ALTER PUBLICATION dbz_publication ADD TABLE t")
            connection.execute(SNAPSHOT)
            job.until_answered("finished")

    def test_nor_for_writers_that_come_later(self, table, tmp_path, spark):
        with driven(table, tmp_path, spark) as job, table.connect() as connection:
            connection.execute("ALTER PUBLICATION dbz_publication ADD TABLE t")
            with table.connect(autocommit=False) as older, table.connect(autocommit=False) as later:
                older.execute("UPDATE t SET v = 'new' WHERE id = 3")
                connection.execute(SNAPSHOT)
                job.until_answered("accepted")
                for _ in range(10):
                    job.job.turn()
                later.execute("UPDATE t SET v = 'new' WHERE id = 4")
                older.commit()
                job.until_answered("finished")


class TestPublishedInPart:
    """Column lists and row filters: what is read is what the log would carry."""

    def publish(self, table: Database, what: str) -> None:
        with table.connect() as connection:
            connection.execute(f"ALTER PUBLICATION dbz_publication SET TABLE signals, {what}".encode())

    def test_only_listed_columns_are_read(self, table, tmp_path, spark):
        self.publish(table, "t (id, v)")
        with driven(table, tmp_path, spark) as job, table.connect() as connection:
            connection.execute(SNAPSHOT)
            job.until_answered("finished")
            connection.execute("UPDATE t SET v = 'new', n = 0 WHERE id = 3")
            job.until_drained(table)
            afters = [event["value"]["after"] for event in job.events("t")]

            assert len(afters) == 11
            assert all(list(after) == ["id", "v"] for after in afters)
            assert replayed_rows(job.events("t"))[3] == {"id": 3, "v": "new"}

    def filtered(self, table: Database, tmp_path: Path, spark: Any) -> tuple[Any, Any]:
        """What a consumer has, and the published rows of the table, with changes in the window."""
        with table.connect() as connection:
            connection.execute("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, n)")
        self.publish(table, "t WHERE (n > 5 AND v <> 'hid?den')")
        with table.connect() as connection:
            connection.execute("ALTER TABLE t REPLICA IDENTITY FULL")
        with driven(table, tmp_path, spark) as job, table.connect() as connection:
            connection.execute(SNAPSHOT)
            job.until(lambda: job.job.window is not None)
            connection.execute("UPDATE t SET n = 1 WHERE id = 7")
            connection.execute("UPDATE t SET n = 9 WHERE id = 2")
            connection.execute("UPDATE t SET v = 'hid?den' WHERE id = 8")
            connection.execute("DELETE FROM t WHERE id = 9")
            connection.execute("UPDATE t SET v = 'new' WHERE id = 10")
            job.until_answered("finished")
            connection.execute("UPDATE t SET n = 8 WHERE id = 4")
            job.until_drained(table)
            there = connection.execute("SELECT id, n, v FROM t WHERE n > 5 AND v <> 'hid?den'").fetchall()
            rows = replayed_rows(job.events("t"), "id", "n")
            return {tuple(row.values()) for row in rows.values()}, set(there)

    def test_only_rows_of_the_filter_are_read(self, table, tmp_path, spark):
        found, there = self.filtered(table, tmp_path, spark)

        assert found == there
        assert len(there) == 4

    def test_without_the_filter_other_rows_would_come(self, table, tmp_path, spark, monkeypatch):
        from adapters.postgres.server.publication import Share  # noqa: PLC0415

        monkeypatch.setattr(
            "adapters.postgres.server.publication._share",
            lambda entries: Share(None, None, ", ".join(entry.mark for entry in entries)),
        )
        found, there = self.filtered(table, tmp_path, spark)

        assert found > there

    def warnings(self, caplog: pytest.LogCaptureFixture) -> list[str]:
        return [text for text in caplog.messages if "whose replica identity is not FULL" in text]

    def test_a_start_warns_once_of_a_row_filter_without_a_full_identity(self, table, tmp_path, spark, caplog):
        with table.connect() as connection:
            connection.execute("CREATE TABLE whole (id int PRIMARY KEY, v text)")
            connection.execute("CREATE TABLE logged (id int PRIMARY KEY, v text)")
            connection.execute("ALTER TABLE logged REPLICA IDENTITY FULL")
        self.publish(table, "whole, logged WHERE (id > 5), t WHERE (id > 5)")
        with driven(table, tmp_path, spark) as job:
            job.until_drained(table)
            (warning,) = self.warnings(caplog)
            job.job.close()
            job.job.settle()
            job.job.start()
            job.until_drained(table)
            assert self.warnings(caplog) == [warning]
        with driven(table, tmp_path, spark) as job:
            job.until_drained(table)

        assert self.warnings(caplog) == [warning] * 2
        assert "row filter for public.t," in warning
        assert "without the large values" in warning
        assert "set REPLICA IDENTITY FULL, or request a snapshot" in warning

    @pytest.mark.parametrize(
        ("publication", "first", "expected"),
        [
            (
                "FOR TABLE ONLY plain WHERE (a > 5), s.listed WHERE (a > 5), heir",
                "",
                ["public.plain", "s.listed"],
            ),
            ("FOR TABLE ONLY plain WHERE (a > 5)", FULL.format("plain"), []),
            ("FOR TABLE plain WHERE (a > 5)", FULL.format("plain"), ["public.heir"]),
            ("FOR TABLE plain WHERE (a > 5) WITH (publish = 'insert, delete')", "", []),
            ("FOR TABLE plain WHERE (a > 5), TABLES IN SCHEMA public", "", []),
            ("FOR TABLE plain, root", "", []),
            ("FOR ALL TABLES", "", []),
            (
                "FOR TABLE root WHERE (a > 5) WITH (publish_via_partition_root = true)",
                f"{FULL.format('leaf1')}; {FULL.format('leaf3')}",
                ["public.root"],
            ),
            (
                "FOR TABLE root WHERE (a > 5) WITH (publish_via_partition_root = true)",
                f"{FULL.format('leaf1')}; {FULL.format('leaf3')}; {FULL.format('s.leaf2')}",
                [],
            ),
            ("FOR TABLE s.leaf2 WHERE (b < 9), leaf1", "", ["s.leaf2"]),
        ],
    )
    def test_inserts_without_their_large_values_come_of_these_tables(
        self, each_database, publication, first, expected
    ):
        with each_database.connect() as connection:
            connection.execute(TABLES)
            for statement in filter(None, first.split(";")):
                connection.execute(statement.encode())
            connection.execute(f"CREATE PUBLICATION p {publication}".encode())
            asked = Questions(connection).publications
            found = Publication("p", everything).bare_inserts(asked)

            assert [str(table) for table in found] == expected
            assert Publication("p", lambda *_names: False).bare_inserts(asked) == []

    def test_a_table_that_is_not_published_is_not_known(self, table, tmp_path, spark):
        with driven(table, tmp_path, spark) as job, table.connect() as connection:
            connection.execute(SNAPSHOT)
            job.until_answered("rejected")

            assert "no collection matches 'public.t'" in job.answered("rejected")[0].text


class TestOperations:
    """A publication that leaves operations out."""

    def inserts_only(self, table: Database, tmp_path: Path, spark: Any, **more: str) -> Driven:
        with table.connect() as connection:
            connection.execute("ALTER PUBLICATION dbz_publication SET (publish = 'insert')")
            connection.execute("ALTER PUBLICATION dbz_publication ADD TABLE t")
            with driven(table, tmp_path, spark, **more) as job:
                connection.execute(SNAPSHOT)
                job.until(lambda: job.answered("rejected") or job.answered("finished"))
                return job

    def test_the_snapshot_is_refused_with_what_is_missing(self, table, tmp_path, spark):
        job = self.inserts_only(table, tmp_path, spark)

        (refused,) = job.answered("rejected")
        assert "does not publish update, delete, truncate" in refused.text
        assert "tidemark.snapshot.accept.risk" in refused.text

    def test_unless_the_risk_is_accepted(self, table, tmp_path, spark, caplog):
        job = self.inserts_only(table, tmp_path, spark, tidemark__snapshot__accept__risk="public[.].*")

        assert len(replayed_rows(job.events("t"))) == 10
        assert "rows changed so after they are read stay as they were read" in caplog.text


_HOLDERS = (
    "SELECT slot_name, database, active, catalog_xmin::text FROM pg_replication_slots",
    "SELECT backend_type, datname, state, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL",
    "SELECT gid, database, transaction::text FROM pg_prepared_xacts",
)
"""What may hold back the age of a new slot."""


class TestGaps:
    """Changes that the publication withheld are in no log: a table lacks them until it is read."""

    @pytest.fixture(autouse=True)
    def looks_at_every_turn(self, monkeypatch):
        monkeypatch.setattr(membership, "_EVERY_S", 0.0)

    def prepared(self, database: Database, publication: str = "FOR TABLE t, u, signals") -> None:
        self.execute(
            database,
            SIGNAL_TABLE,
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            "CREATE TABLE u (id int PRIMARY KEY, v text)",
            "INSERT INTO t SELECT i, 'old' FROM generate_series(1, 4) i",
            f"CREATE PUBLICATION dbz_publication {publication}",
        )

    def execute(self, database: Database, *statements: str) -> None:
        with database.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def lacking(self, job: Driven) -> list[str]:
        return [entry.collection.parts[1] for entry in job.job.state.incomplete]

    def withhold(self, database: Database) -> None:
        """Change a row of `t` while it is not published."""
        self.execute(
            database,
            "ALTER PUBLICATION dbz_publication DROP TABLE t",
            "UPDATE t SET v = 'withheld' WHERE id = 1",
            "ALTER PUBLICATION dbz_publication ADD TABLE t",
        )

    def make_slot(self, database: Database, directory: Path) -> None:
        """Make the slot that the job will find, ahead of its first start.

        A slot is as old as the oldest transaction of the whole server, which may be autovacuum's.
        """
        slot = properties(database, directory)["slot.name"]
        younger = (
            "SELECT s.catalog_xmin::text::bigint > p.xmin::text::bigint"
            " FROM pg_replication_slots AS s, pg_publication AS p WHERE s.slot_name = %s"
        )
        until_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until_s:
            self.execute(database, f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
            with database.connect() as connection:
                if connection.execute(younger, [slot]).fetchone() == (True,):
                    return
            self.execute(database, f"SELECT pg_drop_replication_slot('{slot}')")
            time.sleep(0.1)
        with database.connect() as connection:
            held = [connection.execute(old).fetchall() for old in _HOLDERS]
        pytest.fail(f"an old transaction or slot stays on the server: {held}")

    def test_a_table_taken_out_and_added_again_before_the_first_start(self, each_database, tmp_path, spark):
        self.prepared(each_database)
        self.make_slot(each_database, tmp_path)
        self.withhold(each_database)

        with driven(each_database, tmp_path, spark) as job:
            job.until(lambda: self.lacking(job))
            assert self.lacking(job) == ["t"]

    def test_a_table_taken_out_and_added_again_before_the_first_turn(self, each_database, tmp_path, spark):
        """The state says where the log begins, and not yet what is published."""
        self.prepared(each_database)
        with driven(each_database, tmp_path, spark, snapshot__mode="never"):
            pass
        self.withhold(each_database)

        with driven(each_database, tmp_path, spark, snapshot__mode="never") as job:
            job.until(lambda: self.lacking(job))
            assert "t" in self.lacking(job)

    def test_a_slot_younger_than_the_publication_lacks_nothing(self, each_database, tmp_path, spark):
        self.prepared(each_database)
        self.make_slot(each_database, tmp_path)
        self.execute(each_database, "UPDATE u SET v = 'told'", "INSERT INTO u VALUES (9, 'told')")

        with driven(each_database, tmp_path, spark) as job:
            job.until(job.events)
            assert self.lacking(job) == []

    def test_a_table_taken_out_and_added_again(self, each_database, tmp_path, spark, caplog):
        self.prepared(each_database)
        with driven(each_database, tmp_path, spark) as job:
            self.execute(each_database, SNAPSHOT)
            job.until_answered("finished")
            self.withhold(each_database)
            job.until(lambda: self.lacking(job))
            self.execute(each_database, "INSERT INTO u VALUES (1, 'goes on')")
            job.until_drained(each_database)

            assert self.lacking(job) == ["t"]
            assert "taken out of publication 'dbz_publication' and added again" in caplog.text
            assert [event["key"]["id"] for event in job.events("u")] == [1]
        caplog.clear()
        with driven(each_database, tmp_path, spark) as job:
            assert "public.t lacks changes since" in caplog.text
            self.execute(each_database, SNAPSHOT)
            job.until_answered("finished")

            assert self.lacking(job) == []
            assert replayed_rows(job.events("t"))[1]["v"] == "withheld"
            assert "rows deleted in the gap were not reported" in job.answered("finished")[-1].text

    def test_while_no_job_runs(self, database, tmp_path, spark):
        self.prepared(database)
        with driven(database, tmp_path, spark) as job:
            self.execute(database, "INSERT INTO t VALUES (9, 'new')")
            job.until_drained(database)
        self.withhold(database)
        with driven(database, tmp_path, spark) as job:
            job.until(lambda: self.lacking(job))

            assert self.lacking(job) == ["t"]

    def test_inside_one_window(self, database, tmp_path, spark):
        self.prepared(database)
        with driven(database, tmp_path, spark, incremental__snapshot__chunk__size="1") as job:
            self.execute(database, SNAPSHOT)
            job.until(lambda: job.job.state.snapshot.tables)
            self.withhold(database)
            job.until_answered("finished")
            job.until(lambda: not job.job.state.snapshot.tables)

            held = replayed_rows(job.events("t"))[1]["v"]
            assert held == "withheld" or self.lacking(job) == ["t"]

    @pytest.mark.parametrize("initial", [False, True], ids=["blocking", "initial"])
    def test_under_a_snapshot_that_windows_share(self, database, tmp_path, spark, initial):
        """What completes is a snapshot from after the gap: the shared one is from before it."""
        self.prepared(database)
        self.execute(database, "INSERT INTO t SELECT i, 'old' FROM generate_series(5, 300) i")
        small = {"incremental__snapshot__chunk__size": "50", "tidemark__window__max__chunks": "1"}
        with driven(
            database, tmp_path, spark, **small, snapshot__mode="initial" if initial else "never"
        ) as job:
            if not initial:
                self.execute(database, BLOCKING)
            job.until(lambda: any(t.progress and t.progress.rows for t in job.job.state.snapshot.tables))
            self.withhold(database)
            job.until(lambda: self.lacking(job))
            job.until(lambda: not job.job.state.snapshot.tables)
            job.until_drained(database)

            assert self.lacking(job) == []
            assert replayed_rows(job.events("t"))[1]["v"] == "withheld"

    def test_a_publication_made_anew(self, each_database, tmp_path, spark):
        self.prepared(each_database)
        with driven(each_database, tmp_path, spark) as job:
            self.execute(each_database, SNAPSHOT)
            job.until_answered("finished")
            self.execute(
                each_database,
                "DROP PUBLICATION dbz_publication",
                "UPDATE t SET v = 'withheld' WHERE id = 1",
                "CREATE PUBLICATION dbz_publication FOR TABLE t, u, signals",
                "INSERT INTO u VALUES (1, 'goes on')",
            )
            # Version 15 can't decode the changes that were made while there was none: the session ends.
            job.job.run(lambda: len(self.lacking(job)) == 3)
            job.until_drained(each_database)
            self.execute(each_database, "INSERT INTO u VALUES (2, 'goes on')", SNAPSHOT)
            job.until_answered("finished", 2)

            assert set(self.lacking(job)) == {"u", "signals"}
            assert replayed_rows(job.events("t"))[1]["v"] == "withheld"
            assert 2 in replayed_rows(job.events("u"))

    def test_options_that_leave_operations_out(self, database, tmp_path, spark):
        self.prepared(database)
        with driven(database, tmp_path, spark) as job:
            self.execute(database, "ALTER PUBLICATION dbz_publication SET (publish = 'insert')")
            job.until(lambda: len(self.lacking(job)) == 3)

    def test_a_new_table_lacks_nothing(self, database, tmp_path, spark):
        self.prepared(database)
        with driven(database, tmp_path, spark) as job:
            self.execute(
                database,
                "CREATE TABLE v (id int PRIMARY KEY)",
                "ALTER PUBLICATION dbz_publication ADD TABLE v",
            )
            self.execute(database, "INSERT INTO v VALUES (1)")
            job.until_drained(database)

            assert (self.lacking(job), len(job.events("v"))) == ([], 1)
