from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import IntegerType, StringType, StructType

from adapters.lake.change_source import ChangeSource, Query, tasks
from adapters.lake.turn_files import Piece
from engine.errors import ConfigError
from tests.change_lines import TOPIC, line, write_turn


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / ".id").write_text("here\n")
    for turn in (1, 2, 4):
        write_turn(tmp_path, turn, [line("c", after={"id": turn, "note": None})], [line("c", topic="other")])
    return tmp_path


def options(directory: Path, **more: str) -> dict[str, str]:
    return {"path": str(directory), "topic": TOPIC, **more}


def ids(reader, partitions) -> list[int]:
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    return [row["id"] for batch in batches for row in batch.to_pylist()]


def test_the_schema_is_that_of_the_newest_events(directory: Path):
    schema = ChangeSource(options(directory)).schema()

    assert schema.names == [
        *("id", "note", "_change_type", "_commit_version", "_commit_timestamp", "_sequence")
    ]
    assert (schema["id"].dataType, schema["note"].dataType) == (IntegerType(), StringType())


def test_a_batch_reads_the_turns_between_its_versions(directory: Path):
    source = ChangeSource(options(directory, startingversion="2", EndingVersion="4"))
    reader = source.reader(source.schema())

    assert ids(reader, reader.partitions()) == [2, 4]
    assert list(reader.read(None)) == []


def test_a_stream_reads_what_lies_between_its_offsets(directory: Path):
    source = ChangeSource(options(directory))
    reader = source.streamReader(source.schema())
    first, newest = reader.initialOffset(), reader.latestOffset()

    assert (first, newest) == ({"directory": "here", "turn": 0}, {"directory": "here", "turn": 4})
    middle = {"directory": "here", "turn": 2}
    assert ids(reader, reader.partitions(first, middle)) == [1, 2]
    assert ids(reader, reader.partitions(middle, newest)) == [4]
    assert reader.partitions(newest, newest) == []


def test_a_stream_begins_at_its_starting_version(directory: Path):
    source = ChangeSource(options(directory, startingVersion="3"))

    assert source.streamReader(source.schema()).initialOffset()["turn"] == 2


def test_a_stream_that_begins_behind_the_newest_turn_does_not_go_back(directory: Path):
    source = ChangeSource(options(directory, startingVersion="9"))
    schema = ChangeSource(options(directory)).schema()
    reader = source.streamReader(schema)

    assert reader.partitions(reader.initialOffset(), reader.latestOffset()) == []
    assert reader.latestOffset()["turn"] == 8


def test_another_directory_is_told_from_the_one_that_was_read(directory: Path):
    source = ChangeSource(options(directory))
    reader = source.streamReader(source.schema())
    (directory / ".id").write_text("another")

    with pytest.raises(ConfigError, match="another directory"):
        reader.partitions({"directory": "here", "turn": 2}, reader.latestOffset())


def test_a_directory_that_is_not_mounted_has_no_offset(directory: Path):
    source = ChangeSource(options(directory))
    reader = source.streamReader(source.schema())
    (directory / ".id").unlink()

    with pytest.raises(ConfigError, match="mounted"):
        reader.latestOffset()
    with pytest.raises(ConfigError, match="mounted"):
        reader.initialOffset()


def test_a_directory_that_lost_its_newest_turns_is_not_read_again_from_the_beginning(directory: Path):
    source = ChangeSource(options(directory))
    reader = source.streamReader(source.schema())

    with pytest.raises(ConfigError, match="ends before turn 9"):
        reader.partitions({"directory": "here", "turn": 9}, reader.latestOffset())


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"topic": ""}, "'topic' is missing"),
        ({"path": ""}, "'path' is missing"),
        ({"startingVersion": "-1"}, "a turn's number"),
        ({"unknowncolumns": "drop"}, "'fail' or 'ignore'"),
        ({"maxTurns": "1"}, "no option 'maxTurns'"),
    ],
)
def test_options_are_checked(directory: Path, more: dict[str, str], reason: str):
    with pytest.raises(ConfigError, match=reason):
        Query(options(directory, **more))


def test_a_stream_refuses_an_ending_version(directory: Path):
    with pytest.raises(ConfigError, match="endingVersion"):
        ChangeSource(options(directory, endingVersion="2")).streamReader(StructType())


def test_no_events_yet_are_said(directory: Path):
    with pytest.raises(ConfigError, match="no events of 'none' yet"):
        ChangeSource(options(directory, topic="none")).schema()


def test_a_task_gets_pieces_up_to_its_size_and_at_least_one():
    pieces = [Piece("p", 1, part, 0, size) for part, size in enumerate([5, 5, 20, 1, 9, 1])]

    made = tasks(pieces, 10)

    assert [[piece.part for piece in change.pieces] for change in made] == [[0, 1], [2], [3, 4], [5]]
