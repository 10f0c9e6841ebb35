"""Attempts, part files, and what becomes of the system's errors."""

from __future__ import annotations

import errno
import os
import resource
import signal
from pathlib import Path

import pytest

from adapters.sinks.lines import json_lines
from adapters.staging.turn_parts import StagedWriter, Staging, part_files
from engine.errors import InvariantError, SinkError
from engine.model import NO_FILE
from engine.staging.checksum import checksum_of
from engine.staging.files import sink_errors
from tests.batches import numbered


def test_every_attempt_has_a_directory_of_its_own(tmp_path):
    staging = Staging(tmp_path / "staging")

    first = staging.begin(7)
    second = staging.begin(7)

    assert first != second
    assert not first.exists()
    assert second.is_dir()


def test_parts_are_ordered_by_number_past_five_digits(tmp_path):
    for number in (100_000, 2, 99_999, 10):
        StagedWriter(tmp_path, json_lines).write(number, [numbered(number)])

    assert [path.name for path in part_files(tmp_path)] == [
        "part-00002.jsonl",
        "part-00010.jsonl",
        "part-99999.jsonl",
        "part-100000.jsonl",
    ]


def test_a_part_without_events_leaves_no_file_and_removes_the_one_before(tmp_path):
    writer = StagedWriter(tmp_path, json_lines)
    writer.write(0, [numbered(1)])
    writer.write(0, [numbered()])

    assert list(tmp_path.iterdir()) == []


def test_a_part_that_fails_leaves_nothing_and_its_error_is_not_the_sinks(tmp_path):
    def failing():
        yield numbered(1)
        raise OSError(errno.ECONNRESET, "the database went away")

    with pytest.raises(OSError, match="went away"):
        StagedWriter(tmp_path, json_lines).write(0, failing())

    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_sink_error_that_says_what_to_do():
    with pytest.raises(SinkError, match=r"/events: .*free some space") as caught, sink_errors("/events"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert caught.value.where == "/events"


def test_a_write_that_finds_no_space_fails_the_part_and_leaves_nothing(tmp_path):
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        with pytest.raises(SinkError, match="part-00000"):
            StagedWriter(tmp_path, json_lines).write(0, [numbered(*range(9))])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        signal.signal(signal.SIGXFSZ, before)

    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_gone_is_a_sink_error(tmp_path):
    with pytest.raises(SinkError, match="a newer attempt"):
        StagedWriter(tmp_path / "gone", json_lines).write(0, [numbered(1)])


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.ENOTSUP])
def test_a_file_that_can_not_be_linked_is_copied(tmp_path, monkeypatch, code):
    def refused(_path: Path, _to: str) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "hardlink_to", refused)
    (tmp_path / "turn").mkdir()
    given = tmp_path / "run.text"
    given.write_bytes(b"x" * (3 << 20))
    StagedWriter(tmp_path / "turn", json_lines).take(4, str(given), 1, checksum_of(given.read_bytes()))

    assert [path.name for path in (tmp_path / "turn").iterdir()] == ["part-00004.jsonl"]
    assert (tmp_path / "turn" / "part-00004.jsonl").read_bytes() == given.read_bytes()


def test_a_file_that_is_gone_leaves_what_the_part_had(tmp_path):
    writer = StagedWriter(tmp_path, json_lines)
    writer.write(4, [numbered(1)])
    with pytest.raises(SinkError, match="it was removed"):
        writer.take(4, str(tmp_path / "run.text"), 1, NO_FILE)

    assert [path.name for path in tmp_path.iterdir()] == ["part-00004.jsonl"]


def test_a_turn_that_was_not_begun_has_no_attempt(tmp_path):
    staging = Staging(tmp_path / "staging")
    staging.begin(7)

    with pytest.raises(InvariantError, match="turn 8"):
        staging.begun(8)
