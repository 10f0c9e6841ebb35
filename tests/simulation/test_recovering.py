"""A sample of the world whose log or checkpoint is lost: every copy is repaired, and no verdict is false."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.job import recovery
from tests.simulation import recovering
from tests.simulation.playing import play
from tests.simulation.script import to_json
from tests.simulation.worlds import played, saved

_SAVED = Path(__file__).parent / "regressions" / "recover"
_HISTORIES = 25


@pytest.mark.slow
def test_what_a_lost_log_had_is_repaired():
    happened, failed = play(1, _HISTORIES, "recover")

    assert failed == []
    assert happened["logs begun anew"] > 15
    assert happened["checkpoints lost"] > 3
    assert happened["READs of repairs"] > 5
    assert happened["deletes of repairs"] > 10


@pytest.mark.slow
def test_without_repairs_the_loss_is_not_made_up_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recovery, "_refusal", lambda *_: "nothing is repaired")
    _happened, failed = play(1, 5, "recover")

    assert any("not at rest" in violation for _seed, violation in failed)


@pytest.mark.parametrize("path", sorted(_SAVED.glob("*.json")), ids=lambda path: path.stem)
def test_a_fault_that_was_found_stays_mended(path: Path):
    assert not played(saved(path.read_bytes())).violation


def test_a_history_survives_being_saved():
    history = recovering.draw(11)

    assert saved(to_json(history)) == history
