"""READ events in a file until they are emitted."""

from __future__ import annotations

import pickle
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from engine import staging
from engine.errors import SourceError
from engine.marks import Mark, Marks
from engine.merge import KEY_TYPE, Newer
from engine.model import CollectionId, Staged
from engine.staging import STAGED, Emission, Emitted, clear, staging_file
from tests.batches import numbered
from tests.fakes import MemorySink

T = CollectionId(("public", "t"))


def rows(*numbers: int) -> pa.RecordBatch:
    keys = pa.array([str(number).encode() for number in numbers], KEY_TYPE)
    return pa.RecordBatch.from_arrays([*numbered(*numbers).columns, keys], schema=STAGED)


def newer(*numbers: int, truncated: bool = False) -> Newer:
    return Newer(pa.array([str(number).encode() for number in numbers], KEY_TYPE), truncated=truncated)


def staged(path: Path, *batches: pa.RecordBatch) -> Staged:
    with staging_file(str(path), ("", "")) as write:
        for batch in batches:
            write(batch)
    return Staged(1, T, str(path), sum(batch.num_rows for batch in batches), 0)


def emitted(emission: Emission) -> tuple[Emitted, list[str]]:
    """What the emission says it did, and the keys of the events that came."""
    sink = MemorySink()
    said = emission.write(sink.writer(1))
    sink.commit(1)
    return said, [event["key"] for event in sink.events()]


def test_what_supersedes_is_looked_up_once_for_all_batches(tmp_path, monkeypatch):
    """It may be millions of keys, which each look-up hashes anew."""
    asked: list[int] = []
    survivors = Newer.survivors

    def noted(newer: Newer, keys: pa.LargeBinaryArray) -> pa.BooleanArray | None:
        asked.append(len(keys))
        return survivors(newer, keys)

    monkeypatch.setattr(Newer, "survivors", noted)
    one = staged(tmp_path / "run", rows(1, 2), rows(3), rows(4, 5, 6))

    assert emitted(Emission(one, newer(2, 5), 0)) == (Emitted(4), ["1", "3", "4", "6"])
    assert asked == [6]


@pytest.mark.parametrize(
    ("superseding", "expected"),
    [
        (newer(), ["1", "2", "3", "4"]),
        (newer(2), ["1", "3", "4"]),
        (newer(1, 4, 9), ["2", "3"]),
        (newer(3, 4), ["1", "2"]),
        (newer(1, 2, 3, 4), []),
        (newer(truncated=True), []),
    ],
)
def test_what_was_superseded_is_left_out(tmp_path, superseding, expected):
    one = staged(tmp_path / "window" / "run", rows(1, 2), rows(), rows(3, 4))

    assert emitted(Emission(one, superseding, 0)) == (Emitted(len(expected)), expected)


def test_rows_dropped_for_incomplete_entries_are_told(tmp_path):
    keys = pa.array([b"2", b"9"], KEY_TYPE)
    one = staged(tmp_path / "run", rows(1, 2), rows(3))

    assert emitted(Emission(one, Newer(keys, lacking=keys), 0)) == (Emitted(2, (b"2",)), ["1", "3"])


@pytest.mark.parametrize("at_once", [1, 2600, 1 << 20])
def test_what_is_around_all_values_is_kept_once(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(staging, "_AT_ONCE_BYTES", at_once)
    path, schema = tmp_path / "run", '{"é":"%s"}' % ("x" * 1000)
    with staging_file(str(path), ('{"schema":' + schema + ',"payload":', "}")) as write:
        for batch in (rows(1, 2), rows(), rows(3, 4, 5)):
            write(batch)
    one = Staged(1, T, str(path), 5, 0)
    marks = Marks(first=Mark.FIRST, last=Mark.LAST)
    sink, plain = MemorySink(), MemorySink()
    said = Emission(one, newer(2), 0, marks).write(sink.writer(1))
    Emission(staged(tmp_path / "plain", rows(1, 2, 3, 4, 5)), newer(2), 0, marks).write(plain.writer(1))
    for each in (sink, plain):
        each.commit(1)

    assert said == Emitted(4)
    assert [event["key"] for event in sink.events()] == ["1", "3", "4", "5"]
    assert [event["value"] for event in sink.events()] == [
        '{"schema":' + schema + ',"payload":' + event["value"] + "}" for event in plain.events()
    ]
    assert path.read_bytes().count(b"x" * 1000) == 1


def test_a_mark_is_put_into_the_source_block_behind_a_schema(tmp_path):
    value = '{"before":null,"after":{"v":"snapshot"},"source":{"db":"d","snapshot":"true","lsn":1},"op":"r"}'
    schema = '{"field":",\\"snapshot\\":\\"true\\","}'
    path = tmp_path / "run"
    batch = rows(1)
    at = STAGED.get_field_index("value")
    with staging_file(str(path), ('{"schema":' + schema + ',"payload":', "}")) as write:
        write(batch.set_column(at, STAGED.field(at), pa.array([value], STAGED.field(at).type)))
    sink = MemorySink()
    Emission(Staged(1, T, str(path), 1, 0), newer(), 0, Marks(Mark.FIRST)).write(sink.writer(1))
    sink.commit(1)

    (event,) = sink.events()
    marked = value.replace('"true"', '"first"')
    assert event["value"] == '{"schema":' + schema + ',"payload":' + marked + "}"


def test_a_file_can_be_emitted_again(tmp_path):
    emission = Emission(staged(tmp_path / "run", rows(1, 2)), newer(1), 0)

    assert emitted(emission) == emitted(emission) == (Emitted(1), ["2"])


def test_a_file_without_rows_emits_nothing(tmp_path):
    assert emitted(Emission(staged(tmp_path / "run"), newer(), 0)) == (Emitted(0), [])


def test_an_emission_is_its_part_of_the_turn(tmp_path):
    sink = MemorySink()
    writer = sink.writer(1)
    Emission(staged(tmp_path / "b", rows(2)), newer(), 5).write(writer)
    Emission(staged(tmp_path / "a", rows(1)), newer(), 4).write(writer)
    sink.commit(1)

    assert [event["key"] for event in sink.events()] == ["1", "2"]


def test_an_emission_travels_to_executors(tmp_path):
    emission = Emission(staged(tmp_path / "run", rows(1, 2)), newer(1), 3)
    there = pickle.loads(pickle.dumps(emission))  # noqa: S301  our own bytes

    assert emitted(there) == (Emitted(1), ["2"])


def test_a_staged_file_that_is_gone_is_a_fault_of_the_source(tmp_path):
    one = staged(tmp_path / "run", rows(1))
    clear(str(tmp_path))

    with pytest.raises(SourceError, match="staged are gone; driver and executors must share"):
        emitted(Emission(one, newer(), 0))


def test_clearing_removes_everything_below(tmp_path):
    one = staged(tmp_path / "window" / "exact" / "run", rows(1))
    clear(str(tmp_path / "window"))
    clear(str(tmp_path / "window"))

    assert not Path(one.path).exists()
    assert tmp_path.exists()


FIRST, LAST, LAST_OF = Mark.FIRST, Mark.LAST, Mark.LAST_OF_COLLECTION
DECEIVING = '{"after":{"a":",\\"snapshot\\":\\"true\\",","snapshot":"true","db":"x"},'
"""A row of columns that look like the source block."""


def reads(*numbers: int) -> pa.RecordBatch:
    plain = rows(*numbers)
    values = [f'{DECEIVING}"source":{{"ts_ms":1,"snapshot":"true","db":"x"}},"op":"r"}}' for _ in numbers]
    return plain.set_column(2, plain.schema.field(2), pa.array(values, pa.large_string()))


def said(emission: Emission) -> list[tuple[str, str]]:
    """The keys that came, each with the mark in its source block."""
    sink = MemorySink()
    emission.write(sink.writer(1))
    sink.commit(1)
    for event in sink.events():
        assert event["value"].startswith(DECEIVING)
    return [(event["key"], orjson.loads(event["value"])["source"]["snapshot"]) for event in sink.events()]


@pytest.mark.parametrize(
    ("marks", "superseding", "expected"),
    [
        (Marks(FIRST, LAST), newer(), [("1", "first"), ("2", "true"), ("3", "true"), ("4", "last")]),
        (Marks(FIRST), newer(), [("1", "first"), ("2", "true"), ("3", "true"), ("4", "true")]),
        (Marks(None, LAST), newer(), [("1", "true"), ("2", "true"), ("3", "true"), ("4", "last")]),
        (Marks(FIRST, LAST), newer(1, 4), [("2", "first"), ("3", "last")]),
        (Marks(FIRST, LAST), newer(1, 2), [("3", "first"), ("4", "last")]),
        (Marks(FIRST, LAST_OF), newer(1, 2, 3), [("4", "first")]),
        (Marks(FIRST, LAST), newer(truncated=True), []),
    ],
)
def test_marks_are_set_on_the_first_and_the_last_row_that_survive(tmp_path, marks, superseding, expected):
    one = staged(tmp_path / "run", reads(1, 2), reads(), reads(3), reads(4), reads())

    assert said(Emission(one, superseding, 0, marks)) == expected
