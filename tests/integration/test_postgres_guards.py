"""PostgreSQL's traps on a real server: each guard, and what would happen without it."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from adapters.postgres.drivers import jdbc_properties, jdbc_url, make_server
from adapters.postgres.log import pending_visibility
from adapters.postgres.server.questions.catalog import Catalog
from adapters.postgres.server.session_pool import Sessions
from adapters.postgres.settings import PostgresSettings
from adapters.postgres.snapshot import watermark
from adapters.postgres.snapshot.chunk_reader import session_statement
from adapters.postgres.snapshot.watermark import ExportedSnapshot
from engine.config import parse
from engine.errors import TableBusy
from engine.model import CollectionId
from engine.snapshot.merge import SupersededKeys
from tests.driven import SIGNAL_TABLE, driven, properties, replayed_rows
from tests.servers.postgres_states import in_background, no_standby

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapters.postgres.server.questions.snapshots import SnapshotExport
    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""
T = CollectionId(("public", "t"))
UNAVAILABLE = "__debezium_unavailable_value"


@pytest.fixture
def table(database: Database) -> Database:
    database.execute(SIGNAL_TABLE, "CREATE TABLE t (id int PRIMARY KEY, v text)")
    database.execute("INSERT INTO t SELECT g, 'old' FROM generate_series(1, 10) g")
    return database


class TestUnsettled:
    """Streamed before a snapshot shows it."""

    def run(self, table: Database, job: Driven) -> None:
        with no_standby(table.server), table.connect() as local:
            local.execute("SET synchronous_commit = local")
            waiting = in_background(table, "UPDATE t SET v = 'new' WHERE id = 3")
            job.until(lambda: any(e["value"]["after"]["v"] == "new" for e in job.events("t")))
            local.execute(SNAPSHOT)
            job.until_answered("finished")
        waiting.join(10)

    def test_a_row_changed_by_an_invisible_transaction_is_not_read_over_it(self, table, tmp_path, spark):
        with driven(table, tmp_path, spark) as job:
            self.run(table, job)

            assert replayed_rows(job.events("t"))[3]["v"] == "new"
            assert len(replayed_rows(job.events("t"))) == 10

    def test_it_is_remembered_over_a_restart(self, table, tmp_path, spark):
        with driven(table, tmp_path, spark) as job:
            job.job.turn()
        with no_standby(table.server), table.connect() as local:
            local.execute("SET synchronous_commit = local")
            with driven(table, tmp_path, spark) as job:
                waiting = in_background(table, "UPDATE t SET v = 'new' WHERE id = 3")
                job.until(lambda: job.events("t"))
            with driven(table, tmp_path, spark) as job:
                local.execute(SNAPSHOT)
                job.until_answered("finished")

                assert replayed_rows(job.events("t"))[3]["v"] == "new"
        waiting.join(10)

    def test_no_window_opens_while_more_than_is_kept_is_not_visible(
        self, table, tmp_path, spark, monkeypatch, caplog
    ):
        monkeypatch.setattr(pending_visibility, "KEPT_KEYS", 2)
        with driven(table, tmp_path, spark) as job:
            with no_standby(table.server), table.connect() as local:
                local.execute("SET synchronous_commit = local")
                waiting = in_background(table, "UPDATE t SET v = 'new' WHERE id < 6")
                job.until(lambda: len(job.events("t")) == 5)
                local.execute(SNAPSHOT)
                job.until(lambda: "is not visible yet" in caplog.text)
                for _ in range(50):
                    job.job.turn()

                assert job.job.window is None
                assert "synchronous_standby_names" in caplog.text
                assert not job.answered("finished")
            waiting.join(10)
            job.until_answered("finished")

            found = {key: row["v"] for key, row in replayed_rows(job.events("t")).items()}
            assert found == {n: "new" if n < 6 else "old" for n in range(1, 11)}

    def test_without_the_unsettled_set_the_old_row_wins(self, table, tmp_path, spark, monkeypatch):
        from adapters.postgres.snapshot import superseded_keys  # noqa: PLC0415

        monkeypatch.setattr(superseded_keys, "update_pending", lambda waiting, *_args: waiting)
        with driven(table, tmp_path, spark) as job:
            self.run(table, job)

            assert replayed_rows(job.events("t"))[3]["v"] == "old"


class TestNamesakes:
    """Rows that share the column by which a table without a key is read."""

    STATEMENTS = (
        "UPDATE n SET v = 'two' WHERE v = 'one'",
        "DELETE FROM n WHERE v = 'one'",
        "INSERT INTO n VALUES (1, 'new')",
        "UPDATE n SET v = 'three' WHERE v = 'four'",
    )

    def replayed(self, table: Database, tmp_path: Path, spark: Any, identity: str, statement: str) -> Any:
        """What a consumer has of the table, and what is in it, after a statement in the window."""
        with table.connect() as connection:
            connection.execute("CREATE TABLE n (id int, v text)")
            connection.execute(f"ALTER TABLE n REPLICA IDENTITY {identity}")
            connection.execute(
                "INSERT INTO n VALUES (1, 'one'), (1, 'three'), (1, 'four'), (1, NULL), (2, '')"
            )
        with driven(table, tmp_path, spark) as job, table.connect() as connection:
            connection.execute(
                SNAPSHOT.replace("public.t", "public.n").replace("]}", '], "surrogate-key": "id"}')
            )
            job.until(lambda: job.job.window is not None)
            connection.execute(statement)
            job.until_answered("finished")
            job.until_drained(table)
            rows: Counter[tuple[Any, ...]] = Counter()
            for event in (event["value"] for event in job.events("n") if event["value"]):
                for side, count in (("before", -1), ("after", 1)):
                    if event[side]:
                        rows[tuple(event[side].values())] += count
            return rows, Counter(connection.execute("SELECT * FROM n").fetchall())

    @pytest.mark.parametrize("statement", STATEMENTS)
    def test_a_change_of_one_row_drops_no_other(self, table, tmp_path, spark, statement):
        replayed, there = self.replayed(table, tmp_path, spark, "FULL", statement)

        # The old row was dropped from the window, or read before its change: then it is taken back.
        assert {row: n for row, n in replayed.items() if n > 0} == there

    @pytest.mark.parametrize("identity", ["DEFAULT", "NOTHING"])
    def test_nor_does_an_insert_where_the_log_knows_no_old_rows(self, table, tmp_path, spark, identity):
        replayed, there = self.replayed(table, tmp_path, spark, identity, self.STATEMENTS[2])

        assert replayed == there


class TestVisibility:
    """A transaction that began before the window and committed after its snapshot."""

    def test_an_open_transaction_supersedes_when_it_commits_in_the_window(self, table, tmp_path, spark):
        with driven(table, tmp_path, spark) as job, table.connect(autocommit=False) as writer:
            writer.execute("UPDATE t SET v = 'new' WHERE id = 3")
            with table.connect() as other:
                other.execute(SNAPSHOT)
            job.until(lambda: job.job.window is not None)
            writer.commit()
            job.until_answered("finished")
            job.until_drained(table)

            reads = [e["key"]["id"] for e in job.events("t") if e["value"]["op"] == "r"]
            ops = [e["value"]["op"] for e in job.events("t") if e["key"]["id"] == 3]
            assert sorted(reads) in (list(range(1, 11)), [n for n in range(1, 11) if n != 3])
            assert ops in (["r", "u"], ["u"])
            assert replayed_rows(job.events("t"))[3]["v"] == "new"


class TestHorizon:
    """H, and how soon the stream gets there."""

    def snapshot_s(self, table: Database, job: Driven) -> float:
        with table.connect() as connection:
            connection.execute(SNAPSHOT)
        finished = len(job.answered("finished"))
        job.until_answered("accepted", finished + 1)
        begun = time.monotonic()
        job.until_answered("finished", finished + 1)
        return time.monotonic() - begun

    def test_a_horizon_behind_a_page_header_is_moved_to_where_a_record_can_end(self, table):
        server = make_server(parse(properties(table, Path("unused"))).source_as(PostgresSettings))
        with table.connect() as connection:
            connection.execute("SELECT pg_switch_wal()")
            row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
        held = ExportedSnapshot(Sessions(server.open, time.monotonic, kept=0), [T])
        try:
            assert row is not None
            if int(row[0]) % (16 << 20) == 40:
                assert held.exported.horizon == int(row[0]) - 40
            assert held.exported.horizon % 8192 not in (24, 40)
        finally:
            held.close()

    def test_windows_on_an_idle_server_close_at_once(self, table, tmp_path, spark):
        with driven(table, tmp_path, spark) as job:
            self.snapshot_s(table, job)  # the first one starts Spark's workers
            taken = []
            for _ in range(5):
                with table.connect() as connection:
                    connection.execute("SELECT pg_switch_wal()")
                taken.append(self.snapshot_s(table, job))

            assert sorted(taken)[2] < 4.0  # without the guards it takes until the next record

    def finishes_beside_an_open_writer(self, table: Database, job: Driven, patience_s: float) -> bool:
        finished = len(job.answered("finished"))
        with table.connect(autocommit=False) as writer:
            with table.connect() as connection:
                connection.execute(SNAPSHOT)
            # A record that nobody flushes stands before the horizon of the window that opens now.
            writer.execute("UPDATE t SET v = 'open' WHERE id = 4")
            begun = time.monotonic()
            while time.monotonic() - begun < patience_s and len(job.answered("finished")) == finished:
                job.job.turn()
        return len(job.answered("finished")) > finished

    def test_beside_an_open_writer_the_log_is_flushed(self, table, tmp_path, spark):
        with driven(table, tmp_path, spark) as job:
            self.snapshot_s(table, job)  # the first one starts Spark's workers
            assert self.finishes_beside_an_open_writer(table, job, 8.0)

    def test_without_that_a_window_waits_for_whoever_flushes_it_next(
        self, table, tmp_path, spark, monkeypatch
    ):
        monkeypatch.setattr(watermark, "_PUSH_AFTER_S", 1e6)
        with driven(table, tmp_path, spark) as job:
            self.snapshot_s(table, job)
            # The server flushes for reasons of its own too, every 15 s at least.
            assert not all(self.finishes_beside_an_open_writer(table, job, 3.0) for _ in range(4))


class TestReaders:
    """Every reader is on the exporter's snapshot, or fails."""

    @pytest.fixture
    def held(self, table: Database, tmp_path: Path) -> Iterator[ExportedSnapshot]:
        settings = parse(properties(table, tmp_path))
        held = ExportedSnapshot(
            Sessions(make_server(settings.source_as(PostgresSettings)).open, time.monotonic, kept=0), [T]
        )
        with table.connect() as connection:
            connection.execute("INSERT INTO t VALUES (11, 'later')")
        yield held
        held.close()

    def read(self, table: Database, spark: Any, exported: SnapshotExport, fetch_rows: int) -> int:
        postgres = parse(properties(table, Path("unused"))).source_as(PostgresSettings)
        frame = spark.read.jdbc(
            jdbc_url(postgres),
            "(SELECT id FROM t) AS q",
            properties={
                **jdbc_properties(postgres),
                "driver": "org.postgresql.Driver",
                "fetchsize": str(fetch_rows),
                "sessionInitStatement": session_statement(exported),
            },
        )
        return len(frame.collect())

    @pytest.mark.parametrize("fetch_rows", [0, 100])
    def test_a_reader_sees_what_the_exporter_sees(self, table, held, spark, fetch_rows):
        assert self.read(table, spark, held.exported, fetch_rows) == 10

    def test_a_reader_on_another_snapshot_fails(self, table, held, spark):
        with pytest.raises(Exception, match="the reader is on snapshot"):
            self.read(table, spark, replace(held.exported, text="1:2:"), 100)


def until_sent(database: Database) -> None:
    """Wait until the server has sent the job all that is committed, so that it comes in the open window."""
    end, deadline = database.value("SELECT pg_current_wal_flush_lsn()::text"), time.monotonic() + 30
    sent = f"SELECT bool_and(sent_lsn >= '{end}') FROM pg_stat_replication"
    while not database.value(sent):
        assert time.monotonic() < deadline, "the log is not sent"
        time.sleep(0.05)
    time.sleep(0.2)


class TestLargeValues:
    """A large value that an update leaves alone is not in the log."""

    @pytest.fixture
    def documents(self, table: Database) -> Database:
        with table.connect() as connection:
            connection.execute("ALTER TABLE t ADD COLUMN body text STORAGE EXTERNAL")
            connection.execute("UPDATE t SET body = repeat('large ' || id, 2000)")
        return table

    def bodies(self, documents: Database, tmp_path: Path, spark: Any, statement: str) -> dict[int, str]:
        """What a consumer has in the large column, after a statement that ran in the window."""
        with driven(documents, tmp_path, spark) as job, documents.connect() as connection:
            connection.execute(SNAPSHOT)
            job.until(lambda: job.job.window is not None)
            connection.execute(statement)
            until_sent(documents)
            job.until_answered("finished")
            job.until_drained(documents)
            found: dict[int, str] = {}
            for event in job.events("t"):
                if event["value"] and event["value"]["after"]:
                    key, body = event["key"]["id"], event["value"]["after"]["body"]
                    found[key] = found.get(key, body) if body == UNAVAILABLE else body
            return found

    def test_a_row_dropped_for_an_update_without_it_is_read_again(self, documents, tmp_path, spark):
        bodies = self.bodies(documents, tmp_path, spark, "UPDATE t SET v = 'new' WHERE id < 4")

        assert bodies == {n: f"large {n}" * 2000 for n in range(1, 11)}

    def test_so_is_one_that_moved_to_another_key(self, documents, tmp_path, spark):
        bodies = self.bodies(documents, tmp_path, spark, "UPDATE t SET id = 20 WHERE id = 3")

        assert bodies[20] == "large 3" * 2000

    def test_without_the_second_reading_the_value_is_lost(self, documents, tmp_path, spark, monkeypatch):
        monkeypatch.setattr(SupersededKeys, "unsent", lambda *_args: frozenset())

        bodies = self.bodies(documents, tmp_path, spark, "UPDATE t SET v = 'new' WHERE id < 4")

        assert bodies[3] == UNAVAILABLE


class TestSessions:
    """Sessions of windows are used again, and nobody notices."""

    now_s = 0.0

    @pytest.fixture
    def sessions(self, table: Database) -> Iterator[Sessions]:
        server = make_server(parse(properties(table, Path("unused"))).source_as(PostgresSettings))
        made = Sessions(server.open, clock=lambda: self.now_s)
        yield made
        made.close()

    def test_a_session_comes_back_without_transaction_locks_and_time_limits(self, table, sessions):
        held = ExportedSnapshot(sessions, [T])
        held.close()
        held.close()
        again, other = sessions.take(), sessions.take()
        try:
            assert again is held.session
            assert other is not again
            assert not held.is_alive()
            assert again._connection.info.transaction_status == TransactionStatus.IDLE
            with table.connect(autocommit=False) as connection:
                connection.execute("SET lock_timeout = '5s'")
                connection.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
            assert again._connection.execute("SHOW statement_timeout").fetchone() == ("0",)
        finally:
            again.close()
            other.close()

    def test_one_that_holds_a_failed_transaction_or_has_died_is_no_obstacle(self, table, sessions):
        failed, killed = sessions.take(), sessions.take()
        failed._connection.execute("BEGIN")
        with pytest.raises(psycopg.errors.DivisionByZero):
            failed._connection.execute("SELECT 1 / 0")
        sessions.give(failed)
        sessions.give(killed)
        with table.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", [killed.pid])
        ones = [sessions.take(), sessions.take()]
        try:
            assert ones[0] is failed
            assert [session._connection.execute("SELECT 1").fetchone() for session in ones] == [(1,), (1,)]
            assert killed.closed
        finally:
            for session in ones:
                session.close()

    def test_no_more_are_kept_than_windows_are_in_progress_and_for_a_while(self, sessions):
        taken = [sessions.take() for _ in range(3)]
        for session in taken:
            sessions.give(session)
        kept = [session for session in taken if not session.closed]
        self.now_s = 9.0
        sessions.trim()
        kept_on = [session for session in taken if not session.closed]
        self.now_s = 11.0
        sessions.trim()

        assert len(kept) == len(kept_on) == 2
        assert all(session.closed for session in taken)

    def test_the_catalog_leaves_a_shared_connection_free_when_a_table_is_locked(self, table):
        server = make_server(parse(properties(table, Path("unused"))).source_as(PostgresSettings))
        with table.connect(autocommit=False) as blocking, closing(server.connect()) as shared:
            blocking.execute("ALTER TABLE t ADD COLUMN more int DEFAULT 7")
            blocking.commit()
            blocking.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
            catalog = Catalog(shared)
            with pytest.raises(TableBusy, match="locked by another session"):
                catalog.describe([T])
            assert shared.info.transaction_status == TransactionStatus.IDLE
            blocking.rollback()
            assert [value.id for value in catalog.describe([T]).values()] == [T]
            assert shared.info.transaction_status == TransactionStatus.IDLE
