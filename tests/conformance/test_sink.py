"""What every sink must promise; see `engine.ports.sink.Sink`."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from adapters.jdbc.settings import JdbcSettings
from adapters.jdbc.sink import Holder, JdbcSink
from adapters.kafka.settings import KafkaSettings
from adapters.kafka.sink import KafkaSink
from adapters.sinks.console import ConsoleSink
from adapters.sinks.files import FilesSink
from adapters.sinks.lines import json_lines
from adapters.sinks.null import NullSink
from adapters.spark.executors import LocalExecutors
from engine.config.sinks.postgres_target import PostgresTarget
from engine.errors import InvariantError, SinkError
from tests.batches import batch, numbered
from tests.fakes import MemorySink, memory_text
from tests.lake import MemoryTables, lake
from tests.turns import Turns
from tests.typed_batches import PLACEHOLDERS, change, typed

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database


@dataclass
class MemoryBench:
    """A sink to open as often as a job restarts, and what a consumer sees of it."""

    turns: dict[int, list[Any]] = field(default_factory=dict)
    remembers = True

    def open(self):
        return MemorySink(self.turns)

    def keys(self):
        return [event["key"] for event in MemorySink(self.turns).events()]


@dataclass
class FilesBench:
    directory: Path
    remembers = True

    def open(self):
        return FilesSink(self.directory)

    def keys(self):
        files = sorted(self.directory.glob("turn-*/part-*.jsonl"))
        return [str(json.loads(line)["key"]) for file in files for line in file.read_text().splitlines()]


@dataclass
class ConsoleBench:
    stream: io.BytesIO = field(default_factory=io.BytesIO)
    remembers = False

    def open(self):
        return ConsoleSink(self.stream)

    def keys(self):
        return [line.split()[1] for line in self.stream.getvalue().decode().splitlines()]


@dataclass
class NullBench:
    opened: list[NullSink] = field(default_factory=list)
    remembers = False

    def open(self):
        self.opened.append(NullSink())
        return self.opened[-1]

    def keys(self):
        # It keeps a count alone; the tests number events from 0, so that a count tells them.
        return [str(number) for number in range(sum(sink.rows for sink in self.opened))]


@dataclass
class KafkaBench:
    broker: KafkaBroker
    directory: Path
    remembers = False

    def __post_init__(self):
        for topic in self.broker.topics():
            self.broker.delete_topic(topic)

    def open(self):
        settings = KafkaSettings({"bootstrap.servers": self.broker.bootstrap})
        return KafkaSink(settings, LocalExecutors(), self.directory, monotonic=time.monotonic)

    def keys(self):
        records = [record for topic in self.broker.topics() for record in self.broker.records(topic)]
        return [(record.key() or b"").decode() for record in records]


@dataclass(frozen=True)
class TypedWriter:
    """Gives the sink a typed row for each event: that of its key."""

    behind: Any

    def write(self, part, batches):
        return self.behind.write(part, map(self._typed, batches))

    @staticmethod
    def _typed(events):
        return typed(*(change("c", int(key or "7")) for key in events.column("key").to_pylist()))


class TypedSink:
    def __init__(self, behind):
        self._behind = behind

    def writer(self, turn):
        return TypedWriter(self._behind.writer(turn))

    def __getattr__(self, name):
        return getattr(self._behind, name)


@dataclass
class JdbcBench:
    database: Database
    directory: Path
    remembers = True
    opened: int = 0

    def open(self):
        parameters = conninfo_to_dict(self.database.server.dsn(self.database.name))
        target = PostgresTarget({name: str(value) for name, value in parameters.items()}, "rows")
        self.opened += 1
        return TypedSink(
            JdbcSink(
                JdbcSettings(target),
                self.directory,
                Holder("job", str(self.opened), "c", self.opened),
                PLACEHOLDERS,
            )
        )

    def keys(self):
        with self.database.connect() as connection:
            if connection.execute("SELECT to_regclass('rows')").fetchone() == (None,):
                return []
            return [str(key) for (key,) in connection.execute("SELECT id FROM rows ORDER BY ctid")]


@dataclass
class LakeBench:
    directory: Path
    tables: MemoryTables = field(default_factory=MemoryTables)
    remembers = True
    opened: int = 0

    def open(self):
        self.opened += 1
        return TypedSink(lake(self.directory, self.tables, self.opened))

    def keys(self):
        lake(self.directory, self.tables, self.opened).drain()
        found = [row["id"] for table in self.tables.tables.values() for row in table.rows]
        return [str(key) for key in found]


@pytest.fixture(
    params=[
        *("memory", "files", "console", "null", "lake"),
        *(pytest.param(name, marks=pytest.mark.integration) for name in ("kafka", "jdbc")),
    ]
)
def bench(request, tmp_path):
    benches = {
        "jdbc": lambda: JdbcBench(request.getfixturevalue("database"), tmp_path / "staging"),
        "lake": lambda: LakeBench(tmp_path / "journal"),
        "kafka": lambda: KafkaBench(request.getfixturevalue("kafka"), tmp_path / "staging"),
        "memory": MemoryBench,
        "files": lambda: FilesBench(tmp_path / "events"),
        "console": ConsoleBench,
        "null": NullBench,
    }
    return benches[request.param]()


@pytest.fixture
def opened(bench):
    """Opens the bench's sink; every one opened is closed."""
    with contextlib.ExitStack() as stack:
        yield lambda: Turns(stack.enter_context(contextlib.closing(bench.open())))


def test_events_are_seen_after_the_commit_and_not_before(bench, opened):
    sink = opened()
    sink.writer(1).write(0, [numbered(0, 1)])
    before = bench.keys()
    sink.commit(1)

    assert before == []
    assert bench.keys() == ["0", "1"]


def test_a_sink_keeps_its_identity(opened):
    first, again = opened(), opened()

    assert first.identity() == again.identity() == first.identity()


def test_events_are_ordered_by_turn_part_and_batch(bench, opened):
    sink = opened()
    writer = sink.writer(1)
    writer.write(1, [numbered(3)])
    writer.write(0, [numbered(0), numbered(1, 2)])
    sink.commit(1)
    sink.writer(2).write(0, [numbered(4)])
    sink.commit(2)

    assert bench.keys() == ["0", "1", "2", "3", "4"]


def test_a_part_written_again_replaces_itself(bench, opened):
    sink = opened()
    writer = sink.writer(1)
    writer.write(0, [numbered(7, 8, 9)])
    writer.write(0, [numbered(0)])
    sink.commit(1)

    assert bench.keys() == ["0"]


def test_a_part_that_failed_half_way_is_written_again(bench, opened):
    def failing():
        yield numbered(7)
        raise ValueError("lost")

    sink = opened()
    writer = sink.writer(1)
    with pytest.raises(ValueError, match="lost"):
        writer.write(0, failing())
    writer.write(0, [numbered(0)])
    sink.commit(1)

    assert bench.keys() == ["0"]


RENDERED = {"memory": memory_text, "files": json_lines}
"""The sinks that take what was rendered for them."""
takes = pytest.mark.parametrize("bench", RENDERED, indirect=True)


@pytest.fixture
def texts(request, tmp_path):
    """A file of rendered events with these keys."""
    render = RENDERED[request.node.callspec.params["bench"]]

    def write(name, *numbers):
        path = tmp_path / name
        path.write_text("".join(render(numbered(*numbers)).to_pylist()))
        return str(path)

    return write


@takes
def test_a_file_of_texts_is_a_part_as_others_are(bench, opened, texts):
    sink = opened()
    writer = sink.writer(1)
    writer.write(2, [numbered(3)])
    writer.take(1, texts("a", 1, 2))
    writer.take(0, texts("b", 0))
    before = bench.keys()
    sink.commit(1)

    assert before == []
    assert bench.keys() == ["0", "1", "2", "3"]


@takes
def test_the_name_of_a_file_that_was_taken_may_go_before_the_commit(bench, opened, texts):
    sink = opened()
    given = texts("a", 0, 1)
    sink.writer(1).take(0, given)
    Path(given).unlink()
    sink.commit(1)

    assert bench.keys() == ["0", "1"]


@takes
def test_a_file_taken_again_replaces_what_the_part_had(bench, opened, texts):
    sink = opened()
    writer = sink.writer(1)
    writer.write(0, [numbered(7, 8, 9)])
    given = texts("a", 0)
    writer.take(0, given)
    writer.take(0, given)
    sink.commit(1)

    assert bench.keys() == ["0"]


@takes
def test_a_task_of_an_earlier_attempt_can_not_have_a_file_taken(bench, opened, texts):
    sink = opened()
    stray = sink.writer(1)
    sink.writer(1).write(0, [numbered(0)])
    with contextlib.suppress(SinkError):
        stray.take(1, texts("a", 7))
    sink.commit(1)

    assert bench.keys() == ["0"]


@takes
def test_texts_are_written_as_events_are(bench, opened):
    render = json_lines if isinstance(bench, FilesBench) else memory_text
    sink = opened()
    sink.writer(1).write_texts(0, (render(numbered(*some)) for some in ((0, 1), (), (2,))))
    sink.commit(1)
    sink.writer(2).write_texts(0, iter(()))
    sink.commit(2)

    assert bench.keys() == ["0", "1", "2"]


def test_a_turn_begun_again_starts_afresh(bench, opened):
    sink = opened()
    sink.writer(1).write(0, [numbered(7, 8)])
    sink.writer(1).write(1, [numbered(0)])
    sink.commit(1)

    assert bench.keys() == ["0"]


def test_a_turn_left_by_a_crash_starts_afresh(bench, opened):
    opened().writer(1).write(0, [numbered(7, 8)])
    sink = opened()
    applied = sink.resolve_commit(1)
    sink.writer(1).write(1, [numbered(0)])
    sink.commit(1)

    assert not applied
    assert bench.keys() == ["0"]


def test_a_task_of_an_earlier_attempt_can_not_add_to_the_turn(bench, opened):
    sink = opened()
    stray = sink.writer(1)
    sink.writer(1).write(0, [numbered(0)])
    with contextlib.suppress(SinkError):
        stray.write(1, [numbered(7)])
    sink.commit(1)

    assert bench.keys() == ["0"]


def test_a_task_that_ends_after_the_commit_adds_nothing(bench, opened):
    sink = opened()
    writer = sink.writer(1)
    writer.write(0, [numbered(0)])
    sink.commit(1)
    with contextlib.suppress(SinkError):
        writer.write(1, [numbered(7)])
    sink.writer(2)
    sink.commit(2)

    assert bench.keys() == ["0"]


def test_a_commit_twice_is_one(bench, opened):
    sink = opened()
    sink.writer(1).write(0, [numbered(0)])
    sink.commit(1)
    sink.commit(1)

    assert bench.keys() == ["0"]


def test_applied_tells_whether_the_turn_was_committed(opened):
    sink = opened()
    before = sink.resolve_commit(1)
    sink.writer(1).write(0, [numbered(0)])
    begun = sink.resolve_commit(1)
    sink.commit(1)

    assert (before, begun, sink.resolve_commit(1), sink.resolve_commit(2)) == (False, False, True, False)


def test_applied_tells_it_of_a_turn_without_events(bench, opened):
    sink = opened()
    sink.writer(1)
    begun = sink.resolve_commit(1)
    sink.commit(1)

    assert (begun, sink.resolve_commit(1)) == (False, True)
    assert bench.keys() == []


@pytest.mark.parametrize("events", [numbered(0), numbered()])
def test_applied_tells_it_after_a_restart(bench, opened, events):
    sink = opened()
    sink.writer(1).write(0, [events])
    sink.commit(1)

    assert opened().resolve_commit(1) is bench.remembers


def test_a_turn_that_was_not_begun_is_not_committed(opened):
    sink = opened()
    sink.writer(1)

    with pytest.raises(InvariantError, match="turn 2"):
        sink.commit(2)


def test_a_turn_that_is_committed_is_not_begun_again(opened):
    sink = opened()
    sink.writer(1)
    sink.commit(1)

    with pytest.raises(SinkError, match="turn 1"):
        sink.writer(1)


def test_a_writer_goes_to_another_process_and_back(bench, opened):
    sink = opened()
    writer = pickle.loads(pickle.dumps(sink.writer(1).behind))  # noqa: S301 - our own bytes
    part = pickle.loads(pickle.dumps(writer.write(0, [numbered(0)])))  # noqa: S301
    sink.commit(1, [part])

    assert bench.keys() == ["0"]


def test_every_kind_of_event_is_taken(bench, opened):
    sink = opened()
    rows = batch(
        ("p.a", "0", '{"op":"d"}', None),
        ("p.a", "1", None, None),
        ("p.b", None, '{"op":"c"}', '[{"key":"k","value":null}]'),
    )
    sink.writer(1).write(0, [rows.slice(0, 2), rows.slice(2)])
    sink.commit(1)

    assert len(bench.keys()) == 3


def test_closing_gives_up_what_was_not_committed(bench, opened):
    sink = opened()
    sink.writer(1).write(0, [numbered(0)])
    sink.close()
    sink.close()

    assert bench.keys() == []
    assert not opened().resolve_commit(1)
