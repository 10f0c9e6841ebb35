"""READ events in a file until they are emitted."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import signal
import time
from itertools import count, groupby
from pathlib import Path
from random import Random

import orjson
import pyarrow as pa
import pytest

from engine.errors import SinkError, SourceError
from engine.job import emission as emitting
from engine.job.emission import Emission, Emitted
from engine.model import Checksum, CollectionId, Part, Staged
from engine.snapshot.markers import NO_MARKERS, Marker, Markers
from engine.snapshot.merge import Newer
from engine.snapshot.merge_key import KEY_TYPE
from engine.staging import staged_rows
from engine.staging.checksum import checksum_of
from engine.staging.staged_rows import STAGED, StagingArea, clear, texts_beside
from tests.batches import numbered
from tests.fakes import MemorySink, memory_text
from tests.turns import Turns

T = CollectionId(("public", "t"))


def rows(*numbers: int) -> pa.RecordBatch:
    keys = pa.array([str(number).encode() for number in numbers], KEY_TYPE)
    return pa.RecordBatch.from_arrays([*numbered(*numbers).columns, keys], schema=STAGED)


def newer(*numbers: int, truncated: bool = False) -> Newer:
    return Newer(pa.array([str(number).encode() for number in numbers], KEY_TYPE), truncated=truncated)


@pytest.fixture(params=[None, memory_text], ids=["events", "texts"])
def area(request, tmp_path) -> StagingArea:
    """A place for rows in either form."""
    return StagingArea(str(tmp_path), request.param)


def staged(
    area: StagingArea, *batches: pa.RecordBatch, run: int = 0, around: tuple[str, str] = ("", "")
) -> Staged:
    path = area.path(run)
    with area.file(path, around) as file:
        for batch in batches:
            file.write(batch)
    return Staged(1, T, path, sum(batch.num_rows for batch in batches), 0, run, *file.checksums)


def part(events: int) -> Part:
    """Part 0 with so many events, as the memory sink writes it."""
    return Part(0, events)


def emitted(emission: Emission) -> tuple[Emitted, list[str]]:
    """What the emission says it did, and the keys of the events that came."""
    sink = Turns(MemorySink())
    said = emission.write(sink.writer(1))
    sink.commit(1)
    return said, [event["key"] for event in sink.events()]


def test_what_supersedes_is_looked_up_once_for_all_batches(area, monkeypatch):
    """It may be millions of keys, which each look-up hashes anew."""
    asked: list[int] = []
    survivors = Newer.survivors

    def noted(newer: Newer, keys: pa.LargeBinaryArray) -> pa.BooleanArray | None:
        asked.append(len(keys))
        return survivors(newer, keys)

    monkeypatch.setattr(Newer, "survivors", noted)
    one = staged(area, rows(1, 2), rows(3), rows(4, 5, 6))

    assert emitted(Emission(one, newer(2, 5), 0)) == (Emitted(part(4)), ["1", "3", "4", "6"])
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

    assert emitted(Emission(one, superseding, 0)) == (Emitted(part(len(expected))), expected)


MANY = range(100, 1100)


@pytest.mark.parametrize(
    ("share", "side_by_side"), [(0.0, 1 << 20), (0.5, 1 << 20), (1.0, 1 << 20), (1.0, 100)]
)
@pytest.mark.parametrize(
    "superseding",
    [
        [100],
        [1099],
        [100, 101, 102, 500, 501, 1098, 1099],
        list(range(100, 1099)),
        list(range(101, 1100)),
        list(range(100, 1100, 2)),
        list(range(101, 1100, 2)),
    ],
    ids=["first", "last", "several", "all but the last", "all but the first", "even", "odd"],
)
def test_few_rows_left_out_become_blanks_and_many_are_no_part_of_a_copy(
    tmp_path, monkeypatch, share, side_by_side, superseding
):
    """The same rows either way."""
    monkeypatch.setattr(emitting, "_BLANKED", share)
    monkeypatch.setattr(emitting, "_BLANKED_BYTES", side_by_side)
    area = StagingArea(str(tmp_path), memory_text)
    one = staged(area, rows(*MANY[:300]), rows(*MANY[300:]))
    before = Path(texts_beside(one.path)).read_bytes()
    expected = [str(number) for number in MANY if number not in superseding]
    emission = Emission(one, newer(*superseding), 0)

    assert emitted(emission) == (Emitted(part(len(expected))), expected)
    size, width = len(before), before.index(b"\n") + 1
    gap = max(len(list(run)) for _, run in groupby(MANY, superseding.__contains__) if _)
    blanked = len(superseding) * width <= share * size and gap * width <= side_by_side
    blanked &= MANY[-1] not in superseding
    assert (Path(texts_beside(one.path)).read_bytes() != before) == blanked


@pytest.mark.parametrize("marks", [NO_MARKERS, Markers(Marker.FIRST)], ids=["plain", "marked"])
@pytest.mark.parametrize(
    "gone", [{100}, {100, 102}, {100, 102, 103}, {100, 102, 103, 1098}, {103, *MANY[::2]}, set(MANY)]
)
def test_what_was_superseded_is_left_out_of_texts_that_are_marked_or_not(tmp_path, gone, marks):
    one = staged(StagingArea(str(tmp_path), memory_text), rows(*MANY))
    expected = [str(number) for number in MANY if number not in gone]

    assert emitted(Emission(one, newer(*gone), 0, marks)) == (Emitted(part(len(expected))), expected)


@pytest.mark.parametrize("damage", ["cut", "flipped"])
@pytest.mark.parametrize("superseding", [newer(), newer(*MANY[::2])], ids=["all", "half"])
def test_a_damaged_file_is_a_fault_of_the_source(area, damage, superseding):
    """Mapped, one that was cut short would kill the process."""
    one = staged(area, rows(*MANY))
    path = Path(one.path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content[: len(content) // 2] if damage == "cut" else content)

    with pytest.raises(SourceError, match="staged are damaged"):
        emitted(Emission(one, superseding, 0))


def damaged(content: bytes, chance: Random) -> bytes:
    """The content of a file whose disk, or whoever shares it, has done something to it."""
    at, size = chance.randrange(len(content)), chance.choice([1, 8, 512, 4096])
    kind = chance.choice(["flip", "cut", "zero", "swap", "longer"])
    if kind == "flip":
        return content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
    if kind == "cut":
        return content[:at]
    if kind == "zero":
        return content[:at] + bytes(len(content[at : at + size])) + content[at + size :]
    if kind == "swap":
        other = chance.randrange(len(content))
        return content[:at] + content[other : other + size] + content[at + size :]
    return content + bytes(size)


def test_however_a_file_is_damaged_nothing_else_is_emitted(area):
    """`TIDEMARK_DAMAGES` says how often it is tried."""
    chance, one = Random(7), staged(area, rows(*MANY))
    path = Path(one.path)
    whole = path.read_bytes()
    expected = emitted(Emission(one, newer(*MANY[::2]), 0))
    refused = 0
    for _ in range(int(os.environ.get("TIDEMARK_DAMAGES", "40"))):
        path.write_bytes(damaged(whole, chance))
        try:
            assert emitted(Emission(one, newer(*MANY[::2]), 0)) == expected
        except SourceError:
            refused += 1

    assert refused


@pytest.mark.parametrize("gone", [(), (500,), tuple(MANY[::2])], ids=["handed over", "blanked", "copied"])
def test_damaged_texts_are_a_fault_of_the_source(tmp_path, gone):
    one = staged(StagingArea(str(tmp_path), memory_text), rows(*MANY))
    path = Path(texts_beside(one.path))
    path.write_bytes(path.read_bytes()[:-1] + (b"" if not gone else b"x"))

    with pytest.raises(SourceError, match="staged are damaged"):
        emitted(Emission(one, newer(*gone), 0))


def test_what_was_blanked_has_a_checksum_of_its_own(tmp_path):
    one = staged(StagingArea(str(tmp_path), memory_text), rows(*MANY))
    taken = []

    class Writer:
        def take(self, number: int, path: str, events: int, checksum: Checksum) -> Part:
            taken.append((checksum, Path(path).read_bytes()))
            return Part(number, events, checksum)

    Emission(one, newer(500), 0).write(Writer())  # type: ignore[arg-type] # it takes files only
    ((checksum, content),) = taken

    assert checksum == checksum_of(content) != one.texts


def test_texts_that_another_user_wrote_are_copied_without_what_was_superseded(tmp_path, monkeypatch):
    def refused(path: str, _flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    one = staged(StagingArea(str(tmp_path), memory_text), rows(*MANY))
    monkeypatch.setattr(os, "open", refused)

    assert emitted(Emission(one, newer(*MANY[1:]), 0)) == (Emitted(part(1)), ["100"])
    assert emitted(Emission(one, newer(100), 0))[0] == Emitted(part(999))


def test_a_disk_that_fails_while_rows_are_blanked_is_an_error_of_the_sink(tmp_path, monkeypatch):
    one = staged(StagingArea(str(tmp_path), memory_text), rows(*MANY))
    monkeypatch.setattr(os, "fsync", broken)

    with pytest.raises(SinkError, match="input/output error"):
        emitted(Emission(one, newer(500), 0))


def test_texts_that_are_gone_are_a_fault_of_the_source(tmp_path):
    one = staged(StagingArea(str(tmp_path), memory_text), rows(*MANY))
    Path(texts_beside(one.path)).unlink()

    with pytest.raises(SourceError, match="staged are gone"):
        emitted(Emission(one, newer(500), 0))


def broken(_file: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("failing", [1, 2, 10, 20])
def test_texts_that_were_not_forced_to_disk_are_not_staged(tmp_path, monkeypatch, failing):
    """Linux tells of it once, to whoever forces the file next."""
    monkeypatch.setattr(staged_rows, "_FORCED_BYTES", 1)
    asked = count(1)
    monkeypatch.setattr(os, "fsync", lambda file: broken(file) if next(asked) == failing else None)

    def stage() -> None:
        area = StagingArea(str(tmp_path), memory_text)
        with area.file(area.path(0), ("", "")) as file:
            for at in range(0, 1000, 50):
                file.write(rows(*MANY[at : at + 50]))
                time.sleep(0.002)  # the force under way may end

    with pytest.raises(SinkError, match="input/output error"):
        stage()


def test_a_full_disk_is_waited_for_by_the_turn_and_leaves_no_row_out(area):
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(SinkError, match="run-00000-0"):
            staged(area, rows(*MANY))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_rows_that_fail_are_let_go_with_their_own_error(area):
    def stage() -> None:
        with area.file(area.path(0), ("", "")) as file:
            file.write(rows(1))
            raise ConnectionResetError("the database went away")

    with pytest.raises(ConnectionResetError, match="went away"):
        stage()


def test_a_text_as_large_as_the_disk_is_forced_to_goes_there_in_pieces(area, monkeypatch):
    monkeypatch.setattr(staged_rows, "_FORCED_BYTES", 100)
    one = staged(area, *(rows(*MANY[at : at + 50]) for at in range(0, 1000, 50)))

    assert emitted(Emission(one, newer(), 0)) == (Emitted(part(1000)), [str(number) for number in MANY])


def test_rows_dropped_for_incomplete_entries_are_told(area):
    keys = pa.array([b"2", b"9"], KEY_TYPE)
    one = staged(area, rows(1, 2), rows(3))

    assert emitted(Emission(one, Newer(keys, lacking=keys), 0)) == (Emitted(part(2), (b"2",)), ["1", "3"])


@pytest.mark.parametrize("at_once", [1, 2600, 1 << 20])
def test_what_is_around_all_values_is_kept_once(area, monkeypatch, at_once):
    monkeypatch.setattr(staged_rows, "_AT_ONCE_BYTES", at_once)
    schema = '{"é":"%s"}' % ("x" * 1000)
    around = ('{"schema":' + schema + ',"payload":', "}")
    one = staged(area, rows(1, 2), rows(), rows(3, 4, 5), around=around)
    marks = Markers(first=Marker.FIRST, last=Marker.LAST)
    sink, plain = Turns(MemorySink()), Turns(MemorySink())
    said = Emission(one, newer(2), 0, marks).write(sink.writer(1))
    Emission(staged(StagingArea(area.directory), rows(1, 2, 3, 4, 5), run=1), newer(2), 0, marks).write(
        plain.writer(1)
    )
    for each in (sink, plain):
        each.commit(1)

    assert said == Emitted(part(4))
    assert [event["key"] for event in sink.events()] == ["1", "3", "4", "5"]
    assert [event["value"] for event in sink.events()] == [
        '{"schema":' + schema + ',"payload":' + event["value"] + "}" for event in plain.events()
    ]
    assert Path(one.path).read_bytes().count(b"x" * 1000) == (area.render is None)


def test_a_mark_is_put_into_the_source_block_behind_a_schema(area):
    value = '{"before":null,"after":{"v":"snapshot"},"source":{"db":"d","snapshot":"true","lsn":1},"op":"r"}'
    schema = '{"field":",\\"snapshot\\":\\"true\\","}'
    batch = rows(1)
    at = STAGED.get_field_index("value")
    batch = batch.set_column(at, STAGED.field(at), pa.array([value], STAGED.field(at).type))
    sink = Turns(MemorySink())
    one = staged(area, batch, around=('{"schema":' + schema + ',"payload":', "}"))
    Emission(one, newer(), 0, Markers(Marker.FIRST)).write(sink.writer(1))
    sink.commit(1)

    (event,) = sink.events()
    marked = value.replace('"true"', '"first"')
    assert event["value"] == '{"schema":' + schema + ',"payload":' + marked + "}"


def test_a_file_can_be_emitted_again(area):
    emission = Emission(staged(area, rows(1, 2)), newer(1), 0)

    assert emitted(emission) == emitted(emission) == (Emitted(part(1)), ["2"])


def test_a_file_without_rows_emits_nothing(area):
    assert emitted(Emission(staged(area), newer(), 0)) == (Emitted(part(0)), [])


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

    assert emitted(there) == (Emitted(Part(3, 1)), ["2"])


def test_a_staged_file_that_is_gone_is_a_fault_of_the_source(area):
    one = staged(area, rows(1))
    clear(area.directory)

    with pytest.raises(SourceError, match="staged are gone; driver and executors must share"):
        emitted(Emission(one, newer(), 0))


def test_clearing_removes_everything_below(area):
    one = staged(area.within("window").within("exact"), rows(1))
    clear(area.within("window").directory)
    clear(area.within("window").directory)

    assert not Path(one.path).exists()
    assert Path(area.directory).exists()


FIRST, LAST, LAST_OF = Marker.FIRST, Marker.LAST, Marker.LAST_OF_COLLECTION
DECEIVING = '{"after":{"a":",\\"snapshot\\":\\"true\\",","snapshot":"true","db":"x"},'
"""A row of columns that look like the source block."""


def reads(*numbers: int) -> pa.RecordBatch:
    plain = rows(*numbers)
    values = [f'{DECEIVING}"source":{{"ts_ms":1,"snapshot":"true","db":"x"}},"op":"r"}}' for _ in numbers]
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
    one = staged(area, reads(1, 2), reads(), reads(3), reads(4), reads())

    assert said(Emission(one, superseding, 0, marks)) == expected
