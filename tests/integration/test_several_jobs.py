"""`tidemark run a b c`: one process and one Spark session; what fails ends alone."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.command import Command
from tests.driven import SIGNAL_TABLE, properties, read_events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgres import Database, PostgresServer

pytestmark = pytest.mark.integration
_WITHIN_S = 300.0


def job(database: Database, directory: Path, name: str, **more: str) -> dict[str, str]:
    directory.joinpath(name).mkdir()
    return properties(database, directory / name, topic__prefix=name, slot__name=f"slot_{name}", **more)


def test_jobs_of_one_process_stream_beside_one_that_fails(
    postgres18: PostgresServer, database: Database, tmp_path: Path
):
    other = postgres18.create_database(f"{database.name}_other")
    for each in (database, other):
        with each.connect() as connection:
            connection.execute("CREATE TABLE a (id int PRIMARY KEY)")
            connection.execute(SIGNAL_TABLE)
    first, second = job(database, tmp_path, "first"), job(other, tmp_path, "second")
    failing = job(database, tmp_path, "failing", database__user="nobody_at_all")
    with Command(first, tmp_path, others=[failing, second]) as running:
        running.until_said("the job failing has ended: ", _WITHIN_S)
        running.until(lambda: running.log.count("reading the log from") == 2, _WITHIN_S)
        for each in (database, other):
            with each.connect() as connection:
                connection.execute("INSERT INTO a VALUES (1)")
        for name in ("first", "second"):
            running.until(partial(read_events, tmp_path / name / "events"), _WITHIN_S)
        running.send(signal.SIGTERM)
        code = running.ended(_WITHIN_S)
    lines = running.log.splitlines()

    # That of the one that failed, by its login; a machine that is too busy for a clean stop kills it.
    assert code == 2 or "something hangs" in running.log
    assert running.log.count("starting Spark") == 1
    assert any(" first: reading the log from" in line for line in lines)
    assert any(" second: reading the log from" in line for line in lines)
    for name in ("first", "second"):
        assert [event["topic"] for event in read_events(tmp_path / name / "events")] == [f"{name}.public.a"]
    postgres18.drop_database(other.name)
