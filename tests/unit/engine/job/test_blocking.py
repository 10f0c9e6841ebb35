"""Blocking snapshots through a whole job, over a source whose log waits as long as one is queued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.job_bench import Bench

if TYPE_CHECKING:
    from pathlib import Path


def asked(bench: Bench, *tables: str, **fields: Any) -> None:
    bench.execute(
        orjson.dumps({"data-collections": [f"public.{table}" for table in tables], **fields}).decode()
    )


def reads(bench: Bench) -> list[str]:
    return [topic for op, topic, _key in bench.events() if op == "r"]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(tmp_path, window_rows=2, slice_s=0.0, slice_bytes=1, max_lag_s=5000.0)
    monkeypatch.setattr(
        bench.source.memory_source,
        "holds_log",
        lambda state: any(table.blocking for table in state.snapshot.leading),
    )
    bench.job.settle()
    bench.job.start()
    return bench


def test_a_stream_that_waits_does_not_lag(bench):
    """Else no window would open, and the stream would wait for ever."""
    bench.source.tells = {"lag_s": 9000.0}
    asked(bench, "t", type="blocking")
    bench.turns(300)

    assert len(reads(bench)) > 0
    assert not bench.job.state.snapshot.tables


def test_it_is_read_before_a_snapshot_in_progress_which_then_goes_on(bench):
    asked(bench, "t")
    while not reads(bench):
        bench.turns(1)
    asked(bench, "u", type="blocking")
    bench.turns(60)

    topics = reads(bench)
    first, last = topics.index("public.u"), len(topics) - topics[::-1].index("public.u")
    assert set(topics[first:last]) == {"public.u"}, "nothing is read in between"
    assert topics[-1] == "public.t"
    assert not bench.job.state.snapshot.tables


def test_the_queue_survives_a_restart(bench):
    asked(bench, "t", type="blocking")
    bench.turns(2)
    before = bench.job.state.snapshot
    bench.job.close()
    bench.new_job()
    bench.job.settle()

    assert [table.target for table in bench.job.state.snapshot.tables] == [t.target for t in before.tables]
    assert all(table.blocking and table.ordinal for table in bench.job.state.snapshot.tables)


def test_a_second_one_of_a_collection_that_is_read_queues_and_its_answer_says_where(bench):
    asked(bench, "t", "u", type="blocking")
    bench.turns(2)
    asked(bench, "t", type="blocking")
    bench.source.memory_source.holds_log = lambda _state: False
    bench.turns(2)
    tables = bench.job.state.snapshot.tables
    queued = [answer for turn in bench.recorded.values() for answer in turn if answer.outcome == "queued"]

    assert [table.target.collection.parts[1] for table in tables][-1] == "t"
    assert tables[0].signal != tables[-1].signal
    assert [answer.facts["ahead"] for answer in queued] == [len(tables) - 1]


@pytest.mark.parametrize("more", [{}, {"dry-run": True}])
def test_blocking_snapshots_can_be_switched_off(tmp_path: Path, more: dict[str, Any]):
    """Whoever may ask for them may make the stream wait, again and again."""
    bench = Bench(tmp_path, blocking=False)
    bench.job.settle()
    bench.job.start()
    asked(bench, "t", "u", type="blocking", **more)
    bench.turns(3)

    assert "blocking snapshots are not taken" in bench.answers[-1].text
    assert bench.fate().known
    assert not bench.fate().good
    assert not bench.job.state.snapshot.tables
