"""Transactions and rows far larger than a span: bounded memory, killed in the middle, nothing lost.

`TIDEMARK_LARGE_ROWS=2000000` makes the long transaction as long as one likes.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson
import pytest

from tests.demo.tidemark import Folder, Tidemark
from tests.driven import SIGNAL_TABLE, properties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROWS = int(os.environ.get("TIDEMARK_LARGE_ROWS", "100000"))
PATIENCE_S = 300.0 * max(1, ROWS // 500_000)
LARGE_BYTES = 100 << 20
MOST_BYTES = 1 << 30
"""What the driver's Python may take; its JVM gets as much."""


class Measured:
    """`tidemark run`, started again as often as it is killed, and the most memory that its driver took."""

    def __init__(self, database: Database, path: Path, **more: str) -> None:
        self.database, self.folder = database, Folder(path)
        self._job = Tidemark(self.folder)
        self.peaks: dict[str, int] = {}
        lines = {
            **properties(database, path),
            "tidemark.checkpoint": str(self.folder.checkpoint),
            "tidemark.spark.master": "local[2]",
            "tidemark.spark.conf.spark.driver.memory": "1g",
            **{name.replace("__", "."): value for name, value in more.items()},
        }
        self.folder.properties.touch(mode=0o600)
        self.folder.properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    def until(self, condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            self._job.check()
            for name, now in peaks(self._job.pid).items():
                self.peaks[name] = max(self.peaks.get(name, 0), now)
            assert time.monotonic() < deadline, self._job.last_lines()
            time.sleep(0.02)

    def __enter__(self) -> Self:
        self._job = Tidemark(self.folder).__enter__()
        self.until(lambda: self.slot("active"))
        return self

    def __exit__(self, *raised: object) -> None:
        self._job.__exit__(*raised)

    def kill(self) -> None:
        self._job.kill()

    def slot(self, column: str) -> Any:
        with self.database.connect() as connection:
            row = connection.execute(
                f"SELECT {column} FROM pg_replication_slots WHERE database = %s".encode(),
                [self.database.name],
            ).fetchone()
        return row[0] if row else None

    def until_drained(self) -> None:
        """Until everything committed by now has been acknowledged."""
        with self.database.connect() as connection:
            row = connection.execute(
                "SELECT pg_current_wal_insert_lsn()::text FROM pg_current_xact_id()"
            ).fetchone()
        assert row is not None
        self.until(lambda: self.slot(f"confirmed_flush_lsn >= '{row[0]}'"))

    def report(self) -> None:
        print(", ".join(f"{name} {held >> 20} MB" for name, held in self.peaks.items()))

    @property
    def within(self) -> int:
        """How many entries of a transaction the saved state stands behind, 0 between transactions."""
        state = self._job.state()
        return int(state.position.order[1]) if state and state.position else 0

    @property
    def finished(self) -> list[str]:
        return self._job.said("completed: ")

    def values(self) -> Iterator[dict[str, Any]]:
        """The events of table `t`, in order, one in memory at a time."""
        for turn in sorted(self.folder.events.glob("turn-*")):
            for part in sorted(turn.glob("part-*.jsonl")):
                with part.open("rb") as lines:
                    for line in lines:
                        event = orjson.loads(line)
                        if event["topic"] == "tm.public.t" and event["value"] is not None:
                            yield event["value"]


def peaks(job: int) -> dict[str, int]:
    """The most memory that each kind of process in a job's group has held at once, in bytes."""
    found: dict[str, int] = {}
    for process in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
        with suppress(OSError):  # it may end at any moment
            if os.getpgid(process) != job:
                continue
            status = Path(f"/proc/{process}/status").read_text()
            lines = dict(line.split(":", 1) for line in status.splitlines())
            name = "driver" if process == job else lines["Name"].strip()
            found[name] = max(found.get(name, 0), int(lines.get("VmHWM", "0 kB").split()[0]) << 10)
    return found


def signal(database: Database) -> None:
    with database.connect() as connection:
        data = '{"data-collections": ["public.t"]}'
        connection.execute("INSERT INTO signals VALUES ('s', 'execute-snapshot', %s)", [data])


@pytest.fixture
def table(database: Database) -> Database:
    database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE t (id int PRIMARY KEY, v text, n int DEFAULT 0)",
        "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
    )
    return database


@pytest.mark.thorough
def test_a_long_transaction_killed_in_the_middle_arrives_once_and_in_order(table, tmp_path):
    """Then another one updates what a window reads, and is held by the engine until that closes."""
    spans = {"tidemark__span__max__rows": str(min(200_000, ROWS // 8)), "tidemark__max__lag__ms": "600000"}
    job = Measured(table, tmp_path, **spans)
    with job, table.connect() as connection:
        begun = time.monotonic()
        connection.execute(
            "INSERT INTO t SELECT g, CASE WHEN g % 10 = 0 THEN repeat('x', 2100) ELSE 'row' END"
            f" FROM generate_series(1, {ROWS}) g".encode()
        )
        print(f"{ROWS} rows committed in {time.monotonic() - begun:.1f} s")
        job.until(lambda: job.within > ROWS // 3)
        job.kill()
        assert 0 < job.within < ROWS
    with job, table.connect() as connection:
        begun = time.monotonic()
        job.until_drained()
        print(f"resumed and ended in {time.monotonic() - begun:.1f} s")
        job.report()
        signal(table)
        connection.execute("UPDATE t SET n = 1")
        begun = time.monotonic()
        job.until(lambda: job.finished)
        job.until_drained()
        print(f"snapshot and update in {time.monotonic() - begun:.1f} s")
        job.report()

    check_long(job)
    assert job.peaks["driver"] < MOST_BYTES


def check_long(job: Measured) -> None:
    values = job.values()
    for expected, value in zip(range(1, ROWS + 1), values, strict=False):
        assert (value["op"], value["after"]["id"]) == ("c", expected)
    newest, whole, ops = bytearray(ROWS + 1), bytearray(ROWS + 1), Counter[str]()
    for value in values:
        key, after = value["after"]["id"], value["after"]
        assert newest[key] <= after["n"]
        newest[key] = after["n"]
        whole[key] |= after["v"] == ("row" if key % 10 else "x" * 2100)
        ops[value["op"]] += 1

    # What an update leaves out is read, before it or again after it.
    assert newest.count(1) == whole.count(1) == ROWS
    assert ops["u"] == ROWS
    assert set(ops) == {"u", "r"}


@pytest.mark.thorough
def test_a_row_of_100_mb_arrives_from_the_log_and_from_the_table(table, tmp_path):
    job = Measured(table, tmp_path, tidemark__span__max__rows="400")
    with job, table.connect() as connection:
        # One transaction: a large row, with much to escape, between small ones.
        connection.execute(
            "INSERT INTO t SELECT g, CASE WHEN g = 1000 THEN repeat(E'a\"b\\\\é\\n', %s) ELSE 'small' END"
            " FROM generate_series(1, 2000) g",
            [LARGE_BYTES // 7],
        )
        job.until(lambda: job.within)
        job.kill()
        assert 0 < job.within < 2000
    with job:
        begun = time.monotonic()
        job.until_drained()
        print(f"resumed and ended in {time.monotonic() - begun:.1f} s")
        job.report()
        begun = time.monotonic()
        signal(table)
        job.until(lambda: job.finished)
        print(f"snapshot in {time.monotonic() - begun:.1f} s")
        job.report()

    sizes = [(value["op"], value["after"]["id"], len(value["after"]["v"])) for value in job.values()]
    expected = [(op, n, LARGE_BYTES // 7 * 6 if n == 1000 else 5) for op in "cr" for n in range(1, 2001)]
    assert sizes == expected
    assert job.peaks["driver"] < MOST_BYTES
