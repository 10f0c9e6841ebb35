"""Where crashes are laid, and what they are."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.torture.journal import Journal, JournalReader
from tests.torture.script import Fuse
from tests.torture.steps import Dropped, Fuses


def fuses(path: Path, *waiting: Fuse, drop: bool = False) -> Fuses:
    return Fuses(list(waiting), Journal(path), lambda: None, drop=drop)


def test_a_fuse_drops_the_job_when_its_step_was_passed_often_enough(tmp_path: Path):
    laid = fuses(tmp_path / "journal", Fuse("commit", after=False, passes=1))
    laid.passing("commit", after=False)

    with pytest.raises(Dropped):
        laid.passing("commit", after=False)
    assert laid.waiting == []


def test_behind_an_opened_log_a_fuse_kills_the_process(tmp_path: Path):
    path = tmp_path / "journal"
    child = os.fork()
    if not child:
        try:
            fuses(path, Fuse("open_log", after=True, passes=0)).passing("open_log", after=True)
        finally:
            os._exit(0)
    _pid, status = os.waitpid(child, 0)

    assert os.WTERMSIG(status) == signal.SIGKILL
    assert [note["hard"] for note in JournalReader(path).of("crash")] == [True]


def test_an_order_to_drop_waits_until_the_log_is_in_somebodys_hands(tmp_path: Path):
    laid = fuses(tmp_path / "journal", drop=True)
    laid.passing("open_log", after=True)

    with pytest.raises(Dropped):
        laid.passing("take", after=False)
