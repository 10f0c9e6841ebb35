"""The layout of the files sink, and what a restart finds."""

from __future__ import annotations

import json
import shutil

import pytest

from adapters.sinks.files import FilesSink
from engine.errors import SinkError
from tests.batches import numbered


def test_a_turn_is_a_directory_of_numbered_parts(tmp_path):
    sink = FilesSink(tmp_path / "events")
    writer = sink.writer(42)
    writer.write(1, [numbered(3)])
    writer.write(0, [numbered(1), numbered(2)])
    sink.commit(42)

    turn = tmp_path / "events" / "turn-000000000042"
    keys = {
        path.name: [json.loads(line)["key"] for line in path.read_text().splitlines()]
        for path in turn.iterdir()
    }
    assert keys == {"part-00000.jsonl": [1, 2], "part-00001.jsonl": [3]}


def test_nothing_but_turns_is_visible(tmp_path):
    sink = FilesSink(tmp_path)
    sink.writer(1).write(0, [numbered(1)])
    sink.commit(1)
    sink.writer(2)
    sink.commit(2)
    sink.writer(3).write(0, [numbered(3)])

    visible = [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert visible == ["turn-000000000001"]


def test_turns_without_events_cost_no_directory_each(tmp_path):
    sink = FilesSink(tmp_path)
    for turn in range(1, 20):
        sink.writer(turn)
        sink.commit(turn)

    assert sink.applied(19)
    assert {path.name for path in tmp_path.iterdir()} == {".staging", ".empty-turn"}
    assert len(list((tmp_path / ".staging").iterdir())) == 1


def test_a_crash_leaves_its_parts_to_be_removed_by_the_next_turn(tmp_path):
    FilesSink(tmp_path).writer(1).write(0, [numbered(1)])

    sink = FilesSink(tmp_path)
    sink.writer(1).write(1, [numbered(2)])
    sink.commit(1)

    turn = tmp_path / "turn-000000000001"
    assert [path.name for path in turn.iterdir()] == ["part-00001.jsonl"]
    assert list((tmp_path / ".staging").iterdir()) == []


def test_events_of_another_checkpoint_are_not_mixed_with(tmp_path):
    sink = FilesSink(tmp_path)
    sink.writer(1).write(0, [numbered(1)])
    sink.commit(1)

    with pytest.raises(SinkError, match="an empty directory"):
        FilesSink(tmp_path).writer(1)


def test_a_turn_whose_parts_were_taken_away_is_not_taken_for_empty(tmp_path):
    sink = FilesSink(tmp_path)
    sink.writer(1).write(0, [numbered(1)])
    shutil.rmtree(tmp_path / ".staging")

    with pytest.raises(SinkError, match="it was removed"):
        sink.commit(1)
    assert not sink.applied(1)


def test_a_relative_directory_holds_wherever_a_task_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sink = FilesSink("events")
    writer = sink.writer(1)
    monkeypatch.chdir("/")
    writer.write(0, [numbered(1)])
    sink.commit(1)

    assert (tmp_path / "events" / "turn-000000000001" / "part-00000.jsonl").is_file()


def test_a_place_that_is_no_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(SinkError, match="file"):
        FilesSink(tmp_path / "file")
