"""Two minutes of the torture test: random histories with crashes and restarts; and one scene's guard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torture.run import Run, mutate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.slow]
MINUTES = 1.7


def test_no_history_violates_what_must_always_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with Run(tmp_path, 18) as run:
        found = run.histories("make test", MINUTES)

    said = capsys.readouterr().out
    assert found == 0, said
    assert run.figures.histories > 0
    assert run.figures.reads > 0, said


def test_a_guard_that_is_switched_off_is_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with Run(tmp_path, 18) as run:
        missed = mutate(run, ["which entries supersede"])

    assert missed == 0, capsys.readouterr().out
