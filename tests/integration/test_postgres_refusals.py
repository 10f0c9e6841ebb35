"""What can't be snapshotted rightly is refused, with the reason; its stream goes on."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.conditions.selection import Selections
from adapters.postgres.drivers import make_server
from adapters.postgres.server.publication import Publication
from adapters.postgres.server.questions.questions import Questions
from adapters.postgres.settings import PostgresSettings
from adapters.postgres.snapshot.eligibility import Eligibility
from adapters.postgres.snapshot.tables import PostgresTables
from adapters.system import system_clock
from engine.config import parse
from engine.config.settings import Conditions
from engine.errors import ConfigError, SignalError
from engine.model import CollectionId, Target
from engine.snapshot.extent import Extent
from tests.driven import SIGNAL_TABLE, driven, properties
from tests.servers.postgres import Database, PostgresServer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration
TABLES = """
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE VIEW a_view AS SELECT * FROM t;
CREATE MATERIALIZED VIEW stored AS SELECT * FROM t;
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
CREATE FOREIGN DATA WRAPPER w;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER w;
CREATE FOREIGN TABLE far (id int) SERVER elsewhere;
CREATE TABLE unpublished (id int PRIMARY KEY);
CREATE TABLE keyless (id int, v text);
CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (10);
CREATE PUBLICATION p FOR TABLE t, keyless, root;
"""
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.n"]}')"""
REASONS = {
    "a_view": "a view has no changes in the log",
    "stored": "a materialized view has no changes in the log",
    "far": "a foreign table has no changes in the log",
    "unlogged": "an unlogged table has no changes in the log",
    "unpublished": "publication 'p' does not have the table",
    "keyless": "neither a primary key nor a unique index",
    "root": "ask for public.leaf",
    "nowhere": "there is no such table",
}


def measured(database: Database, *names: str) -> list[Any]:
    with database.connect() as connection:
        publication = Publication("p", lambda _schema, _table: True)
        questions = Questions(connection)
        readable = Eligibility(questions, publication, Selections(questions, Conditions.EXPRESSIONS))
        targets = [Target(CollectionId(("public", name))) for name in names]
        return list(
            PostgresTables(Questions(connection), publication, readable, system_clock()).measure(targets)
        )


class TestKinds:
    def test_what_leaves_no_changes_is_refused(self, each_database):
        with each_database.connect() as connection:
            connection.execute(TABLES)
        answers = dict(zip(REASONS, measured(each_database, *REASONS), strict=True))

        assert all(isinstance(answer, SignalError) for answer in answers.values())
        assert {name: REASONS[name] in str(answer) for name, answer in answers.items()} == dict.fromkeys(
            REASONS, True
        )

    def test_a_temporary_table_is_refused(self, each_database):
        with each_database.connect() as connection:
            connection.execute(TABLES)
            connection.execute("CREATE TEMPORARY TABLE passing (id int PRIMARY KEY)")
            row = connection.execute("SELECT pg_my_temp_schema()::regnamespace::text").fetchone()
            assert row is not None
            publication = Publication("p", lambda _schema, _table: True)
            questions = Questions(connection)
            readable = Eligibility(questions, publication, Selections(questions, Conditions.EXPRESSIONS))
            target = Target(CollectionId((row[0], "passing")))
            (answer,) = PostgresTables(Questions(connection), publication, readable, system_clock()).measure(
                [target]
            )

        assert "a temporary table has no changes in the log" in str(answer)

    def test_the_others_are_measured(self, each_database):
        with each_database.connect() as connection:
            connection.execute(TABLES)
        refused, taken = measured(each_database, "a_view", "t")

        assert isinstance(refused, SignalError)
        assert isinstance(taken, Extent)

    def test_the_stream_of_what_is_refused_goes_on(self, each_database, tmp_path, spark):
        with each_database.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            connection.execute("CREATE TABLE keyless (id int, v text)")
            with driven(each_database, tmp_path, spark) as job:
                connection.execute(
                    "INSERT INTO signals VALUES"
                    """ ('s', 'execute-snapshot', '{"data-collections": ["public.keyless"]}')"""
                )
                job.until_answered("rejected")
                connection.execute("INSERT INTO keyless VALUES (1, 'x')")
                job.until_drained(each_database)

                (refused,) = job.answered("rejected")
                assert "surrogate-key" in refused.text
                assert [event["value"]["op"] for event in job.events("keyless")] == ["c"]


class TestIdentities:
    """Which rows of a table may change without the log telling whose they were."""

    @pytest.mark.parametrize("identity", ["DEFAULT", "NOTHING"])
    def test_where_the_log_could_not_tell_the_server_allows_no_change(self, database, identity):
        with database.connect() as connection:
            connection.execute("CREATE TABLE n (id int, v text)")
            connection.execute(f"ALTER TABLE n REPLICA IDENTITY {identity}".encode())
            connection.execute("INSERT INTO n VALUES (1, 'x')")
            connection.execute("CREATE PUBLICATION p FOR TABLE n")
            for statement in ("UPDATE n SET v = 'y'", "DELETE FROM n"):
                with pytest.raises(Exception, match="does not have a replica identity"):
                    connection.execute(statement.encode())

    @pytest.mark.parametrize("identity", ["FULL", "USING INDEX n_b", "DEFAULT"])
    def test_rows_are_merged_by_what_the_log_carries(self, database, tmp_path, spark, identity):
        with database.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            connection.execute("CREATE TABLE n (a int PRIMARY KEY, b int NOT NULL, v text)")
            connection.execute("CREATE UNIQUE INDEX n_b ON n (b)")
            connection.execute(f"ALTER TABLE n REPLICA IDENTITY {identity}".encode())
            connection.execute("INSERT INTO n SELECT g, g, 'old' FROM generate_series(1, 5) g")
            with driven(database, tmp_path, spark) as job:
                connection.execute(SNAPSHOT)
                job.until(lambda: job.job.window is not None)
                connection.execute("UPDATE n SET v = 'new' WHERE b = 1")
                connection.execute("DELETE FROM n WHERE b = 2")
                job.until_answered("finished")
                job.until_drained(database)
                events = [event["value"] for event in job.events("n") if event["value"]]

        column = "a" if identity == "DEFAULT" else "b"
        found: dict[int, str] = {}
        for event in events:
            if event["op"] == "d":
                found.pop(event["before"][column], None)
            else:
                found[event["after"][column]] = event["after"]["v"]
        assert found == {1: "new", 3: "old", 4: "old", 5: "old"}


class TestStandby:
    def test_a_standby_is_refused(self, tmp_path, spark):
        with PostgresServer(15) as primary:
            primary.create_database("d")
            primary.stop()
            with PostgresServer(15) as standby:
                standby.stop()
                shutil.rmtree(standby.pgdata)
                shutil.copytree(primary.pgdata, standby.pgdata)
                (standby.pgdata / "standby.signal").touch()
                (standby.pgdata.parent / "password").write_text(primary.password)
                own(standby, primary.pgdata)
                standby.start()
                database = Database(standby, "d")
                server = make_server(parse(properties(database, tmp_path)).source_as(PostgresSettings))

                with pytest.raises(ConfigError, match="the server is a standby"):
                    server.refuse_standby()
                with (
                    pytest.raises(ConfigError, match="the server is a standby"),
                    driven(database, tmp_path, spark),
                ):
                    pass


def own(server: PostgresServer, pattern: Path) -> None:
    """Give a copied data folder the owner and the modes of the one it was copied from."""
    for path in (server.pgdata, *server.pgdata.rglob("*")):
        shutil.chown(path, pattern.owner(), pattern.group())
    server.pgdata.chmod(0o700)
