"""Keys of events follow the table's definition at their place in the log, not the catalog's of today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.events import relations
from engine.errors import PositionLost
from tests.driven import SIGNAL_TABLE, driven

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
MOVED = "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (b)"


@pytest.fixture
def table(each_database: Database) -> Database:
    each_database.execute(SIGNAL_TABLE, "CREATE TABLE t (id int PRIMARY KEY, b int NOT NULL, v text)")
    return each_database


class Stopped:
    """A job that was stopped, and started again after some statements."""

    def __init__(self, database: Database, directory: Path, spark: Any) -> None:
        self._database, self._directory, self._spark = database, directory, spark

    def keys(self, before: str, statements: Sequence[str], **more: str) -> list[Any]:
        """The keys of the table's events: what `before` wrote was read, the rest came while it was down."""
        with driven(self._database, self._directory, self._spark, **more) as job:
            with self._database.connect() as connection:
                connection.execute(before.encode())
            job.until_drained(self._database)
        with self._database.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())
        with driven(self._database, self._directory, self._spark, **more) as job:
            job.until_drained(self._database)
            return [event["key"] for event in job.events("t")]


@pytest.fixture
def stopped(table, tmp_path, spark) -> Stopped:
    return Stopped(table, tmp_path, spark)


class TestDefault:
    """The log marks the primary key's columns."""

    STATEMENTS = (
        "INSERT INTO t VALUES (2, 20)",
        "UPDATE t SET id = 3 WHERE id = 2",
        MOVED,
        "INSERT INTO t VALUES (4, 40)",
    )
    KEYS = ({"id": 1}, {"id": 2}, {"id": 2}, {"id": 2}, {"id": 3}, {"b": 40})

    def test_keys_change_where_the_table_did(self, stopped, caplog):
        keys = stopped.keys("INSERT INTO t VALUES (1, 10)", self.STATEMENTS)

        assert keys == list(self.KEYS)
        assert "keys follow the log" in caplog.text

    def test_by_the_catalog_alone_older_keys_would_be_the_new_ones(self, stopped, monkeypatch):
        monkeypatch.setattr(relations, "as_logged", lambda _relation, table, _key: table)
        keys = stopped.keys("INSERT INTO t VALUES (1, 10)", self.STATEMENTS)

        assert keys[1] == {"b": 20}

    def test_a_column_of_the_key_may_be_renamed(self, stopped):
        statements = (
            "INSERT INTO t VALUES (2, 20)",
            "ALTER TABLE t RENAME id TO ident",
            "INSERT INTO t VALUES (3, 30)",
        )

        assert stopped.keys("SELECT", statements) == [{"id": 2}, {"ident": 3}]

    def test_a_table_that_is_gone_by_now_has_the_key_it_had(self, stopped):
        statements = ("INSERT INTO t VALUES (2, 20)", "DELETE FROM t", "DROP TABLE t")

        assert stopped.keys("INSERT INTO t VALUES (1, 10)", statements)[:2] == [{"id": 1}, {"id": 2}]

    def test_before_the_primary_key_there_was_none(self, stopped):
        statements = (
            "ALTER TABLE t DROP CONSTRAINT t_pkey",
            "INSERT INTO t VALUES (2, 20)",
            "ALTER TABLE t ADD PRIMARY KEY (id)",
            "INSERT INTO t VALUES (3, 30)",
        )

        assert stopped.keys("SELECT", statements) == [None, {"id": 3}]

    def test_a_key_that_is_checked_late_is_still_the_key(self, stopped):
        late = "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id) DEFERRABLE INITIALLY DEFERRED"

        assert stopped.keys(late, ("INSERT INTO t VALUES (2, 20)",)) == [{"id": 2}]


class TestFull:
    """The log marks every column, and nobody can tell where the key changed."""

    BEFORE = "ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t VALUES (1, 10)"
    STATEMENTS = ("INSERT INTO t VALUES (2, 20)", MOVED, "INSERT INTO t VALUES (4, 40)")

    def test_the_job_stops_and_says_what_to_do(self, stopped):
        with pytest.raises(PositionLost, match=r"was \(id\) .* and is \(b\) now.*message.key.columns"):
            stopped.keys(self.BEFORE, self.STATEMENTS, tidemark__table__errors="stop")

    def test_with_a_chosen_key_it_goes_on(self, stopped):
        chosen = {"message__key__columns": "public.t:id"}

        assert stopped.keys(self.BEFORE, self.STATEMENTS, **chosen) == [{"id": 1}, {"id": 2}, {"id": 4}]

    def test_a_key_that_stays_is_no_matter(self, stopped):
        statements = ("ALTER TABLE t ADD w int", "INSERT INTO t VALUES (2, 20)")

        assert stopped.keys(self.BEFORE, statements) == [{"id": 1}, {"id": 2}]
