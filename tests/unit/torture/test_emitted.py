"""Events read as a consumer reads them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.torture.emitted import Events, emitted, printed, text
from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from pathlib import Path

UNAVAILABLE = "__debezium_unavailable_value"


@pytest.mark.parametrize(
    ("type_", "in_json", "by_the_server"),
    [
        ("integer", 5, "5"),
        ("boolean", True, "true"),
        ("numeric", "1.00", "1.00"),
        ("double precision", 0.1, "0.10000000000000001"),
        ("timestamp with time zone", "2024-03-30T22:00:00.500000Z", "2024-03-30 22:00:00.5+00"),
        ("timestamp with time zone", "2024-03-30T22:00:00Z", "2024-03-30 22:00:00+00"),
        ("date", 19_782, "2024-02-29"),
        ("bytea", base64.b64encode(b"\x00\xff").decode(), "\\x00ff"),
        ("character", "a", "a       "),
        ("text", "a ", "a "),
    ],
)
def test_a_value_reads_the_same_from_both_sides(type_: str, in_json: Any, by_the_server: str):
    assert text(in_json, type_) == printed(by_the_server, type_)


def test_a_value_that_is_not_available_is_none_of_its_own():
    encoded = base64.b64encode(UNAVAILABLE.encode()).decode()

    assert [text(UNAVAILABLE, "text"), text(encoded, "bytea"), text(None, "text")] == [
        UNCHANGED,
        UNCHANGED,
        None,
    ]


def test_turns_are_read_once_in_order_and_tombstones_passed_over(tmp_path: Path):
    events = Events(tmp_path, lambda turn, _topic, _key, value: emitted(turn, value))

    def write(turn: int, part: int, *values: int | None) -> None:
        folder = tmp_path / f"turn-{turn:012d}"
        folder.mkdir(exist_ok=True)
        lines = [
            orjson.dumps({"topic": "tm.t", "key": {}, "value": value and _value(value)}) for value in values
        ]
        (folder / f"part-{part:05d}.jsonl").write_bytes(b"\n".join(lines) + b"\n")

    write(2, 1, 3)
    write(2, 0, 2, None)
    write(1, 0, 1)
    first = [(event.turn, event.transaction) for event in events.read()]
    write(10, 0, 4)

    assert first == [(1, 1), (2, 2), (2, 3)]
    assert [(event.turn, event.transaction) for event in events.read()] == [(10, 4)]


def _value(transaction: int) -> dict[str, Any]:
    source = {"schema": "public", "table": "t", "txId": transaction, "lsn": 7, "snapshot": "false"}
    return {"op": "c", "before": None, "after": {"k": 1}, "source": source}
