"""When failures of executors stop a job: if nothing gets further between them."""

from __future__ import annotations

from dataclasses import replace

from engine.job.repeated_failures import RepeatedFailures
from engine.job.saved.state import State
from engine.model import CollectionId, ExecuteSnapshot, Position, Target
from engine.snapshot.changes.commands import execute
from engine.snapshot.queue import Snapshot

HERE, THERE = Position((1,)), Position((2,))


def test_six_failures_at_one_place_are_too_many():
    failures, state = RepeatedFailures(), State(position=HERE)

    assert [failures.note(state) for _ in range(6)] == [*[False] * 5, True]


def test_a_stream_that_moves_begins_anew():
    failures, state = RepeatedFailures(), State(position=HERE)
    for _ in range(5):
        failures.note(state)

    assert not failures.note(replace(state, position=THERE))
    assert not failures.note(state)


def test_a_stream_that_moves_is_no_progress_for_rows_that_wait():
    target = Target(CollectionId(("public", "t")))
    waiting = execute(Snapshot(), ExecuteSnapshot("a signal", (target,)))
    states = [State(position=Position((number,)), snapshot=waiting) for number in range(6)]
    failures = RepeatedFailures()

    assert [failures.note(state) for state in states] == [*[False] * 5, True]
