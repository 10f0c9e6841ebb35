"""A window's rows read in the background: what is let go of, whatever fails."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from adapters.source.opening_window import OpeningWindow
from adapters.source.window_reader import Background, WindowTasks, one_thread
from engine.errors import SourceError
from engine.model import StagedRun
from tests.staged import files_in


def test_one_whose_end_fails_is_closed_all_the_same(tmp_path: Path):
    staged, going, closed = tmp_path / "window", threading.Event(), []
    staged.mkdir()

    def cancel() -> None:
        going.set()
        raise SourceError("the connection is lost")

    def read() -> list[StagedRun]:
        going.wait(10.0)
        return []

    background = Background(
        WindowTasks(read, cancel, files_in(staged), lambda: closed.append(1)), lambda: None
    )
    with pytest.raises(SourceError):
        background.close()
    background._pool.shutdown(wait=True)

    assert closed == [1]
    assert not staged.exists()


def test_it_may_be_closed_twice_and_after_the_reading_is_done(tmp_path: Path):
    staged, closed = tmp_path / "window", []
    staged.mkdir()
    background = Background(
        WindowTasks(
            list, lambda: closed.append("cancelled"), files_in(staged), lambda: closed.append("closed")
        ),
        lambda: None,
    )
    while background.staged() is None:
        time.sleep(0.001)
    background.close()
    background.close()
    background._pool.shutdown(wait=True)

    assert closed == ["closed", "closed"]
    assert not staged.exists()


def test_whoever_watches_is_told_when_the_window_opens_and_when_its_rows_are_read(tmp_path: Path):
    asking, reading, told = threading.Event(), threading.Event(), threading.Semaphore(0)

    def ask() -> Path:
        asking.wait(10.0)
        return tmp_path

    def read() -> list[StagedRun]:
        reading.wait(10.0)
        return []

    def join(place: Path) -> Any:
        tasks = WindowTasks(read, reading.set, files_in(place), lambda: None)
        return Background(tasks, lambda: None)

    window: Any = OpeningWindow(ask, join, lambda: None, one_thread(), lambda _: None)
    window.watch(told.release)
    early = told.acquire(timeout=0.05)
    asking.set()
    opens = told.acquire(timeout=10.0)
    rows = window.joined()
    before = told.acquire(timeout=0.05), rows.staged()
    reading.set()

    assert (early, opens, before) == (False, True, (False, None))
    assert told.acquire(timeout=10.0)
    assert rows.staged() == []
    window.close()
