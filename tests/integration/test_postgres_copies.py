"""Tables without a key whose rows may be alike: a change takes away one of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.log.reader import PostgresLog
from adapters.postgres.snapshot.watermark import VisibilityWatermark
from tests.driven import SIGNAL_TABLE, driven
from tests.servers.postgres_states import in_background, no_standby

if TYPE_CHECKING:
    from pathlib import Path

    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = (
    "INSERT INTO signals VALUES ('s', 'execute-snapshot',"
    """ '{"data-collections": ["public.t"], "surrogate-key": "n"}')"""
)
FIRST = "ctid = (SELECT min(ctid) FROM t WHERE n = 1 AND v = 'same')"


def held(events: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """What a consumer has who counts copies: to take one away that it does not have does nothing."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for value in (event["value"] for event in events if event["value"]):
        if value["before"]:
            before = tuple(value["before"].values())
            rows[before] = max(0, rows[before] - 1)
        if value["after"]:
            rows[tuple(value["after"].values())] += 1
    return +rows


@pytest.fixture
def alike(each_database: Database) -> Database:
    with each_database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute("CREATE TABLE t (n int, v text)")
        connection.execute("CREATE INDEX ON t (n)")
        connection.execute("ALTER TABLE t REPLICA IDENTITY FULL")
        connection.execute(
            "INSERT INTO t VALUES (1, 'same'), (1, 'same'), (1, 'same'), (1, 'other'), (1, 'other'),"
            " (NULL, NULL), (NULL, NULL), (2, '')"
        )
    return each_database


def there(database: Database) -> Counter[tuple[Any, ...]]:
    with database.connect() as connection:
        return Counter(connection.execute("SELECT * FROM t").fetchall())


def held_after(database: Database, directory: Path, spark: Any, *statements: str) -> Counter[tuple[Any, ...]]:
    """What a consumer has after statements that ran in the window."""
    with driven(database, directory, spark) as job, database.connect() as connection:
        connection.execute(SNAPSHOT)
        job.until(lambda: job.job.window is not None)
        for statement in statements:
            connection.execute(statement.encode())
        job.until_answered("finished")
        job.until_drained(database)
        return held(job.events("t"))


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param([f"DELETE FROM t WHERE {FIRST}"], id="one is deleted"),
        pytest.param([f"UPDATE t SET v = 'new' WHERE {FIRST}"], id="one is changed"),
        pytest.param([f"UPDATE t SET v = 'other' WHERE {FIRST}"], id="one becomes like others"),
        pytest.param([f"UPDATE t SET v = v WHERE {FIRST}"], id="one stays as it is"),
        pytest.param(["DELETE FROM t WHERE n IS NULL AND ctid = (SELECT max(ctid) FROM t)"], id="nothing"),
        pytest.param(
            [f"UPDATE t SET v = 'other' WHERE {FIRST}", "DELETE FROM t WHERE v = 'other' AND ctid > '(0,8)'"],
            id="one becomes like others and is deleted",
        ),
        pytest.param(
            ["INSERT INTO t VALUES (1, 'same')", "DELETE FROM t WHERE ctid = '(0,9)'"],
            id="another one comes and goes",
        ),
        pytest.param(["DELETE FROM t WHERE n IS NULL"], id="all of them"),
    ],
)
def test_a_change_takes_one_copy(alike, tmp_path, spark, statements):
    assert held_after(alike, tmp_path, spark, *statements) == there(alike)


def test_each_window_counts_by_what_it_contains(alike, tmp_path, spark, monkeypatch):
    """A change before the second window opens takes a copy from the first one's rows, none of its own."""
    alike.execute("TRUNCATE t", "INSERT INTO t SELECT g / 3, 'same' FROM generate_series(0, 2999) g")
    few = {"tidemark__window__max__chunks": "1", "incremental__snapshot__chunk__size": "1500"}
    with driven(alike, tmp_path, spark, **few) as job, alike.connect() as connection:
        connection.execute(SNAPSHOT)
        job.until(lambda: job.job.window is not None)
        first = job.job.window
        with monkeypatch.context() as slow:
            slow.setattr(PostgresLog, "take", lambda *_args: None)
            slow.setattr(VisibilityWatermark, "reached", lambda *_args: False)
            connection.execute(
                "DELETE FROM t WHERE n % 100 = 7 AND ctid = (SELECT min(ctid) FROM t o WHERE o.n = t.n)"
            )
            job.until(lambda: job.job.window is not first)
        job.until_answered("finished")
        job.until_drained(alike)

        assert held(job.events("t")) == there(alike)


def test_a_change_that_is_not_visible_yet_takes_one_too(alike, tmp_path, spark):
    """Also over a restart."""

    def streamed(job: Driven) -> None:
        job.until(lambda: job.events("t"))

    with driven(alike, tmp_path, spark) as job:
        job.job.turn()
    with no_standby(alike.server), alike.connect() as local:
        local.execute("SET synchronous_commit = local")
        with driven(alike, tmp_path, spark) as job:
            waiting = in_background(alike, f"DELETE FROM t WHERE {FIRST}")
            streamed(job)
        with driven(alike, tmp_path, spark) as job:
            local.execute(SNAPSHOT)
            job.until_answered("finished")
            found = held(job.events("t"))
    waiting.join(10)

    assert found == there(alike)
