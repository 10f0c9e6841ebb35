"""Some minutes of the torture test: random histories, a history sent to Kafka, and guards of two scenes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torture.run import Run, mutate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.slow]
MINUTES, OTHERS_MINUTES = 0.4, 0.3


def test_no_history_violates_what_must_always_hold_and_a_guard_is_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with Run(tmp_path, 18) as run:
        found = run.histories("make test", MINUTES)
        reads = run.figures.reads
        missed = mutate(run, ["which entries supersede"])

    said = capsys.readouterr().out
    assert (found, missed) == (0, 0), said
    assert reads > 0, said


@pytest.mark.thorough
def test_no_history_on_mongodb_violates_it_either_and_a_guard_is_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with Run(tmp_path, 18, source="mongodb") as run:
        found = run.histories("m269", OTHERS_MINUTES)
        missed = mutate(run, ["one bad collection is set aside"])

    said = capsys.readouterr().out
    assert (found, missed) == (0, 0), said
    assert run.figures.reads > 0, said


@pytest.mark.thorough
def test_no_history_on_the_stand_in_for_sql_server_violates_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with Run(tmp_path, 18, source="sqlserver") as run:
        found = run.histories("c", OTHERS_MINUTES)

    said = capsys.readouterr().out
    assert found == 0, said
    assert run.figures.reads > 0, said


@pytest.mark.thorough
def test_topics_lack_nothing_though_job_and_broker_are_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with Run(tmp_path, 18, kafka=True, initial=True) as run:
        found = run.histories("k117", OTHERS_MINUTES)

    said = capsys.readouterr().out
    assert found == 0, said
    assert run.figures.broker_kills > 0, said
    assert run.figures.initial_snapshots > 0, said
