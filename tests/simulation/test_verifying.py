"""A sample of the world that verifies: no verdict is false, and without a guard one is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from engine.job.verify import course, courses, repair
from engine.verify import comparison
from tests.memory_copy import MemoryRows
from tests.simulation import verifying
from tests.simulation.figures import missed
from tests.simulation.mends import BROKEN
from tests.simulation.playing import play
from tests.simulation.script import History, to_json
from tests.simulation.worlds import WORLDS, played, saved

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.verify.copy import TouchedKeys

_SAVED = Path(__file__).parent / "regressions" / "verify"
_HISTORIES = 25
_MOST = 160
_FIRST = {"unsaved_rows_count": 290, "visible_by_then": 85}
"""From which seed on a guard is looked for, where few histories need it."""


@pytest.mark.slow
def test_no_verdict_is_false():
    happened, failed = play(1, _HISTORIES, "verify")

    assert failed == []
    assert happened["verdicts that accept"] > 20
    assert happened["verdicts that reject"] > 3
    assert happened["comparisons that look again"] > 5
    assert happened["deletes of repairs"] > 10
    assert happened["READs of repairs"] > 0


def none_extra(patch: pytest.MonkeyPatch) -> None:
    """Rows that only the copy has are not seen."""
    patch.setattr(comparison._History, "unread", lambda _self, _unread, _since: (np.zeros(0, np.int64), 0, 0))


def always_settled(patch: pytest.MonkeyPatch) -> None:
    """What no window could see yet counts as extra."""
    patch.setattr(verifying, "_is_settled", lambda _one, _asked: True)
    nothing_hidden(patch)


def nothing_hidden(patch: pytest.MonkeyPatch) -> None:
    """Windows count as seeing all that was sent before."""
    patch.setattr(verifying.VerifyingWorld, "hides_sent", lambda _world, _life: False)


def superseded_is_seen(patch: pytest.MonkeyPatch) -> None:
    """A row that an entry has superseded counts as read."""
    right = course.seen_rows

    def wrong(table: Any, turn: int) -> Any:
        noted = right(table, turn)
        at = noted.schema.get_field_index("seen")
        kinds = np.zeros(len(noted), np.int8)
        return noted.set_column(at, noted.schema.field(at), [kinds])

    patch.setattr(courses, "seen_rows", wrong)


def unsaved_rows_count(patch: pytest.MonkeyPatch) -> None:
    """After a crash the rows of turns that were not saved count as seen."""
    patch.setattr(MemoryRows, "resume", lambda _self, written: frozenset(written))


def visible_by_then(patch: pytest.MonkeyPatch) -> None:
    """After a crash, all that is visible then counts as visible to the windows before it."""
    patch.setattr(courses, "course_of", _with_newer_sight(course.course_of))


def _with_newer_sight(right: Any) -> Any:
    def course_of(noted: Any, _settled_then: Any, now_s: float) -> Any:
        return right(noted, lambda _saved: course.always_settled, now_s)

    return course_of


def truncates_outdate_nothing(patch: pytest.MonkeyPatch) -> None:
    """What was read before a truncate that is not sent counts."""
    patch.setattr(courses.Courses, "note_unsent_changes", lambda _self, state, _encoded: state)


def later_events_touch_nothing(patch: pytest.MonkeyPatch) -> None:
    """A repair deletes what was extra when it was compared, whatever was sent since."""
    patch.setattr(repair.Repair, "follow", _follow_blindly)


def _follow_blindly(mended: repair.Repair, touched: TouchedKeys) -> None:
    mended.known = touched.upto


@pytest.mark.slow
@pytest.mark.parametrize(
    "guard",
    [
        none_extra,
        always_settled,
        superseded_is_seen,
        unsaved_rows_count,
        visible_by_then,
        truncates_outdate_nothing,
        later_events_touch_nothing,
    ],
)
def test_without_a_guard_a_verdict_is_false(
    guard: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
):
    guard(monkeypatch)
    found: list[str] = []
    first = _FIRST.get(guard.__name__, 1)
    for seed in range(first, first + _MOST):
        _happened, failed = play(seed, 1, "verify")
        found = [violation for _seed, violation in failed]
        if found:
            break

    assert found, f"not within {_MOST} histories"
    assert not found[0].startswith(BROKEN)


def test_a_lost_row_that_windows_can_not_see_yet_is_missed_nowhere(monkeypatch: pytest.MonkeyPatch):
    # The row is in no window, and in no event of the copy.
    lost = (("tx", ("t", "put", 6), 0), ("go", 5), ("go", 11), ("spoil", "t", "missing", 2), ("verify", 1))
    history = History(verifying.VerifyingSetup(), (*lost, ("go", 10)))

    assert not played(history).violation
    nothing_hidden(monkeypatch)
    assert "a false Accept" in played(history).violation


@pytest.mark.parametrize("path", sorted(_SAVED.glob("*.json")), ids=lambda path: path.stem)
def test_a_fault_that_was_found_stays_mended(path: Path):
    assert not played(saved(path.read_bytes())).violation


def test_a_history_survives_being_saved():
    history = verifying.draw(11)

    assert saved(to_json(history)) == history


def test_a_thousand_histories_must_be_worth_it():
    assert list(missed(1000, Counter(steps=1), WORLDS["verify"].floors))
