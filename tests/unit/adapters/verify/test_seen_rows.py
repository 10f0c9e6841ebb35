"""The files of rows that windows have seen, across the sessions of a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adapters.storage.workspace import VERIFIED, take_workspace
from adapters.verify.seen_rows import SeenRowsFiles
from engine.verify.compared_digests import SEEN_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator


def rows(*turns: int) -> pa.Table:
    row = {"key": bytes(16), "row": None, "merge_key": b"k", "seen": 0}
    return pa.Table.from_pylist([row | {"turn": turn} for turn in turns], SEEN_ROWS)


def turns_in(path: str) -> list[int]:
    with pa.memory_map(path) as file, pa.ipc.open_stream(file) as stream:
        turns: list[int] = stream.read_all().column("turn").to_pylist()
        return turns


class Sessions:
    """Sessions of a job, one after another."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.all: list[SeenRowsFiles] = []

    def begin(self) -> SeenRowsFiles:
        self.all.append(SeenRowsFiles(str(self.directory)))
        return self.all[-1]


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    made = Sessions(tmp_path / "verified")
    yield made
    for session in made.all:
        session.close()


def test_rows_are_read_as_they_were_added(sessions):
    seen = sessions.begin()
    seen.add(3, rows(1, 1))
    first = turns_in(seen.path(3))
    seen.add(3, rows())
    seen.add(3, rows(2))

    assert (first, turns_in(seen.path(3)), seen.written(3).rows) == ([1, 1], [1, 1, 2], 3)
    assert turns_in(seen.path(4)) == []


def test_the_next_session_goes_on_behind_what_was_saved(sessions):
    before = sessions.begin()
    before.add(3, rows(1, 1))
    saved = before.written(3)
    before.add(3, rows(2))
    before.add(5, rows(7))

    after = sessions.begin()
    kept = after.resume({3: saved, 4: saved})
    before.add(3, rows(9, 9, 9))
    after.add(3, rows(4))

    assert kept == {3}
    assert turns_in(after.path(3)) == [1, 1, 4]
    assert after.written(3).rows == 3
    assert [str(path) for path in sessions.directory.iterdir()] == [after.path(3)]


def test_a_job_that_was_relieved_can_not_damage_the_rows_of_the_newer_one(sessions):
    before = sessions.begin()
    before.add(3, rows(1))
    after = sessions.begin()
    after.resume({3: before.written(3)})
    after.add(4, rows(2))

    before.add(4, rows(9))
    before.forget(3)
    before.forget(4)

    assert (turns_in(after.path(3)), turns_in(after.path(4))) == ([1], [2])


def test_rows_under_the_name_of_the_release_before_are_taken_over(sessions):
    before = sessions.begin()
    before.add(3, rows(1))
    Path(before.path(3)).rename(sessions.directory / "seen-3.arrow")

    after = sessions.begin()

    assert after.resume({3: before.written(3)}) == {3}
    assert turns_in(after.path(3)) == [1]


def test_a_session_may_go_back_to_what_it_has_saved(sessions):
    seen = sessions.begin()
    seen.add(3, rows(1))
    saved = seen.written(3)
    seen.add(3, rows(2))
    seen.close()

    assert seen.resume({3: saved}) == {3}
    assert turns_in(seen.path(3)) == [1]
    assert seen.written(3) == saved


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_damaged_rows_are_lost(sessions, damage):
    before = sessions.begin()
    before.add(3, rows(1, 1))
    saved = before.written(3)
    path = Path(before.path(3))
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-1] + (b"x" if damage == "changed" else b""))

    after = sessions.begin()

    assert after.resume({3: saved}) == frozenset()
    assert list(sessions.directory.iterdir()) == []
    after.add(3, rows(5))
    assert turns_in(after.path(3)) == [5]


def test_what_was_seen_outlives_its_epoch(tmp_path):
    first = take_workspace(tmp_path / "job", 1)
    for directory in (first / "windows", first.parent / VERIFIED):
        directory.mkdir()

    take_workspace(tmp_path / "job", 2)

    assert sorted(path.name for path in (tmp_path / "job").iterdir() if path.is_dir()) == [
        "000000000002",
        VERIFIED,
    ]
