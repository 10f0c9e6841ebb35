"""Collections that are captured only since the job runs, through a whole job."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.model import Arrival
from engine.snapshot.changes.commands import begin_initial
from tests.job_bench import Bench, T, U

if TYPE_CHECKING:
    from pathlib import Path

    from engine.job.parts import JobParts

NEW = "tidemark-new-public.t"


class Appearing(Bench):
    """A bench whose source says once what has appeared."""

    reads_new = True

    def parts(self) -> JobParts:
        self.appeared: list[Arrival] = []
        return replace(super().parts(), take_appeared=self.told_once, reads_new=self.reads_new)

    def told_once(self) -> list[Arrival]:
        found, self.appeared[:] = list(self.appeared), []
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Appearing:
    bench = Appearing(tmp_path)
    bench.job.settle()
    bench.job.start()
    return bench


def reads(bench: Bench) -> list[str]:
    return [topic for op, topic, _key in bench.events() if op == "r"]


def test_it_is_read_under_an_id_of_its_own_and_answered(bench):
    bench.appeared.append(Arrival(T))
    bench.turns(20)

    assert [(answer.id, answer.outcome) for answer in bench.answers] == [(NEW, "accepted"), (NEW, "finished")]
    assert reads(bench) == ["public.t"] * 5


def test_the_snapshot_is_saved_with_the_turn_that_found_it(bench):
    bench.appeared.append(Arrival(T))
    bench.turns(1)
    bench.job.close()
    bench.new_job()
    bench.job.settle()

    assert [table.signal for table in bench.job.state.snapshot.tables] == [NEW]


def test_one_that_is_found_twice_is_queued_once(bench):
    bench.appeared += [Arrival(T), Arrival(T)]
    bench.turns(1)

    assert [len(table.requests) for table in bench.job.state.snapshot.tables] == [1]


def test_one_that_waits_for_the_initial_snapshot_is_not_queued_again(bench):
    snapshot = begin_initial(bench.job.state.snapshot, [T], "initial")
    bench.job._turns.state = replace(bench.job.state, snapshot=snapshot)
    bench.appeared.append(Arrival(T))
    bench.job.turn()

    assert not bench.told()


def test_one_created_while_captured_is_only_announced(bench, caplog):
    with caplog.at_level(logging.INFO):
        bench.appeared.append(Arrival(U, told=True))
        bench.turns(20)

    assert "public.u was created while it is captured" in caplog.text
    assert not reads(bench)
    assert not bench.answers


def test_where_snapshot_mode_reads_nothing_none_is_read(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(Appearing, "reads_new", False)
    bench = Appearing(tmp_path)
    bench.job.settle()
    with caplog.at_level(logging.INFO):
        bench.appeared.append(Arrival(T))
        bench.turns(20)

    assert "public.t is captured from now on; by snapshot.mode no rows are read" in caplog.text
    assert not reads(bench)


COLUMNS = Arrival(T, columns=("c", "d"))
NEW_COLUMNS = f"{NEW}-c"


def test_new_columns_have_their_table_read_under_an_id_with_the_first(bench, caplog):
    with caplog.at_level(logging.INFO):
        bench.appeared.append(COLUMNS)
        bench.turns(20)

    said = [(answer.id, answer.outcome) for answer in bench.answers]
    assert said == [(NEW_COLUMNS, "accepted"), (NEW_COLUMNS, "finished")]
    assert bench.answers[0].text == (
        "incremental snapshot of public.t, which has new columns whose values in older rows are not in"
        " the log: c, d"
    )
    assert f"c, d; its rows are read by snapshot {NEW_COLUMNS}" in caplog.text
    assert reads(bench) == ["public.t"] * 5


def test_columns_that_are_found_while_their_table_waits_make_no_second_snapshot(bench):
    bench.appeared += [COLUMNS, Arrival(T, columns=("e",))]
    bench.turns(1)

    assert [len(table.requests) for table in bench.job.state.snapshot.tables] == [1]


def test_columns_that_are_found_while_their_table_is_read_have_it_read_once_more(bench):
    bench.appeared.append(COLUMNS)
    bench.turns(2)
    assert bench.job.window
    bench.appeared.append(Arrival(T, columns=("e",)))
    bench.turns(20)

    assert [answer.id for answer in bench.answers if answer.outcome == "finished"] == [
        NEW_COLUMNS,
        f"{NEW}-e",
    ]
    assert reads(bench) == ["public.t"] * 10


def test_columns_added_during_the_initial_snapshot_are_read_after_it(bench):
    snapshot = begin_initial(bench.job.state.snapshot, [T], "initial")
    bench.job._turns.state = replace(bench.job.state, snapshot=snapshot)
    bench.appeared.append(COLUMNS)
    bench.turns(1)

    assert [table.initial for table in bench.job.state.snapshot.tables] == [True, False]


def test_a_column_of_a_table_where_nothing_is_read_is_only_announced(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(Appearing, "reads_new", False)
    bench = Appearing(tmp_path)
    bench.job.settle()
    with caplog.at_level(logging.INFO):
        bench.appeared.append(COLUMNS)
        bench.turns(20)

    assert "are not in the log: c, d; by snapshot.mode no rows are read" in caplog.text
    assert not reads(bench)
