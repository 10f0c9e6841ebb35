"""Two jobs with one configuration: one works, the other stands by, and no change is lost or repeated."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Self

import pytest

from tests.command import Command
from tests.driven import SIGNAL_TABLE, properties, read_parts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
_TAKEN_OVER_WITHIN_S = 25.0
"""Ten seconds, and what a loaded machine adds."""


class Inserts:
    """Rows 0, 1, 2, … inserted one by one, as long as it is entered."""

    def __init__(self, database: Database) -> None:
        self._database, self._stop = database, threading.Event()
        self._thread = threading.Thread(target=self._insert)
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _insert(self) -> None:
        with self._database.connect() as connection:
            while not self._stop.wait(0.01):
                connection.execute("INSERT INTO t VALUES (%s)", [self.count])
                self.count += 1


class Sent:
    """The numbers in committed turns, in order. A turn does not change, so each is read once."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._turns = directory, ""
        self.numbers: list[int] = []

    def has(self, number: int) -> bool:
        """Whether a number, or a later one, has been sent."""
        for turn in sorted(self._directory.glob("turn-*")):
            if turn.name > self._turns:
                self.numbers += [event["key"]["id"] for event in read_parts(turn)]
                self._turns = turn.name
        return bool(self.numbers) and self.numbers[-1] >= number


@pytest.fixture
def inserts(database: Database) -> Iterator[Inserts]:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY)",
        SIGNAL_TABLE,
        "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
        f"SELECT pg_create_logical_replication_slot('slot_{database.name}', 'pgoutput')",
    )
    with Inserts(database) as inserts:
        yield inserts


def test_two_jobs_take_turns(inserts: Inserts, database: Database, tmp_path: Path):
    said = properties(database, tmp_path)

    sent = Sent(tmp_path / "events")

    def goes_on(job: Command) -> None:
        """Until what is inserted now has been sent, by this job."""
        now = inserts.count
        job.until(lambda: sent.has(now))

    with Command(said, tmp_path, "one") as one, Command(said, tmp_path, "two") as two:
        one.until(lambda: "standing by" in one.log + two.log)
        first, second = (two, one) if "standing by" in one.log else (one, two)
        goes_on(first)
        with Command(said | {"tidemark.lease.wait": "false"}, tmp_path, "third") as third:
            assert third.ended(600) == 3
            assert "held by job 'tm', process " in third.log
        goes_on(first)

        # The job stands still in the middle of whatever it does.
        first.send(signal.SIGSTOP)
        taken_s = second.until_said("is ours now", 30)
        assert taken_s < _TAKEN_OVER_WITHIN_S
        goes_on(second)
        first.send(signal.SIGCONT)
        first.until_said("nothing more is written, standing by")
        goes_on(second)

        # A rolling update: the one that stands by goes on where the other one ends.
        second.send(signal.SIGTERM)
        ended = time.monotonic()
        first.until_said("is ours now", 30)
        assert time.monotonic() - ended < _TAKEN_OVER_WITHIN_S
        goes_on(first)
        assert second.ended() == 0
        last = inserts.count
        first.until(lambda: sent.has(last))
        first.send(signal.SIGTERM)
        assert first.ended() == 0

    sent.has(inserts.count)
    assert sent.numbers == list(range(len(sent.numbers)))
    assert len(sent.numbers) > last
