"""The layout of the files sink, and what a restart finds."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import stat
from pathlib import Path

import pytest
from xxhash import xxh3_64

from adapters.sinks.files import FilesSink
from engine.errors import LeaseLost, SinkError
from engine.model import Checksum
from engine.staging.checksum import checksum_of
from tests.batches import numbered
from tests.turns import Turns


def test_a_turn_is_a_directory_of_numbered_parts(tmp_path):
    sink = Turns(FilesSink(tmp_path / "events"))
    writer = sink.writer(42)
    writer.write(1, [numbered(3)])
    writer.write(0, [numbered(1), numbered(2)])
    sink.commit(42)

    turn = tmp_path / "events" / "turn-000000000042"
    keys = {
        path.name: [json.loads(line)["key"] for line in path.read_text().splitlines()]
        for path in turn.glob("part-*")
    }
    assert keys == {"part-00000.jsonl": [1, 2], "part-00001.jsonl": [3]}


def test_a_turn_whose_part_can_not_be_forced_to_disk_is_not_committed(tmp_path, monkeypatch):
    sink = Turns(FilesSink(tmp_path))
    written = sink.writer(1)
    monkeypatch.setattr(os, "fsync", no_disk)
    written.write(0, [numbered(1)])
    with pytest.raises(SinkError, match="input/output error"):
        sink.commit(1)
    monkeypatch.undo()
    with pytest.raises(SinkError, match="input/output error"):
        sink.commit(1)
    assert not sink.resolve_commit(1)

    sink.writer(1).write(0, [numbered(1)])  # what is left of the first attempt does not fail the next
    sink.commit(1)
    assert sink.resolve_commit(1)


def test_a_part_that_a_task_writes_is_forced_to_disk_before_the_task_ends(tmp_path, monkeypatch):
    sink = FilesSink(tmp_path)
    in_task = pickle.loads(pickle.dumps(sink.writer(1)))  # noqa: S301  our own bytes
    monkeypatch.setattr(os, "fsync", no_disk)
    with pytest.raises(SinkError, match="input/output error"):
        in_task.write(0, [numbered(1)])


def in_driver(writer, _tmp_path):
    return writer.write(0, [numbered(1)])


def in_a_task(writer, _tmp_path):
    return pickle.loads(pickle.dumps(writer)).write(2, [numbered(1)])  # noqa: S301  our own bytes


def taken(writer, tmp_path):
    staged = tmp_path / "staged"
    staged.write_bytes(b"{}\n")
    return writer.take(1, str(staged), 1, checksum_of(b"{}\n"))


@pytest.mark.parametrize(
    "steps",
    [
        [in_driver],
        [in_a_task],
        [taken],
        [in_driver, in_a_task],
        [in_a_task, taken],
        [in_driver, taken],
        [taken, in_driver],
    ],
)
def test_all_names_are_on_disk_when_a_turn_appears(tmp_path, monkeypatch, steps):
    """A name is on disk once its directory was forced after the name appeared."""
    on_disk, appeared, force, rename = set(), [], os.fsync, Path.rename

    def forced(file):
        if stat.S_ISDIR(os.fstat(file).st_mode):
            names = os.listdir(file)  # noqa: PTH208  a descriptor
            found = {(name, os.stat(name, dir_fd=file).st_ino) for name in names}
            force(file)
            on_disk.update(found)
        else:
            force(file)

    def renamed(path, target):
        appeared.append({(part.name, part.stat().st_ino) for part in path.glob("part-*")})
        assert appeared[-1] <= on_disk
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", forced)
    monkeypatch.setattr(Path, "rename", renamed)
    sink = FilesSink(tmp_path / "events")
    writer = sink.writer(1)
    sink.commit(1, [step(writer, tmp_path) for step in steps])
    assert [len(names) for names in appeared] == [len(steps)]


def test_a_name_that_a_task_takes_over_is_forced_again(tmp_path, monkeypatch):
    sink = FilesSink(tmp_path)
    writer = sink.writer(1)
    writer.write(2, [numbered(1)])
    writer.write(2, [])  # encoded again, and nothing is left of it
    sink._forcing.wait()
    part = in_a_task(writer, tmp_path)
    force, directories = os.fsync, []

    def forced(file):
        if stat.S_ISDIR(os.fstat(file).st_mode):
            directories.append(sorted(os.listdir(file)))  # noqa: PTH208  a descriptor
        force(file)

    monkeypatch.setattr(os, "fsync", forced)
    sink.commit(1, [part])
    assert ["part-00002.jsonl"] in directories


def no_disk(_file):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_nothing_but_turns_is_visible(tmp_path):
    sink = Turns(FilesSink(tmp_path))
    sink.writer(1).write(0, [numbered(1)])
    sink.commit(1)
    sink.writer(2)
    sink.commit(2)
    sink.writer(3).write(0, [numbered(3)])

    visible = [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert visible == ["turn-000000000001"]


def test_turns_without_events_cost_no_directory_each(tmp_path):
    sink = Turns(FilesSink(tmp_path))
    for turn in range(1, 20):
        sink.writer(turn)
        sink.commit(turn)

    assert sink.resolve_commit(19)
    assert {path.name for path in tmp_path.iterdir()} == {".staging", ".windows", ".empty-turn"}
    assert len(list((tmp_path / ".staging").rglob("turn-*"))) == 1


def test_a_crash_leaves_its_parts_to_be_removed_by_the_next_turn(tmp_path):
    FilesSink(tmp_path).writer(1).write(0, [numbered(1)])

    sink = Turns(FilesSink(tmp_path))
    sink.writer(1).write(1, [numbered(2)])
    sink.commit(1)

    turn = tmp_path / "turn-000000000001"
    assert [path.name for path in turn.glob("part-*")] == ["part-00001.jsonl"]
    assert list((tmp_path / ".staging").rglob("turn-*")) == []


def test_events_of_another_checkpoint_are_not_mixed_with(tmp_path):
    sink = Turns(FilesSink(tmp_path))
    sink.writer(1).write(0, [numbered(1)])
    sink.commit(1)

    with pytest.raises(SinkError, match="an empty directory"):
        FilesSink(tmp_path).writer(1)


def test_a_turn_whose_parts_were_taken_away_is_not_taken_for_empty(tmp_path):
    sink = Turns(FilesSink(tmp_path))
    sink.writer(1).write(0, [numbered(1)])
    shutil.rmtree(tmp_path / ".staging")

    with pytest.raises(SinkError, match="it was removed"):
        sink.commit(1)
    assert not sink.resolve_commit(1)


def test_a_relative_directory_holds_wherever_a_task_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sink = Turns(FilesSink("events"))
    writer = sink.writer(1)
    monkeypatch.chdir("/")
    writer.write(0, [numbered(1)])
    sink.commit(1)

    assert (tmp_path / "events" / "turn-000000000001" / "part-00000.jsonl").is_file()


def test_a_place_that_is_no_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(SinkError, match="file"):
        FilesSink(tmp_path / "file")


def handed_over(tmp_path, writer, part=0):
    """Hand over a file of rows that lay elsewhere; returns its content."""
    file = tmp_path / f"staged-{part}"
    content = b'{"key":1}\n{"key":2}\n'
    file.write_bytes(content)
    writer.take(part, str(file), 2, Checksum(len(content), xxh3_64(content).hexdigest()))
    return content


def test_rows_that_were_handed_over_have_their_checksums_beside_them(tmp_path):
    sink = Turns(FilesSink(tmp_path))
    writer = sink.writer(3)
    content = handed_over(tmp_path, writer)
    writer.write(1, [numbered()])
    sink.commit(3)

    part = {
        "name": "part-00000.jsonl",
        "events": 2,
        "bytes": len(content),
        "xxh3": xxh3_64(content).hexdigest(),
    }
    manifest = tmp_path / "turn-000000000003" / ".manifest.json"
    assert json.loads(manifest.read_bytes()) == {"turn": 3, "parts": [part]}


def test_a_turn_of_streamed_changes_has_no_file_but_its_parts(tmp_path):
    sink = Turns(FilesSink(tmp_path))
    sink.writer(3).write(0, [numbered(1, 2)])
    sink.commit(3)

    assert [path.name for path in (tmp_path / "turn-000000000003").iterdir()] == ["part-00000.jsonl"]


class TestParts:
    """A commit compares what it finds with what was written."""

    @pytest.fixture
    def sink(self, tmp_path):
        sink = Turns(FilesSink(tmp_path))
        writer = sink.writer(1)
        writer.write(0, [numbered(1)])
        writer.write(1, [numbered(2)])
        return sink

    def parts(self, tmp_path):
        return sorted(tmp_path.rglob("part-*"))

    def test_one_that_is_missing(self, sink, tmp_path):
        self.parts(tmp_path)[0].unlink()

        with pytest.raises(SinkError, match="part 0 is missing"):
            sink.commit(1)
        assert not sink.resolve_commit(1)

    def test_one_too_many(self, sink, tmp_path):
        (self.parts(tmp_path)[0].parent / "part-00007.jsonl").write_text("{}\n")

        with pytest.raises(SinkError, match="part 7 was written by somebody else"):
            sink.commit(1)

    def test_one_that_was_cut_short(self, sink, tmp_path):
        path = self.parts(tmp_path)[1]
        path.write_bytes(path.read_bytes()[:-1])

        with pytest.raises(SinkError, match=r"part 1 has \d+ bytes of \d+"):
            sink.commit(1)

    def test_a_turn_whose_parts_are_all_gone_is_not_taken_for_empty(self, sink, tmp_path):
        for path in self.parts(tmp_path):
            path.unlink()

        with pytest.raises(SinkError, match="part 0 is missing"):
            sink.commit(1)
        assert sink.newest_turn() is None


class TestEpochs:
    """What a job can't do any more once the next one has begun."""

    def test_commit_what_it_has_begun(self, tmp_path):
        old = Turns(FilesSink(tmp_path, 7))
        old.writer(1).write(0, [numbered(1)])
        FilesSink(tmp_path, 8)

        with pytest.raises(SinkError):
            old.commit(1)
        assert FilesSink(tmp_path, 8).newest_turn() is None

    def test_commit_a_turn_without_events(self, tmp_path):
        old = Turns(FilesSink(tmp_path, 7))
        old.writer(1)
        FilesSink(tmp_path, 8)

        with pytest.raises(SinkError):
            old.commit(1)
        assert not FilesSink(tmp_path, 8).resolve_commit(1)

    def test_begin_a_turn(self, tmp_path):
        old = FilesSink(tmp_path, 7)
        FilesSink(tmp_path, 8)

        with pytest.raises(LeaseLost, match="another job has taken over"):
            old.writer(1)

    def test_disturb_the_next_one_by_its_end(self, tmp_path):
        old, new = FilesSink(tmp_path, 7), Turns(FilesSink(tmp_path, 8))
        new.writer(1).write(0, [numbered(1)])
        old.close()
        new.commit(1)

        assert new.resolve_commit(1)

    def test_a_directory_that_somebody_has_removed_is_made_again(self, tmp_path):
        sink = Turns(FilesSink(tmp_path, 7))
        shutil.rmtree(tmp_path / ".staging")
        sink.writer(1).write(0, [numbered(1)])
        sink.commit(1)

        assert sink.resolve_commit(1)


@pytest.mark.parametrize(
    ("turns", "newest"), [([], None), ([(1, True)], 1), ([(1, False)], 1), ([(1, True), (2, False)], 2)]
)
def test_the_newest_turn_is_known_after_a_restart(tmp_path, turns, newest):
    sink = Turns(FilesSink(tmp_path))
    for turn, has_events in turns:
        writer = sink.writer(turn)
        if has_events:
            writer.write(0, [numbered(1)])
        sink.commit(turn)

    assert FilesSink(tmp_path).newest_turn() == newest


def modes(directory):
    return {path.name: oct(path.stat().st_mode & 0o777) for path in directory.rglob("*")}


@pytest.mark.parametrize(
    ("umask", "mode", "expected"),
    [
        (0o022, None, ("0o755", "0o644")),
        (0o077, None, ("0o700", "0o600")),
        (0o077, 0o640, ("0o750", "0o640")),
    ],
)
def test_committed_turns_have_the_mode_that_was_asked_for(tmp_path, umask, mode, expected):
    before = os.umask(umask)
    try:
        sink = Turns(FilesSink(tmp_path / "events", 1, mode))
        writer = sink.writer(1)
        writer.write(0, [numbered(1)])
        handed_over(tmp_path, writer, 1)
        staged = modes(tmp_path / "events")
        sink.commit(1)
    finally:
        os.umask(before)
    found = modes(tmp_path / "events")

    assert (found["turn-000000000001"], found["part-00000.jsonl"]) == expected
    assert found[".manifest.json"] == expected[1]
    assert staged[".staging"] == staged[".windows"] == "0o700"


def test_each_directory_has_an_identity_that_it_keeps_where_it_is_moved_to(tmp_path):
    first, other = FilesSink(tmp_path / "a").identity(), FilesSink(tmp_path / "b").identity()
    (tmp_path / "a").rename(tmp_path / "moved")

    assert FilesSink(tmp_path / "moved").identity() == first != other
