"""Events that signals have the source add: in the turn that takes the signal, which remembers them, once."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import SinkError
from signals.actions import ReceivedSignal, SignalAction
from signals.desk import Desk
from tests.job_bench import Bench
from tests.memory_source import batch_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from engine.job.parts import JobParts

TOPIC = "announced"


class Announcing(Bench):
    """A bench whose source announces what a signal states, and remembers it."""

    def parts(self) -> JobParts:
        self.stated: list[str] = []
        self.waiting: list[str] = []
        made = super().parts()
        memory = self.source.memory_source.memory
        known: Any = self.source
        known.memory = lambda: self.remembered(memory())
        desk = Desk(
            self.answers.append, monotonic=time.monotonic, actions={"state": SignalAction(self.state)}
        )
        return replace(made, desk=desk, take_added=self.added)

    def remembered(self, memory: Mapping[str, Any]) -> dict[str, Any]:
        return {**memory, "stated": list(self.stated)}

    def state(self, signal: ReceivedSignal) -> str:
        self.stated.append(signal.label)
        self.waiting.append(signal.label)
        return "announced"

    def added(self) -> list[pa.RecordBatch]:
        waiting, self.waiting = self.waiting, []
        return [batch_of([(TOPIC, None, label) for label in waiting])] if waiting else []

    def announced(self) -> int:
        return sum(event["topic"] == TOPIC for event in self.sink.events())


@pytest.fixture
def bench(tmp_path: Path) -> Announcing:
    bench = Announcing(tmp_path)
    bench.job.settle()
    bench.job.start()
    return bench


def test_it_goes_out_with_the_turn_that_takes_the_signal_and_is_remembered_by_it(bench: Announcing):
    bench.database.signal("s", "state", "{}")
    bench.turns(1)

    assert bench.announced() == 1
    assert len(bench.job.state.memory["stated"]) == 1
    assert [answer.text for answer in bench.answers] == ["announced"]


def test_a_turn_that_failed_announces_it_once(bench: Announcing, monkeypatch: pytest.MonkeyPatch):
    failures = [SinkError("full")]
    commit = bench.sink.commit

    def failing(turn: int, parts: Any) -> None:
        if failures:
            raise failures.pop()
        commit(turn, parts)

    monkeypatch.setattr(bench.sink, "commit", failing)
    bench.database.signal("s", "state", "{}")
    with pytest.raises(SinkError):
        bench.turns(1)
    bench.job.close()
    bench.job.settle()
    bench.turns(2)

    assert bench.announced() == 1
