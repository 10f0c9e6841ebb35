"""Priorities, limits and dry runs through a whole job, with a clock that a test moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from engine.errors import TableBusy
from engine.model import Limit, Scope, Target
from engine.snapshot.extent import Extent
from tests.job_bench import Bench, T, U
from tests.memory_source import Change

if TYPE_CHECKING:
    from pathlib import Path


def asked(bench: Bench, *tables: str, **fields: Any) -> None:
    data = {"data-collections": [f"public.{table}" for table in tables]}
    bench.execute(orjson.dumps(data | {name.replace("_", "-"): fields[name] for name in fields}).decode())


def reads(bench: Bench) -> list[tuple[str, Any]]:
    return [(topic, key) for op, topic, key in bench.events() if op == "r"]


def filled(bench: Bench, rows: int) -> None:
    for key in range(10, 10 + rows):
        bench.database.commit(Change(T, key, f"t{key}"))


class TestPriority:
    @pytest.fixture
    def bench(self, tmp_path: Path) -> Bench:
        bench = Bench(tmp_path, window_rows=2, slice_s=0.0, slice_bytes=1)
        bench.job.settle()
        bench.job.start()
        return bench

    def test_a_table_yields_to_a_higher_priority_at_its_window_s_end(self, bench):
        asked(bench, "t")
        while not reads(bench):
            bench.turns(1)
        asked(bench, "u", priority=1)
        bench.turns(40)

        topics = [topic for topic, _key in reads(bench)]
        assert topics.count("public.t") == 5
        assert "public.t" in topics[topics.index("public.u") :], "the rest comes after it"
        assert topics[-1] == "public.t"

    def test_equal_ones_are_read_in_the_order_of_arrival(self, bench):
        asked(bench, "t", priority=3)
        asked(bench, "u", priority=3)
        bench.turns(40)

        assert [topic for topic, _key in reads(bench)] == ["public.t"] * 5 + ["public.u"] * 3

    def test_a_restart_keeps_the_order(self, bench):
        asked(bench, "t")
        asked(bench, "u", priority=1)
        bench.turns(2)
        bench.job.close()
        bench.new_job()
        bench.job.settle()

        assert [(table.target.collection, table.priority) for table in bench.job.state.snapshot.tables] == [
            (U, 1),
            (T, 0),
        ]

    def test_one_that_is_busy_does_not_keep_lower_ones_waiting(self, bench):
        bench.source.refused[U] = TableBusy("it is locked", where=U)
        asked(bench, "t")
        asked(bench, "u", priority=1)
        for _ in range(30):
            bench.turns(1)
            bench.now_s += 0.5

        assert {topic for topic, _key in reads(bench)} == {"public.t"}


class TestLimits:
    def rate(self, bench: Bench, seconds: float, step_s: float = 0.1) -> float:
        """Turn for so many seconds; the rows read per second from the first to the last of them."""
        at: list[float] = []
        end_s = bench.now_s + seconds
        while bench.now_s < end_s:
            before = len(reads(bench))
            bench.turns(1)
            at += [bench.now_s] * (len(reads(bench)) - before)
            bench.now_s += step_s
        last = at[-1]
        return sum(moment < last for moment in at) / (last - at[0])

    def bench(self, tmp_path: Path, **pace: Any) -> Bench:
        bench = Bench(tmp_path, window_rows=50, **pace)
        filled(bench, 400)
        bench.job.settle()
        bench.job.start()
        bench.turns(6)
        return bench

    def test_the_rows_of_a_signal_come_at_its_limit(self, tmp_path):
        bench = self.bench(tmp_path)
        asked(bench, "t", max_rows_per_second=10)

        assert self.rate(bench, 30) == pytest.approx(10, rel=0.1)

    def test_the_rows_of_all_signals_come_at_the_job_s_limit(self, tmp_path):
        bench = self.bench(tmp_path, limit=Limit(rows=10))
        asked(bench, "t")
        asked(bench, "u")

        assert self.rate(bench, 30) == pytest.approx(10, rel=0.1)

    def test_it_holds_over_restarts(self, tmp_path):
        bench = self.bench(tmp_path)
        asked(bench, "t", max_rows_per_second=10)
        begun_s = bench.now_s
        for _ in range(5):
            self.rate(bench, 8)
            bench.job.close()
            bench.new_job()
            bench.job.settle()
            bench.job.start()

        assert len(reads(bench)) / (bench.now_s - begun_s) <= 11

    def test_others_are_read_meanwhile(self, tmp_path):
        bench = self.bench(tmp_path)
        asked(bench, "t", max_rows_per_second=10)
        asked(bench, "u")
        for _ in range(10):
            bench.turns(1)

        assert [topic for topic, _key in reads(bench)].count("public.u") == 3

    def test_no_window_is_open_while_it_waits(self, tmp_path):
        bench = self.bench(tmp_path)
        asked(bench, "t", max_rows_per_second=10)
        bench.turns(8)

        assert len(reads(bench)) == 20
        assert bench.job.window is None
        assert bench.source.memory_source.windows == []

    def test_a_small_table_with_too_many_rows_is_cut(self, tmp_path, monkeypatch):
        bench = self.bench(tmp_path)
        measure = bench.source.memory_source.measure

        def whole(targets: Any, *, bounded: bool = False) -> list[Any]:
            if bounded:
                return measure(targets, bounded=True)
            return [Extent(405, 4050, whole=True, key=("key",)) for _target in targets]

        monkeypatch.setattr(bench.source.memory_source, "measure", whole)
        asked(bench, "t", max_rows_per_second=10)
        bench.turns(8)

        assert len(reads(bench)) == 20


class TestDryRun:
    @pytest.fixture
    def bench(self, tmp_path: Path) -> Bench:
        bench = Bench(tmp_path)
        bench.job.settle()
        bench.job.start()
        return bench

    def test_it_answers_the_plan_and_reads_nothing(self, bench):
        asked(bench, "t", "u", dry_run=True, max_rows_per_second=2)
        bench.turns(5)

        assert [answer.text for answer in bench.answers] == [
            "dry run of a snapshot of public.t, public.u",
            "public.t would be read in 3 chunks: about 5 rows, 50 bytes, 2.5 s at 2 rows/s",
            "public.u would be read in 2 chunks: about 3 rows, 30 bytes, 1.5 s at 2 rows/s",
        ]
        assert bench.job.state.snapshot.tables == ()
        assert "open_window" not in bench.steps
        assert reads(bench) == []

    def test_a_speed_that_nobody_measured_is_called_so(self, bench):
        asked(bench, "t", dry_run=True, additional_condition="k > 1")
        bench.turns(3)

        assert bench.answers[-1].text.endswith(
            "0.1 s at 50 rows/s, a speed assumed until a window is read; its condition may leave fewer"
        )

    def test_what_can_t_be_read_is_told(self, bench):
        bench.source.refused[T] = TableBusy("it is locked", where=T)
        asked(bench, "t", dry_run=True)
        bench.turns(3)

        assert bench.told() == ["accepted", "failed public.t"]

    def test_many_that_take_long_together_are_refused(self, bench, monkeypatch):
        """The stream waits while they are measured."""
        tables = bench.source.tables()
        measure = type(tables).measure

        def slow(self, targets, **more):
            bench.now_s += 0.5
            return measure(self, targets, **more)

        monkeypatch.setattr(type(tables), "measure", slow)
        for _ in range(20):
            asked(bench, "t", dry_run=True)
        bench.turns(1)

        assert bench.told().count("rejected") == 16

    def test_many_at_once_are_refused(self, bench, monkeypatch):
        monkeypatch.setattr("engine.job.snapshots.dry_runs.MEASURED", 3)
        for _ in range(2):
            asked(bench, "t", "u", dry_run=True)
        bench.turns(3)

        assert [answer.outcome for answer in bench.answers] == [
            *("accepted", "accepted", "planned", "planned"),
            "rejected",
        ]
        assert "dry runs of more than 3 collections" in bench.answers[-1].text

    def test_one_that_is_refused_has_ended_for_all_its_collections(self, bench, monkeypatch):
        monkeypatch.setattr("engine.job.snapshots.dry_runs.MEASURED", 1)
        asked(bench, "t", "u", dry_run=True)
        bench.turns(3)

        assert bench.fate().known
        assert not bench.fate().good


class TestScopes:
    def bench(self, tmp_path: Path, **pace: Any) -> Bench:
        bench = Bench(tmp_path, window_rows=2, **pace)
        bench.job.settle()
        bench.job.start()
        return bench

    def test_only_the_rows_under_the_keys_are_read_and_the_answer_says_how_many_were_found(self, tmp_path):
        bench = self.bench(tmp_path)
        asked(bench, "t", keys=[[4], [2], [77]])
        bench.turns(20)

        assert sorted(reads(bench)) == [("public.t", 2), ("public.t", 4)]
        assert bench.answers[-1].text == "public.t completed: 2 rows read, 2 of 3 keys found"

    def test_only_the_rows_in_the_ranges_are_read(self, tmp_path):
        bench = self.bench(tmp_path)
        asked(bench, "t", ranges=[{"from": [4]}, {"to": [2]}])
        bench.turns(20)

        assert sorted(key for _topic, key in reads(bench)) == [1, 4, 5]
        assert bench.answers[-1].text == "public.t completed: 3 rows read"

    def test_the_merge_rule_holds_for_them(self, tmp_path):
        bench = self.bench(tmp_path)
        asked(bench, "t", keys=[[1], [2]])
        while not bench.source.memory_source.windows:
            bench.turns(1)
        bench.database.commit(Change(T, 2, "newer"))
        bench.turns(20)

        assert reads(bench) == [("public.t", 1)]
        assert "1 of them superseded by the log, 2 of 2 keys found" in bench.answers[-1].text

    def test_a_row_that_moves_in_without_its_large_value_is_read_and_no_other(self, tmp_path):
        bench = self.bench(tmp_path, slice_s=0.0, slice_bytes=1)
        asked(bench, "t", ranges=[{"from": [1], "to": [4]}, {"from": [90], "to": [99]}])
        while not bench.source.memory_source.windows:
            bench.turns(1)
        bench.database.commit(Change(T, 95, "in", old=5, large=None), Change(T, 50, "out", old=3, large=None))
        bench.turns(40)

        assert {key for _topic, key in reads(bench)} >= {1, 2, 95}
        assert 50 not in {key for _topic, key in reads(bench)}
        assert bench.answers[-1].outcome == "finished"

    def test_a_restart_goes_on_with_what_is_left(self, tmp_path):
        bench = self.bench(tmp_path)
        asked(bench, "t", ranges=[{"from": [2]}])
        while not reads(bench):
            bench.turns(1)
        bench.job.close()
        bench.new_job()
        bench.job.settle()
        bench.job.start()
        bench.turns(20)

        assert sorted(key for _topic, key in reads(bench)) == [2, 3, 4, 5]

    def test_it_does_not_make_up_for_a_gap(self):
        assert not Target(T, scope=Scope(keys=(("1",),))).whole
        assert Target(T).whole
        assert not Target(T, "k = 1").whole

    def test_the_plan_is_that_of_the_rows_asked_for(self, tmp_path):
        bench = self.bench(tmp_path)
        asked(bench, "t", keys=[[1], [2]], dry_run=True)
        bench.turns(3)

        assert "in 1 chunks: about 2 rows, 20 bytes" in bench.answers[-1].text

    def test_a_range_that_holds_nothing_is_refused(self, tmp_path):
        bench = self.bench(tmp_path)
        asked(bench, "t", ranges=[{"from": [4], "to": [4]}])
        bench.turns(5)

        assert bench.told() == ["accepted", "rejected public.t"]

    def test_too_many_keys_in_all_are_refused(self, tmp_path):
        bench = self.bench(tmp_path, most_keys=3)
        asked(bench, "t", keys=[[1], [2]])
        asked(bench, "t", keys=[[3], [4]])
        bench.turns(2)

        assert "have given 2 keys and ranges, and at most 3 are kept" in bench.answers[-1].text

    def test_conditions_beyond_what_the_state_keeps_are_refused(self, tmp_path):
        """A stranger may send 10,000 signals with 64 KB each, and the state is saved every turn."""
        bench = self.bench(tmp_path, most_conditions=20)
        asked(bench, "t", additional_condition="key > 1000")
        asked(bench, "u", additional_condition="key > 1000")  # the same is kept once
        asked(bench, "t", additional_condition="key > 10000000")
        bench.turns(2)

        assert "of this one have 24 characters, and at most 20 are kept" in bench.answers[-1].text
