"""The file that the job's stderr is appended to, rotated by somebody else while the job runs."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from tests.demo import source
from tests.demo.tidemark import Folder, JobFailed, Tidemark, write_properties

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture
def folder(database: Database, tmp_path: Path) -> Folder:
    source.fill(database, orders=10, stock=10)
    made = Folder(tmp_path)
    write_properties(made, database, source.Login(database.server.user, database.server.password))
    with database.connect() as connection:
        connection.execute(f"CREATE PUBLICATION {source.PUBLICATION} FOR ALL TABLES".encode())
    return made


@pytest.fixture
def hangups_end() -> Iterator[None]:
    """Processes begun meanwhile end at a hangup, though this one may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def streaming(database: Database) -> bool:
    query = f"SELECT FROM pg_replication_slots WHERE slot_name = '{source.SLOT}' AND active"
    with database.connect() as connection:
        return connection.execute(query.encode()).fetchone() is not None


def leave_a_line(database: Database, message: str) -> None:
    """Have the job log a line of its own."""
    data = f'{{"message": "{message}"}}'
    with database.connect() as connection:
        connection.execute(f"INSERT INTO {source.SIGNALS} VALUES ('{message}', 'log', '{data}')".encode())


@pytest.mark.thorough
@pytest.mark.usefixtures("hangups_end")
def test_a_log_is_rotated_by_moving_and_by_copying_and_a_hangup_ends_the_job(
    folder: Folder, database: Database
):
    moved, copied = folder.path / "tidemark.log.1", folder.path / "tidemark.log.2"
    with Tidemark(folder) as job:
        job.until(lambda: streaming(database))
        leave_a_line(database, "begun")
        job.until(lambda: job.said("begun"))
        shutil.copy(folder.log, copied)  # logrotate's copytruncate
        os.truncate(folder.log, 0)
        leave_a_line(database, "truncated")
        job.until(lambda: job.said("truncated"))
        after_truncation = folder.log.read_bytes()

        folder.log.rename(moved)  # logrotate's default
        folder.log.touch()
        leave_a_line(database, "moved")
        job.until(lambda: "moved" in moved.read_text())
        after_move = folder.log.read_bytes()

        os.kill(job.pid, signal.SIGHUP)
        with pytest.raises(JobFailed, match="exit code 0"):
            job.until(lambda: False, 60)

    assert "begun" in copied.read_text()
    first = copied.read_text().splitlines()
    named = [line.split(": ", 1)[1].split()[0] for line in first[:5]]
    assert named == ["source", "sink", "position", "page", "metrics"]
    assert [line for line in first if not line.startswith("20")] == []  # nothing of Spark's and Ivy's
    assert b"begun" not in after_truncation
    assert b"\x00" not in after_truncation  # an appended file has no hole where the old lines were
    assert after_move == b""
    assert "Traceback" not in moved.read_text()
