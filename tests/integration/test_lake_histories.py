"""Drawn histories of three tables, sent to a lake in turns that crash at any step: its tables are equal."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adapters.lake.table_name import TableName
from adapters.lakehouse import merger
from engine.errors import LeaseLost
from tests.integration.test_jdbc_histories import Log
from tests.lake import CrashError, Dying, MemoryTables, lake
from tests.turns import Turns
from tests.typed_batches import typed

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = ("tm.public.a", "tm.public.b", "tm.public.c")
TURNS = 6


@dataclass
class Job:
    """Takes turns from three logs, with a new process after each crash."""

    directory: Path
    random: Random
    tables: MemoryTables = field(default_factory=MemoryTables)
    logs: dict[str, Log] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    processes: int = 0
    crashes: int = 0
    pending: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.logs = {topic: Log(self.random) for topic in TOPICS}
        self.positions = dict.fromkeys(TOPICS, 0)

    def open(self, dies_after: int | None = None) -> Turns:
        self.processes += 1
        left = iter(range(10**9 if dies_after is None else dies_after))
        return Turns(lake(self.directory, Dying(self.tables, left), self.processes))

    def change(self) -> None:
        for log in self.logs.values():
            for _change in range(self.random.randint(0, 25)):
                log.change()

    def ends(self) -> dict[str, int]:
        found = {}
        for topic, log in self.logs.items():
            end = self.random.randint(self.positions[topic], len(log.entries))
            found[topic] = end + 1 if log.ends_within_an_entry(end) else end
        return found

    def write(self, sink: Turns, turn: int, ends: dict[str, int], reads: dict[str, pa.RecordBatch]) -> None:
        writer = sink.writer(turn)
        number = 0
        for topic in TOPICS:
            some = self.logs[topic].entries[self.positions[topic] : ends[topic]]
            batch = typed(
                *(event for event, _header in some),
                headers=[header for _event, header in some],
                orders=range(self.positions[topic], ends[topic]),
                topic=topic,
            )
            writer.write(number, [batch] if some else [])
            number += 1
        for batch in reads.values():
            writer.write(number, [batch] if batch.num_rows else [])
            number += 1

    def turn(self, turn: int) -> None:
        """One turn, however often its process dies."""
        drawn = self.random.random() < 0.6
        while True:
            sink = self.open(self.random.randint(0, 60) if drawn else None)
            drawn = self.random.random() < 0.3
            ends = self.ends()
            reads = {
                topic: self._read(topic) for topic in TOPICS if ends[topic] == len(self.logs[topic].entries)
            }
            try:
                if not sink.resolve_commit(turn):
                    self.write(sink, turn, ends, reads)
                    self.pending = ends
                    sink.commit(turn)
                if self.random.random() < 0.7:
                    sink.drain()
            except CrashError:
                self.crashes += 1
                continue
            break
        self.positions = self.pending

    def _read(self, topic: str) -> pa.RecordBatch:
        read = self.logs[topic].read()
        return read.replace_schema_metadata({**read.schema.metadata, b"topic": topic.encode()})

    def wanted(self, topic: str) -> dict[int, tuple[str, str]]:
        position = self.positions[topic]
        return self.logs[topic].tables[position - 1] if position else {}

    def found(self, topic: str) -> dict[int, tuple[str, str]]:
        table = self.tables.tables.get(TableName("", topic.replace(".", "_")))
        rows = [] if table is None else table.rows
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: (row["note"], row["text"]) for row in rows}


@pytest.mark.parametrize("seed", range(12))
def test_tables_equal_their_sources_whenever_a_process_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
):
    if seed % 2:
        # Groups of one turn, or some.
        monkeypatch.setattr(merger, "MOST_BYTES", seed * 1000)
    job = Job(tmp_path / "journal", Random(seed))
    for turn in range(1, TURNS + 1):
        job.change()
        job.turn(turn)
    while True:
        sink = job.open(job.random.randint(0, 40) if job.random.random() < 0.5 else None)
        with suppress(CrashError):
            sink.drain()
            break

    for topic in TOPICS:
        assert job.found(topic) == job.wanted(topic), topic
    assert job.open().newest_turn() == TURNS


def test_a_process_that_was_overtaken_merges_nothing_more(tmp_path: Path):
    job = Job(tmp_path / "journal", Random(1))
    job.change()
    old = job.open()
    job.write(old, 1, {topic: len(log.entries) for topic, log in job.logs.items()}, {})
    old.commit(1)
    job.open()

    with pytest.raises(LeaseLost):
        old.drain()
    assert job.tables.tables == {}
