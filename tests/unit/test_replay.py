from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.replay import Figures, Shape, _reader, last_rows

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = Shape(("public", "t"), ("id", "v"), ("id",), (None, None))


def row(key: int, text: str) -> dict[str, Any]:
    return {"id": key, "v": text}


def event(op: str, *, before: Any = None, after: Any = None, topic: str = "p.public.t") -> dict[str, Any]:
    return {
        "topic": topic,
        "key": None,
        "value": {"op": op, "before": before, "after": after},
        "headers": [],
    }


TOMBSTONE: dict[str, Any] = {"topic": "p.public.t", "key": {"id": 1}, "value": None, "headers": []}


def replayed(directory: Path, *turns: list[dict[str, Any]]) -> list[list[Any]]:
    """The rows that the events leave; each event stands in a part of its own."""
    for turn, events in enumerate(turns, 1):
        folder = directory / f"turn-{turn:012d}"
        folder.mkdir(parents=True)
        for part, record in enumerate(events):
            (folder / f"part-{part:05d}.jsonl").write_text(json.dumps(record) + "\n", "utf-8")
    return sorted(values for _, values in last_rows(directory, {"p.public.t": SHAPE}, Figures()))


def test_the_last_event_of_a_key_decides(tmp_path: Path):
    first = [event("r", after=row(1, "read")), event("c", after=row(2, "b"))]
    then = [event("u", after=row(1, "updated"))]

    assert replayed(tmp_path, first, then) == [[1, "updated"], [2, "b"]]


def test_a_stale_read_after_a_newer_change_is_not_forgiven(tmp_path: Path):
    assert replayed(tmp_path, [event("u", after=row(1, "new"))], [event("r", after=row(1, "old"))]) == [
        [1, "old"]
    ]


def test_a_deleted_row_is_gone_until_it_is_inserted_again(tmp_path: Path):
    gone = [event("c", after=row(1, "a")), event("d", before={"id": 1, "v": None}), TOMBSTONE]

    assert replayed(tmp_path, gone) == []
    assert replayed(tmp_path / "again", gone, [event("c", after=row(1, "b"))]) == [[1, "b"]]


def test_a_truncate_empties_what_was_before_it(tmp_path: Path):
    turns = [[event("c", after=row(1, "a")), event("c", after=row(2, "a"))], [event("t")]]

    assert replayed(tmp_path, *turns, [event("c", after=row(2, "b"))]) == [[2, "b"]]


def test_other_topics_are_left_alone(tmp_path: Path):
    assert replayed(tmp_path, [event("c", after=row(1, "a"), topic="p.public.signals")]) == []


@pytest.mark.parametrize(
    ("type_", "modifier", "value", "text"),
    [
        ("numeric", (12 << 16 | 2) + 4, "ANM2", "540.70"),
        ("numeric", (12 << 16 | 2) + 4, "/w==", "-0.01"),
        ("numeric", (5 << 16) + 4, "Bw==", "7"),
        ("numeric", -1, {"scale": 3, "value": "AfQ="}, "0.500"),
        ("date", -1, -1, "1969-12-31"),
        ("timestamp", -1, 1_500_000, "1970-01-01 00:00:01.500000"),
        ("timestamp", 3, 1_500, "1970-01-01 00:00:01.500000"),
        ("time", 6, 3_600_000_001, "01:00:00.000001"),
        ("bytea", -1, "AP8=", "\\x00ff"),
    ],
)
def test_values_are_read_as_the_event_format_describes_them(type_: str, modifier: int, value: Any, text: str):
    reader = _reader(type_, modifier)

    assert reader is not None
    assert reader(value) == text
