"""Rows that go beside the turns: histories of a sink that takes them, and what each of the rules is for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.job.snapshots.rows_beside import RowsBeside, RunInFlight
from engine.job.snapshots.windows import Windows
from engine.job.snapshots.windows_in_progress import WindowsInProgress
from tests.simulation.script import History, draw, from_json
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

_SAVED = Path(__file__).parent / "beside"
_HISTORIES = 60


def beside(seed: int) -> History:
    """The history of a seed, with a sink that forgets and takes rows beside the turns, faster or slower."""
    history = draw(seed)
    return replace(history, setup=replace(history.setup, knows=False, beside=(2, 15, 40)[seed % 3]))


def test_histories_violate_nothing_and_are_worth_the_name():
    played = [World(beside(seed)).play() for seed in range(1, _HISTORIES + 1)]
    happened = sum((history.happened for history in played), start=type(played[0].happened)())

    assert [history.violation for history in played if history.violation] == []
    assert happened["READs beside turns"] > 5 * _HISTORIES
    assert happened["waits for rows beside turns"] > _HISTORIES // 10
    assert happened["fault: beside"] > 0


def _started_inside_turns(emit: Callable[..., Any]) -> Callable[..., Any]:
    def emitted(windows: Windows, state: Any, *rest: Any) -> Any:
        found = emit(windows, state, *rest)
        windows.send_beside(found[0])
        return found

    return emitted


def _blind(says: Callable[[Any], bool]) -> Callable[..., Any]:
    touched = RunInFlight.is_touched_by
    return lambda taking, newer: not says(newer) and touched(taking, newer)


RULES: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "changes-do-not-wait": (WindowsInProgress, "give_way", lambda _windows, _encoded: None),
    "a-window-given-up-does-not-wait": (RowsBeside, "stop", lambda rows: rows._on_their_way.clear()),
    "truncates-do-not-wait": (RunInFlight, "is_touched_by", _blind(lambda newer: newer.truncated)),
    "copies-do-not-wait": (RunInFlight, "is_touched_by", _blind(lambda newer: newer.taken.num_rows)),
    "runs-start-inside-turns": (Windows, "emit", _started_inside_turns(Windows.emit)),
}
"""What takes each rule out."""


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_its_saved_history_is_violated(rule: str, monkeypatch: pytest.MonkeyPatch):
    history = from_json((_SAVED / f"{rule}.json").read_bytes())
    kept = World(history).play().violation
    monkeypatch.setattr(*RULES[rule])

    assert kept == ""
    assert "READ of" in World(history).play().violation or "copies of" in World(history).play().violation
