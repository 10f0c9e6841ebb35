"""What is recorded of a signal on its way, and what a restart records again."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from engine.errors import StateError
from engine.job.saved.state_document import CURRENT, to_json
from signals.answers import Outcome
from tests.job_bench import Bench

if TYPE_CHECKING:
    from pathlib import Path

    from signals.answers import Answer


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path, window_rows=2, slice_s=0.0, slice_bytes=1)
    bench.job.settle()
    bench.job.start()
    return bench


def recorded(bench: Bench) -> list[Answer]:
    return list(itertools.chain.from_iterable(bench.recorded[turn] for turn in sorted(bench.recorded)))


def test_every_step_of_a_snapshot_is_recorded_once(bench):
    bench.execute()
    bench.turns(40)

    outcomes = [answer.outcome for answer in recorded(bench)]
    assert outcomes[:2] == [Outcome.ACCEPTED, Outcome.STARTED]
    assert outcomes[-1] == Outcome.FINISHED
    percents = [answer.facts["percent"] for answer in recorded(bench) if answer.outcome is Outcome.PROGRESS]
    assert percents == sorted(set(percents))
    assert percents
    assert set(outcomes[2:-1]) == {Outcome.PROGRESS}
    assert recorded(bench)[-1].facts == {"rows": 5, "superseded": 0, "emitted": 5}


def test_steps_on_the_way_are_not_told(bench):
    bench.execute()
    bench.turns(40)

    assert [answer.outcome for answer in bench.answers] == [Outcome.ACCEPTED, Outcome.FINISHED]


def test_a_signal_behind_others_says_how_many_are_before_it(bench):
    bench.execute()
    bench.execute('{"data-collections": ["public.u"]}')
    bench.turns(2)

    (queued,) = (answer for answer in recorded(bench) if answer.outcome is Outcome.QUEUED)
    assert queued.facts == {"collections": 1, "ahead": 1}


def test_the_saved_state_does_not_grow_by_answers(bench):
    def saved_bytes() -> int:
        for _ in range(20):
            bench.execute()
            bench.turns(10)
        bench.turns(40)
        assert recorded(bench)[-1].outcome is Outcome.FINISHED
        return len(to_json(bench.job.state, CURRENT))

    first, then = saved_bytes(), saved_bytes()

    assert len(recorded(bench)) > 100
    # Positions and counters may have a digit more.
    assert then - first < 50


def test_answers_that_were_saved_and_not_recorded_are_recorded_by_the_next_start(bench, monkeypatch):
    bench.execute()
    monkeypatch.setattr(bench, "record", lambda _turn, _answers: _died())
    bench.job.close()
    bench.new_job().settle()
    bench.job.start()
    with pytest.raises(StateError):
        bench.turns(5)
    assert bench.recorded == {}
    monkeypatch.undo()
    bench.job.close()
    bench.new_job().settle()

    ((turn, answers),) = bench.recorded.items()
    assert turn == bench.job.state.turn
    assert [answer.outcome for answer in answers] == [Outcome.ACCEPTED]


def _died() -> None:
    raise StateError("the process died")
