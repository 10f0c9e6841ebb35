"""Staged rows in files: what is handed over by name, blanked or copied, and what is damaged."""

from __future__ import annotations

import errno
import os
import resource
import signal
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from adapters.sinks.files import FilesSink
from adapters.staging import file_blocks
from adapters.staging.file_blocks import FileBlocks
from engine.errors import InvariantError, SinkError, SourceError
from engine.job.snapshots.emission import Emission, EmissionResult
from engine.model import Checksum, Part, StagedRun
from engine.snapshot.markers import NO_MARKERS, Marker, Markers
from engine.staging import text_rows
from engine.staging.affixes import Affixes
from engine.staging.checksum import checksum_of
from engine.staging.rows import StagingArea
from tests.staged import NO_AFFIXES, TEXT_ROWS, emitted, files_in, newer, part, rows, staged, texts_in
from tests.turns import Turns


@pytest.fixture(params=[files_in, texts_in], ids=["events", "texts"])
def area(request, tmp_path) -> StagingArea:
    """Files in either form."""
    made: StagingArea = request.param(tmp_path)
    return made


def rows_file(one: StagedRun) -> Path:
    """The file of a run with the merge keys."""
    content: Any = one.content
    block = content.keys if hasattr(content, "keys") else content.block
    return Path(block.path)


def texts_file(one: StagedRun) -> Path:
    """The file of a run's texts."""
    return Path(texts_of(one).path)


def texts_of(one: StagedRun) -> Any:
    """The block of a run's texts."""
    content: Any = one.content
    return content.texts


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
    monkeypatch.setattr(text_rows, "_BLANKED", share)
    monkeypatch.setattr(text_rows, "_BLANKED_BYTES", side_by_side)
    area = texts_in(tmp_path)
    one = staged(area, rows(*MANY[:300]), rows(*MANY[300:]))
    before = texts_file(one).read_bytes()
    expected = [str(number) for number in MANY if number not in superseding]
    emission = Emission(one, newer(*superseding), 0)

    assert emitted(emission) == (EmissionResult(part(len(expected))), expected)
    size, width = len(before), before.index(b"\n") + 1
    gap = max(len(list(run)) for _, run in groupby(MANY, superseding.__contains__) if _)
    blanked = len(superseding) * width <= share * size and gap * width <= side_by_side
    blanked &= MANY[-1] not in superseding
    assert (texts_file(one).read_bytes() != before) == blanked


@pytest.mark.parametrize("marks", [NO_MARKERS, Markers(Marker.FIRST)], ids=["plain", "marked"])
@pytest.mark.parametrize(
    "gone", [{100}, {100, 102}, {100, 102, 103}, {100, 102, 103, 1098}, {103, *MANY[::2]}, set(MANY)]
)
def test_what_was_superseded_is_left_out_of_texts_that_are_marked_or_not(tmp_path, gone, marks):
    one = staged(texts_in(tmp_path), rows(*MANY))
    expected = [str(number) for number in MANY if number not in gone]

    assert emitted(Emission(one, newer(*gone), 0, marks)) == (EmissionResult(part(len(expected))), expected)


@pytest.mark.parametrize("damage", ["cut", "flipped"])
@pytest.mark.parametrize("superseding", [newer(), newer(*MANY[::2])], ids=["all", "half"])
def test_a_damaged_file_is_a_fault_of_the_source(area, damage, superseding):
    """Mapped, one that was cut short would kill the process."""
    one = staged(area, rows(*MANY))
    path = rows_file(one)
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
    path = rows_file(one)
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
    one = staged(texts_in(tmp_path), rows(*MANY))
    path = texts_file(one)
    path.write_bytes(path.read_bytes()[:-1] + (b"" if not gone else b"x"))

    with pytest.raises(SourceError, match="staged are damaged"):
        emitted(Emission(one, newer(*gone), 0))


def test_what_was_blanked_has_a_checksum_of_its_own(tmp_path):
    one = staged(texts_in(tmp_path), rows(*MANY))
    taken = []

    class Writer:
        def take(self, number: int, path: str, events: int, checksum: Checksum) -> Part:
            taken.append((checksum, Path(path).read_bytes()))
            return Part(number, events, checksum)

    Emission(one, newer(500), 0).write(Writer())  # type: ignore[arg-type] # it takes files only
    ((checksum, content),) = taken

    assert checksum == checksum_of(content) != texts_of(one).checksum


def test_texts_that_another_user_wrote_are_copied_without_what_was_superseded(tmp_path, monkeypatch):
    def refused(path: str, _flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    one = staged(texts_in(tmp_path), rows(*MANY))
    monkeypatch.setattr(os, "open", refused)

    assert emitted(Emission(one, newer(*MANY[1:]), 0)) == (EmissionResult(part(1)), ["100"])
    assert emitted(Emission(one, newer(100), 0))[0] == EmissionResult(part(999))


def test_a_disk_that_fails_while_rows_are_blanked_is_an_error_of_the_sink(tmp_path, monkeypatch):
    one = staged(texts_in(tmp_path), rows(*MANY))
    monkeypatch.setattr(os, "fsync", broken)

    with pytest.raises(SinkError, match="input/output error"):
        emitted(Emission(one, newer(500), 0))


def test_texts_that_are_gone_are_a_fault_of_the_source(tmp_path):
    one = staged(texts_in(tmp_path), rows(*MANY))
    texts_file(one).unlink()

    with pytest.raises(SourceError, match="staged are gone"):
        emitted(Emission(one, newer(500), 0))


def broken(_file: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("failing", [1, 2, 10, "last"])
def test_texts_that_were_not_forced_to_disk_are_not_staged(tmp_path, monkeypatch, failing):
    """Linux tells of it once, to whoever forces the file next."""
    monkeypatch.setattr(file_blocks, "_PORTION_BYTES", 1000)
    forced: list[int] = []

    def force(file: int) -> None:
        forced.append(file)
        if len(forced) == failing:
            broken(file)

    def stage() -> None:
        area = texts_in(tmp_path)
        with area.run(0, NO_AFFIXES) as file:
            for at in range(0, 1000, 50):
                file.write(rows(*MANY[at : at + 50]))

    monkeypatch.setattr(os, "fsync", force)
    if failing == "last":
        stage()
        failing = len(forced)
        assert failing > 10
        forced.clear()
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


def test_texts_are_forced_to_disk_in_portions(tmp_path, monkeypatch):
    monkeypatch.setattr(file_blocks, "_PORTION_BYTES", 100)
    sizes, fsync = [0], os.fsync

    def force(file: int) -> None:
        sizes.append(os.fstat(file).st_size)
        fsync(file)

    monkeypatch.setattr(os, "fsync", force)
    area = texts_in(tmp_path)
    one = staged(area, rows(*MANY[:1]), *(rows(*MANY[at : at + 50]) for at in range(1, 1000, 50)))

    assert sizes[-1] == texts_file(one).stat().st_size
    assert {later - earlier for earlier, later in pairwise(sizes[:-1])} == {100}
    assert sizes[-1] - sizes[-2] <= 100
    assert emitted(Emission(one, newer(), 0)) == (
        EmissionResult(part(1000)),
        [str(number) for number in MANY],
    )


@pytest.mark.parametrize("marks", [Markers(Marker.FIRST, Marker.LAST), Markers(None, Marker.LAST)])
def test_the_files_sink_gets_marked_rows_as_others_but_for_the_marker(tmp_path, marks):
    block = ',"source":{"snapshot":"%s","db":"d"},"op":"r"}'
    affixes = Affixes('{"after":', block % "true", {str(mark): block % mark.value for mark in Marker})
    sink = Turns(FilesSink(tmp_path / "events"))
    one = staged(
        StagingArea(FileBlocks(sink.row_form.directory), sink.row_form), rows(1, 2, 3), affixes=affixes
    )
    Emission(one, newer(), 0, marks).write(sink.writer(1))
    sink.commit(1)

    lines = (tmp_path / "events" / "turn-000000000001" / "part-00000.jsonl").read_text().splitlines()
    events = [orjson.loads(line) for line in lines]
    assert [event["key"] for event in events] == [1, 2, 3]
    expected = [marks.first or "true", "true", "last"]
    assert [event["value"]["source"]["snapshot"] for event in events] == expected
    assert [sorted(event) for event in events] == [["headers", "key", "topic", "value"]] * 3


def test_a_text_that_does_not_end_as_its_run_s_is_our_bug(tmp_path):
    area = texts_in(tmp_path)
    odd = replace(area, form=replace(TEXT_ROWS, ending=lambda after: f"{after}?"))
    one = staged(odd, rows(1), affixes=Affixes("", "", {"first": "x"}))

    with pytest.raises(InvariantError, match="does not end as"):
        emitted(Emission(one, newer(), 0, Markers(Marker.FIRST)))
