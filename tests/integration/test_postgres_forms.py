"""Tables whose rows are made anew, or whose partitions come and go, between two windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.server.questions.layouts import Layouts
from adapters.postgres.server.watches import absences
from adapters.postgres.snapshot.table_changes.fingerprint import Form, difference, forms
from tests.driven import SIGNAL_TABLE, driven, replayed_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""
SMALL = {"tidemark__window__max__chunks": "2", "incremental__snapshot__chunk__size": "100"}
ROWS = 1000
HARMLESS = (
    "TRUNCATE t",
    "INSERT INTO t SELECT g, g, 'x' FROM generate_series(1, 100) g",
    "ANALYZE t",
    "VACUUM FREEZE t",
    "VACUUM FULL t",
    "CLUSTER t USING t_pkey",
    "REINDEX TABLE t",
    "CREATE INDEX ON t (n)",
    "ALTER TABLE t REPLICA IDENTITY FULL",
    "GRANT SELECT ON t TO PUBLIC",
)
TELLING = (
    "ALTER TABLE t ALTER n TYPE int USING n + 1",
    "ALTER TABLE t ADD w int DEFAULT 5",
    "ALTER TABLE t DROP w",
    "ALTER TABLE t ALTER n TYPE bigint",
    "ALTER TABLE t SET UNLOGGED",
    "ALTER TABLE t SET LOGGED",
)


def test_what_can_change_rows_unlogged_shows_in_the_form_and_nothing_else_does(each_database):
    with each_database.connect() as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, n int, v text)")
        row = connection.execute("SELECT 't'::regclass::oid::bigint").fetchone()
        assert row is not None

        def form() -> Form:
            return forms(Layouts(connection), [row[0]])[row[0]]

        seen = form()
        for statement in HARMLESS:
            connection.execute(statement.encode())
            assert (statement, form()) == (statement, seen)
        for statement in TELLING:
            connection.execute(statement.encode())
            assert (statement, form()) != (statement, seen)
            seen = form()


def test_a_difference_is_told_in_words():
    before, now = ("key a", "columns 1 x", "publication p"), ("key a", "columns 1 y", "publication q")

    assert difference(before, now) == "its columns were changed, what is published of it was changed"


@pytest.fixture
def table(database: Database) -> Database:
    database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)",
        f"INSERT INTO t SELECT g, g FROM generate_series(1, {ROWS}) g",
    )
    return database


def changed_meanwhile(
    database: Database, tmp_path: Path, spark: Any, statements: Sequence[str], **more: str
) -> Driven:
    """A job whose table was changed between two windows of its snapshot."""
    with driven(database, tmp_path, spark, **SMALL, **more) as job, database.connect() as connection:
        connection.execute(SNAPSHOT)
        begun: Callable[[], bool] = lambda: 0 < len(replayed_rows(job.events("t"))) < ROWS  # noqa: E731
        job.until(begun)
        # A window that is open gives way to the statement, or has it wait.
        job.job.close()
        for statement in statements:
            connection.execute(statement.encode())
        job.job.settle()
        job.until_answered("finished")
        job.until_drained(database)
        return job


class TestRewritten:
    STATEMENT = "ALTER TABLE t ALTER n TYPE int USING n + 5000"

    def test_a_table_rewritten_while_it_is_read_is_read_anew(self, table, tmp_path, spark, caplog):
        job = changed_meanwhile(table, tmp_path, spark, [self.STATEMENT])

        assert {row["n"] for row in replayed_rows(job.events("t")).values()} == set(range(5001, 6001))
        assert "its columns were changed" in caplog.text

    def test_without_the_form_old_values_stay(self, table, tmp_path, spark, monkeypatch):
        monkeypatch.setattr(Form, "traits", lambda *_args: ())
        job = changed_meanwhile(table, tmp_path, spark, [self.STATEMENT])

        assert {row["n"] for row in replayed_rows(job.events("t")).values()} & set(range(1, 1001))

    def test_one_that_was_unlogged_for_a_while_too(self, table, tmp_path, spark):
        with table.connect() as connection:
            connection.execute("ALTER TABLE t ADD v text")
        unseen = ("ALTER TABLE t SET UNLOGGED", "UPDATE t SET n = 0 WHERE id = 1", "ALTER TABLE t SET LOGGED")
        job = changed_meanwhile(table, tmp_path, spark, unseen)

        assert replayed_rows(job.events("t"))[1]["n"] == 0

    def test_a_table_that_is_truncated_again_and_again_is_read_to_its_end(self, table, tmp_path, spark):
        with driven(table, tmp_path, spark, **SMALL) as job, table.connect() as connection:
            connection.execute(SNAPSHOT)
            truncated = reads = 0
            while not job.answered("finished"):
                if reads < (reads := sum(event["value"]["op"] == "r" for event in job.events("t"))):
                    truncated += 1
                    job.job.close()
                    with connection.transaction():
                        connection.execute("TRUNCATE t")
                        connection.execute(f"INSERT INTO t SELECT g, -g FROM generate_series(1, {ROWS}) g")
                    job.job.settle()
                job.job.turn()
            job.until_drained(table)

            assert truncated > 2
            assert {row["n"] for row in replayed_rows(job.events("t")).values()} == set(range(-ROWS, 0))


class TestOtherKey:
    """The primary key gains or loses a column between two windows; rows lack a value then."""

    GAIN = "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, n)"
    LOSE = "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id)"

    @pytest.fixture
    def worded(self, each_database: Database) -> Database:
        """Keys that are no integers: the server is asked where to cut them."""
        with each_database.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            connection.execute("CREATE TABLE t (id text PRIMARY KEY, n int NOT NULL, body text)")
            connection.execute("ALTER TABLE t ALTER body SET STORAGE EXTERNAL")
            connection.execute(
                "INSERT INTO t SELECT to_char(g, '0000'), g, repeat('large', 1000)"
                f" FROM generate_series(1, {ROWS}) g".encode()
            )
        return each_database

    @pytest.mark.parametrize(("before", "during"), [([], GAIN), ([GAIN], LOSE)])
    def test_the_table_is_read_anew(self, worded, tmp_path, spark, before, during, caplog):
        with worded.connect() as connection:
            for statement in before:
                connection.execute(statement.encode())
        moves = [
            "UPDATE t SET id = ' x' || n WHERE n > 990",
            during,
            "UPDATE t SET id = ' y' || n WHERE n > 995",
        ]
        job = changed_meanwhile(worded, tmp_path, spark, moves)

        rows = replayed_rows(job.events("t"))
        assert sorted(row["n"] for row in rows.values()) == list(range(1, ROWS + 1))
        assert {row["body"] for row in rows.values()} == {"large" * 1000}
        assert "is read again" in caplog.text


class TestPartitions:
    @pytest.fixture
    def parted(self, each_database: Database) -> Database:
        """A table whose partitions are published under its name."""
        with each_database.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL) PARTITION BY RANGE (id)")
            for number in range(3):
                bounds = f"FROM ({number * 500}) TO ({number * 500 + 500})"
                connection.execute(f"CREATE TABLE t{number} PARTITION OF t FOR VALUES {bounds}".encode())
            connection.execute("ALTER TABLE t DETACH PARTITION t0")
            connection.execute(b"INSERT INTO t0 SELECT g, g FROM generate_series(1, 400) g")
            connection.execute("INSERT INTO t SELECT g, g FROM generate_series(501, 1300) g")
        return each_database

    @pytest.fixture
    def via_root(self, parted: Database) -> Database:
        with parted.connect() as connection:
            connection.execute(
                "CREATE PUBLICATION dbz_publication FOR TABLE t, signals"
                " WITH (publish_via_partition_root = true)"
            )
        return parted

    ATTACH = "ALTER TABLE t ATTACH PARTITION t0 FOR VALUES FROM (0) TO (500)"

    def test_one_attached_meanwhile_is_read_too(self, via_root, tmp_path, spark):
        job = changed_meanwhile(via_root, tmp_path, spark, [self.ATTACH])

        assert set(replayed_rows(job.events("t"))) == {*range(1, 401), *range(501, 1301)}
        assert {event["topic"] for event in job.events()} == {"tm.public.t", "tm.public.signals"}

    def test_without_the_form_its_rows_are_lost(self, via_root, tmp_path, spark, monkeypatch):
        monkeypatch.setattr(Form, "traits", lambda *_args: ())
        monkeypatch.setattr(absences, "attached", lambda *_args: {})
        job = changed_meanwhile(via_root, tmp_path, spark, [self.ATTACH])

        assert not set(replayed_rows(job.events("t"))).issuperset(range(1, 401))

    def test_partitions_that_come_and_go_are_told_of(self, via_root, tmp_path, spark, caplog):
        with driven(via_root, tmp_path, spark) as job, via_root.connect() as connection:
            connection.execute(SNAPSHOT)
            job.until_answered("finished")
            connection.execute(self.ATTACH)
            connection.execute("ALTER TABLE t DETACH PARTITION t2")
            connection.execute(SNAPSHOT)
            job.until_answered("finished", 2)

            assert "partitions of public.t were attached: public.t0;" in caplog.text
            assert "partitions of public.t were detached: public.t2;" in caplog.text
            assert set(replayed_rows(job.events("t"))).issuperset(range(1, 401))

    def test_partitions_published_under_their_own_names_are_tables_of_their_own(
        self, parted, tmp_path, spark
    ):
        with parted.connect() as connection:
            connection.execute("CREATE PUBLICATION dbz_publication FOR TABLE t, signals")
        with driven(parted, tmp_path, spark) as job, parted.connect() as connection:
            connection.execute(SNAPSHOT.replace("public.t", "public.t."))
            job.until_answered("finished", 2)

            connection.execute(SNAPSHOT)
            job.until_answered("finished", 4)

            assert sum(event["value"]["op"] == "r" for event in job.events("t2")) == 2 * 301
            assert not job.events("t")
            assert len(replayed_rows(job.events("t1"))) == 499
            assert len(replayed_rows(job.events("t2"))) == 301


class TestInheritance:
    def test_a_parent_is_read_without_its_heirs(self, table, tmp_path, spark):
        with table.connect() as connection:
            connection.execute("CREATE TABLE heir () INHERITS (t)")
            connection.execute("INSERT INTO heir VALUES (5000, 0)")
        with driven(table, tmp_path, spark) as job, table.connect() as connection:
            connection.execute(SNAPSHOT)
            job.until_answered("finished")

            assert set(replayed_rows(job.events("t"))) == set(range(1, ROWS + 1))
