"""A window's rows read in the background: what is let go of, whatever fails."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from adapters.background import Background, Reading
from engine.errors import SourceError
from engine.model import Staged


def test_one_whose_end_fails_is_closed_all_the_same(tmp_path: Path):
    staged, going, closed = tmp_path / "window", threading.Event(), []
    staged.mkdir()

    def cancel() -> None:
        going.set()
        raise SourceError("the connection is lost")

    def read() -> list[Staged]:
        going.wait(10.0)
        return []

    background = Background(Reading(read, cancel, str(staged), lambda: closed.append(1)), lambda: None)
    with pytest.raises(SourceError):
        background.close()
    background._pool.shutdown(wait=True)

    assert closed == [1]
    assert not staged.exists()
