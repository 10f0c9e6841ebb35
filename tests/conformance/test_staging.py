"""Rows that wait until they are emitted: the same wherever they are kept, and in whichever form."""

from __future__ import annotations

import pickle
from dataclasses import replace

import orjson
import pyarrow as pa
import pytest
from xxhash import xxh3_128_intdigest

from adapters.staging.executor_blocks import ExecutorBlocks
from adapters.staging.file_blocks import FileBlocks
from engine.errors import SourceError
from engine.job.snapshots.emission import Emission, EmissionResult
from engine.model import Part, StagedRun
from engine.snapshot.markers import Marker, Markers
from engine.snapshot.merge import NewerKeys
from engine.snapshot.merge_key import KEY_TYPE
from engine.staging import rows as staged_rows
from engine.staging.affixes import Affixes
from engine.staging.batches import stage
from engine.staging.column_rows import ColumnRows
from engine.staging.port import BlockStore
from engine.staging.rows import STAGED, DigestedRows, StagingArea
from tests.blocks_of_tasks import BlocksOfTasks
from tests.fakes import MemorySink
from tests.staged import EVENT_ROWS, NO_AFFIXES, TEXT_ROWS, T, emitted, newer, part, rows, staged
from tests.turns import Turns


@pytest.fixture(params=["files", "driver", pytest.param("executors", marks=pytest.mark.integration)])
def store(request, tmp_path) -> BlockStore:
    """Every implementation; blocks of executors as the driver writes them, and as tasks do."""
    match request.param:
        case "files":
            return FileBlocks(str(tmp_path / "staging"))
        case "driver":
            return ExecutorBlocks()
        case _:
            return BlocksOfTasks(request.getfixturevalue("spark"), ExecutorBlocks(small=0))


@pytest.fixture(params=[EVENT_ROWS, TEXT_ROWS], ids=["events", "texts"])
def area(request, store) -> StagingArea:
    """Every implementation, with rows in either form."""
    return StagingArea(store, request.param)


def test_what_supersedes_is_looked_up_once_for_all_batches(area, monkeypatch):
    """It may be millions of keys, which each look-up hashes anew."""
    asked: list[int] = []
    survivors = NewerKeys.survivors

    def noted(newer: NewerKeys, keys: pa.LargeBinaryArray) -> pa.BooleanArray | None:
        asked.append(len(keys))
        return survivors(newer, keys)

    monkeypatch.setattr(NewerKeys, "survivors", noted)
    one = staged(area, rows(1, 2), rows(3), rows(4, 5, 6))

    assert emitted(Emission(one, newer(2, 5), 0)) == (EmissionResult(part(4)), ["1", "3", "4", "6"])
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
def test_what_was_superseded_is_left_out(area, superseding, expected):
    one = staged(area.within("window"), rows(1, 2), rows(), rows(3, 4))

    assert emitted(Emission(one, superseding, 0)) == (EmissionResult(part(len(expected))), expected)


def test_rows_that_fail_are_let_go_with_their_own_error(area):
    def stage() -> None:
        with area.run(0, NO_AFFIXES) as file:
            file.write(rows(1))
            raise ConnectionResetError("the database went away")

    with pytest.raises(ConnectionResetError, match="went away"):
        stage()


def test_rows_dropped_for_incomplete_entries_are_told(area):
    keys = pa.array([b"2", b"9"], KEY_TYPE)
    one = staged(area, rows(1, 2), rows(3))

    assert emitted(Emission(one, NewerKeys(keys, lacking=keys), 0)) == (
        EmissionResult(part(2), (b"2",)),
        ["1", "3"],
    )


def test_a_file_can_be_emitted_again(area):
    emission = Emission(staged(area, rows(1, 2)), newer(1), 0)

    assert emitted(emission) == emitted(emission) == (EmissionResult(part(1)), ["2"])


def test_a_file_without_rows_emits_nothing(area):
    assert emitted(Emission(staged(area), newer(), 0)) == (EmissionResult(part(0)), [])


def test_an_emission_is_its_part_of_the_turn(area):
    sink = Turns(MemorySink())
    writer = sink.writer(1)
    Emission(staged(area, rows(2), run=1), newer(), 5).write(writer)
    Emission(staged(area, rows(1), run=2), newer(), 4).write(writer)
    sink.commit(1)

    assert [event["key"] for event in sink.events()] == ["1", "2"]


def test_an_emission_travels_to_executors(area):
    emission = Emission(staged(area, rows(1, 2)), newer(1), 3)
    there = pickle.loads(pickle.dumps(emission))  # noqa: S301  our own bytes

    assert emitted(there) == (EmissionResult(Part(3, 1)), ["2"])


def test_a_staged_file_that_is_gone_is_a_fault_of_the_source(area):
    one = staged(area, rows(1))
    area.clear()

    with pytest.raises(SourceError, match="staged are gone"):
        emitted(Emission(one, newer(), 0))


def test_clearing_removes_everything_below(area):
    one = staged(area.within("window").within("exact"), rows(1))
    other = staged(area.within("other"), rows(2))
    area.within("window").clear()
    area.within("window").clear()

    with pytest.raises(SourceError, match="staged are gone"):
        emitted(Emission(one, newer(), 0))
    assert emitted(Emission(other, newer(), 0)) == (EmissionResult(part(1)), ["2"])


FIRST, LAST, LAST_OF = Marker.FIRST, Marker.LAST, Marker.LAST_OF_COLLECTION
DECEIVING = '{"after":{"a":",\\"snapshot\\":\\"true\\",","snapshot":"true","db":"x"},'
"""A row of columns that look like the source block."""
BLOCK = '"source":{"ts_ms":1,"snapshot":"%s","db":"x"},"op":"r"}'
SOURCE = Affixes("", BLOCK % "true", {marker: BLOCK % marker for marker in Marker})


def reads(*numbers: int) -> pa.RecordBatch:
    plain = rows(*numbers)
    values = [DECEIVING for _ in numbers]
    return plain.set_column(2, plain.schema.field(2), pa.array(values, pa.large_string()))


def said(emission: Emission) -> list[tuple[str, str]]:
    """The keys that came, each with the mark in its source block."""
    sink = Turns(MemorySink())
    emission.write(sink.writer(1))
    sink.commit(1)
    for event in sink.events():
        assert event["value"].startswith(DECEIVING)
    return [(event["key"], orjson.loads(event["value"])["source"]["snapshot"]) for event in sink.events()]


@pytest.mark.parametrize(
    ("marks", "superseding", "expected"),
    [
        (Markers(FIRST, LAST), newer(), [("1", "first"), ("2", "true"), ("3", "true"), ("4", "last")]),
        (Markers(FIRST), newer(), [("1", "first"), ("2", "true"), ("3", "true"), ("4", "true")]),
        (Markers(None, LAST), newer(), [("1", "true"), ("2", "true"), ("3", "true"), ("4", "last")]),
        (Markers(FIRST, LAST), newer(1, 4), [("2", "first"), ("3", "last")]),
        (Markers(FIRST, LAST), newer(1, 2), [("3", "first"), ("4", "last")]),
        (Markers(FIRST, LAST_OF), newer(1, 2, 3), [("4", "first")]),
        (Markers(FIRST, LAST), newer(truncated=True), []),
    ],
)
def test_marks_are_set_on_the_first_and_the_last_row_that_survive(area, marks, superseding, expected):
    one = staged(area, reads(1, 2), reads(), reads(3), reads(4), reads(), affixes=SOURCE)

    assert said(Emission(one, superseding, 0, marks)) == expected


def test_a_mark_is_put_into_the_source_block_behind_a_schema(area):
    before, row, after = (
        '{"before":null,"after":',
        '{"v":"snapshot"}',
        ',"source":{"db":"d","snapshot":%s,"lsn":1},"op":"r"}',
    )
    schema = '{"field":",\\"snapshot\\":\\"true\\","}'
    batch = rows(1)
    at = STAGED.get_field_index("value")
    batch = batch.set_column(at, STAGED.field(at), pa.array([row], STAGED.field(at).type))
    sink = Turns(MemorySink())
    affixes = Affixes(
        '{"schema":' + schema + ',"payload":' + before,
        after % '"true"' + "}",
        {"first": after % '"first"' + "}"},
    )
    one = staged(area, batch, affixes=affixes)
    Emission(one, newer(), 0, Markers(Marker.FIRST)).write(sink.writer(1))
    sink.commit(1)

    (event,) = sink.events()
    marked = before + row + after % '"first"'
    assert event["value"] == '{"schema":' + schema + ',"payload":' + marked + "}"


@pytest.mark.parametrize("at_once", [1, 2600, 1 << 20])
def test_what_is_around_all_values_is_kept_once(area, monkeypatch, at_once):
    monkeypatch.setattr(staged_rows, "_AT_ONCE_BYTES", at_once)
    schema = '{"é":"%s"}' % ("x" * 1000)
    affixes = Affixes('{"schema":' + schema + ',"payload":', "}")
    one = staged(area, rows(1, 2), rows(), rows(3, 4, 5), affixes=affixes)
    marks = Markers(first=Marker.FIRST, last=Marker.LAST)
    sink, plain = Turns(MemorySink()), Turns(MemorySink())
    said = Emission(one, newer(2), 0, marks).write(sink.writer(1))
    Emission(staged(replace(area, form=EVENT_ROWS), rows(1, 2, 3, 4, 5), run=1), newer(2), 0, marks).write(
        plain.writer(1)
    )
    for each in (sink, plain):
        each.commit(1)

    assert said == EmissionResult(part(4))
    assert [event["key"] for event in sink.events()] == ["1", "3", "4", "5"]
    assert [event["value"] for event in sink.events()] == [
        '{"schema":' + schema + ',"payload":' + event["value"] + "}" for event in plain.events()
    ]


def test_an_attempt_is_a_run_of_its_own(area):
    runs = []
    for attempt, number in enumerate((1, 2)):
        with area.run(0, NO_AFFIXES, attempt) as run:
            run.write(rows(number))
        runs.append(replace(staged(area.within("other"), rows(9)), content=run.complete))

    assert [emitted(Emission(run, newer(), 0))[1] for run in runs] == [["1"], ["2"]]


def test_entries_come_back_as_they_were_staged(store):
    entries = pa.record_batch({"entry": pa.array([b"a", None, b"c"], pa.large_binary())})
    handle = pickle.loads(pickle.dumps(stage(store.within("log"), entries, "span.arrow")))  # noqa: S301  our own bytes
    loaded = handle.load()

    assert loaded == [entries]
    handle.remove()
    handle.remove()
    assert loaded == [entries]
    with pytest.raises(SourceError, match="entries that were staged are gone"):
        handle.load()


def test_entries_of_several_parts_are_apart(store):
    one, other = (stage(store, pa.record_batch({"entry": pa.array([name])}), name) for name in ("a", "b"))
    one.remove()

    assert other.load()[0].to_pylist() == [{"entry": "b"}]


def test_a_table_is_staged_as_batches_are(store):
    table = pa.table({"n": pa.chunked_array([[1, 2], [3]])})

    assert pa.Table.from_batches(stage(store, table, "table.arrow").load()) == table


def test_a_block_is_of_one_attempt_to_write_it(store):
    given_up, whole = store.create("a"), store.create_file("b", None)
    given_up.write(b"lost")
    given_up.abandon()
    whole.write(b"one ")
    whole.write(memoryview(b"two"))
    block = whole.finish()

    assert (given_up.closed, whole.closed, block.checksum.bytes) == (True, True, 7)
    with block.open("texts") as content:
        assert bytes(content) == b"one two"


def test_a_block_that_is_gone_is_gone_for_all_who_hold_it(store):
    writer = store.create_file("a", None)
    writer.write(b"text")
    block = writer.finish()
    store.clear()

    with pytest.raises(SourceError, match="texts are gone"), block.open("texts"):
        pass


def digest_sum(*numbers: int, seed: int) -> int:
    """The sum by hand."""
    batch = rows(*numbers)
    pairs = zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
    texts = [f"{key or ''}\n{value}".encode() for key, value in pairs]
    return sum(xxh3_128_intdigest(text, seed) for text in texts) % 2**128


def test_the_survivors_digests_are_added_up_over_all_batches(area):
    file = staged(replace(area, seed=11), rows(1, 2), rows(3, 4, 5))

    said, keys = emitted(Emission(file, newer(2, 5), 0))

    assert len(keys) == 3
    assert said.digest_sum == digest_sum(1, 3, 4, seed=11)


@pytest.mark.parametrize(("dropped", "truncated"), [((), False), ((1, 2), False), ((), True)])
def test_so_are_the_digests_of_all_rows_or_of_none(tmp_path, dropped, truncated):
    area = StagingArea(FileBlocks(str(tmp_path)), TEXT_ROWS, seed=11)

    said, _keys = emitted(Emission(staged(area, rows(1, 2)), newer(*dropped, truncated=truncated), 0))

    assert said.digest_sum == (0 if dropped or truncated else digest_sum(1, 2, seed=11))


def test_typed_rows_have_no_digests(tmp_path):
    """They are not text, so a stranger could not compute any."""
    area = StagingArea(FileBlocks(str(tmp_path)), ColumnRows(), seed=11)
    with area.run(0, NO_AFFIXES) as staging:
        keys = pa.array([b"1"], KEY_TYPE)
        staging.write(pa.RecordBatch.from_arrays([pa.array([1]), keys], names=["id", "merge_key"]))
    file = StagedRun(1, T, staging.complete, staging.rows, staging.bytes, 0)

    assert not isinstance(file.content, DigestedRows)


def test_without_a_seed_rows_have_no_digests(tmp_path):
    file = staged(StagingArea(FileBlocks(str(tmp_path)), TEXT_ROWS), rows(1, 2))

    assert emitted(Emission(file, newer(), 0))[0].digest_sum is None
