"""A sink whose files only the driver sees: what tasks write comes back with their results."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adapters.sinks.driver_sink import CarriedPart, DriverSink, DriverWriter
from adapters.sinks.files import FilesSink
from tests.batches import numbered
from tests.driven import read_events

if TYPE_CHECKING:
    from pathlib import Path

    from engine.model import Part


def elsewhere(writer: Any) -> Any:
    """The writer as a task on another machine has it."""
    return pickle.loads(pickle.dumps(writer))  # noqa: S301  our own bytes


def back(part: Part) -> CarriedPart:
    """What the task returns, as the driver gets it."""
    found: CarriedPart = pickle.loads(pickle.dumps(part))  # noqa: S301  our own bytes
    return found


def keys(directory: Path) -> list[Any]:
    return [event["key"] for event in read_events(directory)]


def test_parts_of_tasks_are_written_by_the_driver_in_their_places(tmp_path: Path):
    sink = DriverSink(FilesSink(tmp_path))
    writer = sink.writer(1)
    here = writer.write(0, [numbered(1)])
    there = back(elsewhere(writer).write(1, [numbered(2), numbered(3)]))

    assert there.events == 2
    sink.commit(1, [there, here])
    assert keys(tmp_path) == [1, 2, 3]


def test_a_task_leaves_no_file(tmp_path: Path):
    sink = DriverSink(FilesSink(tmp_path))
    elsewhere(sink.writer(1)).write(1, [numbered(2)])

    assert not [*tmp_path.glob("**/part-*")]


def test_rendered_events_are_carried_as_they_are(tmp_path: Path):
    sink = DriverSink(FilesSink(tmp_path))
    texts = pa.array(['{"key":7}\n', '{"key":8}\n'], pa.large_string())
    part = back(elsewhere(sink.writer(1)).write_texts(0, [texts]))
    sink.commit(1, [part])

    assert keys(tmp_path) == [7, 8]


def test_batches_of_several_schemas_are_carried():
    writer = elsewhere(DriverWriter(None))
    one, two = pa.record_batch({"a": [1]}), pa.record_batch({"b": ["x", "y"]})
    part = back(writer.write(3, [one, two, one]))

    assert (part.number, part.events) == (3, 4)
    assert [*part.batches()] == [one, two, one]


def test_a_part_withheld_and_committed_is_written_once(tmp_path: Path):
    sink = DriverSink(FilesSink(tmp_path))
    part = back(elsewhere(sink.writer(1)).write(0, [numbered(1)]))
    sink.withhold([part], "t")
    sink.commit(1, [part])

    assert keys(tmp_path) == [1]


def test_an_attempt_that_is_begun_again_forgets_the_parts_of_the_first(tmp_path: Path):
    sink = DriverSink(FilesSink(tmp_path))
    sink.withhold([back(elsewhere(sink.writer(1)).write(0, [numbered(1)]))], "t")
    second = back(elsewhere(sink.writer(1)).write(0, [numbered(2)]))
    sink.commit(1, [second])

    assert keys(tmp_path) == [2]
