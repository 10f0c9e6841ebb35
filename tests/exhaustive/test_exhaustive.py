"""The smaller bounds, and that the search finds what each guard keeps away."""

from __future__ import annotations

import logging
import subprocess
import sys
from itertools import islice

import pytest

from adapters.storage.lease import Leases
from adapters.storage.state import FileStateStore
from engine.job.checkpoint import Checkpoint
from engine.snapshot.queue import Snapshot
from tests.exhaustive.__main__ import COUNTEREXAMPLES
from tests.exhaustive.engine_steps import EngineSteps
from tests.exhaustive.guards import GUARDS, Guard, counterexample, document
from tests.exhaustive.logs import Change, Log, logs
from tests.exhaustive.protocol import strike
from tests.exhaustive.sweep import tried
from tests.simulation.sink import SimSink


@pytest.fixture(autouse=True)
def _silent():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("keys", "transactions", "faults", "every", "everywhere"),
    [(2, 2, 1, 1, True), (2, 3, 1, 5, False), (3, 2, 1, 10, True), (3, 4, 2, 8_000, False)],
)
def test_no_order_violates_an_invariant(keys, transactions, faults, every, everywhere):
    some = islice(logs(keys, transactions), 0, None, every)

    found = tried(some, keys=keys, faults=faults, everywhere=everywhere, engine=EngineSteps(keys))

    assert found.violation == "", "\n".join(found.steps)
    assert found.states > 10_000
    assert found.transitions > found.states


def test_the_job_may_be_struck_between_any_two_calls():
    struck = strike(crashes=1, every=16)

    assert struck.violation == "", struck.history
    assert struck.histories > 500


@pytest.mark.parametrize(
    ("owner", "name", "instead"),
    [
        (Leases, "check", lambda _leases: None),
        (
            Checkpoint,
            "commit",
            lambda held, after, parts: held._parts.sink.commit(after.turn, parts) or after,
        ),
        (SimSink, "resolve_commit", lambda _sink, _turn: False),
        (SimSink, "resolve_commit", lambda sink, turn: sink._begun is None or sink._begun[0] != turn),
        (FileStateStore, "_take_over", lambda _store, _newest, _pending: None),
    ],
    ids=[
        "a sleeper does not look",
        "saves nothing",
        "the sink forgets",
        "the sink claims every turn",
        "pending states are not read",
    ],
)
def test_striking_finds_what_is_broken(monkeypatch, owner, name, instead):
    monkeypatch.setattr(owner, name, instead)

    assert strike(crashes=1, every=16).violation


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_that_is_taken_out_is_missed(guard: Guard):
    _rows, found = counterexample(guard)

    assert found.violation.startswith(guard.keeps)


def test_the_counterexamples_are_in_the_documentation():
    assert COUNTEREXAMPLES.read_text() == document()


@pytest.mark.thorough
def test_the_command_searches_in_processes_and_prints_figures():
    command = [sys.executable, "-m", "tests.exhaustive"]
    bounds = ["--keys", "2", "--transactions", "1", "--every", "40", "--processes", "2"]
    root = COUNTEREXAMPLES.parents[2]
    ran = subprocess.run([*command, *bounds], cwd=root, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "states" in ran.stdout
    assert "histories" in ran.stdout


def test_a_log_has_all_snapshots_that_its_locks_allow():
    log = Log((0, None), (Change("u", 0, 0), Change("c", 1, 1), Change("d", 0, 0)))

    assert log.tables == [(0, None), (1, None), (1, 2), (None, 2)]
    assert log.snapshots == {
        0b000: (0, None),
        0b001: (1, None),
        0b010: (0, 2),
        0b011: (1, 2),
        0b101: (None, None),
        0b111: (None, 2),
    }


def test_a_window_has_two_slices_and_two_windows_cover_three_keys():
    engine = EngineSteps(3)

    first = engine.planned(engine.first, (), (0, 1, 2), ())
    assert first.plan is not None
    assert engine.staged(first.plan, (0, 1, 2)) == ((0,), (1,))


def test_what_people_alone_read_makes_no_other_state():
    engine = EngineSteps(2)

    assert engine._snapshot(Snapshot()) == engine._snapshot(Snapshot())
    assert engine._snapshot(Snapshot()) != engine.first
