"""Lines of the files sink with their schemas, made of rows: what the readers of changes are tested with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from engine.events.record.schema import INT32, INT64, STRING, Schema, struct

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "tm.public.t"
ROW = struct("tm.public.t.Value", ("id", INT32), ("note", STRING.nullable()), optional=True)
SOURCE = struct("source", ("ts_ms", INT64), ("table", STRING))


def envelope(row: Schema = ROW) -> Schema:
    return struct("tm.public.t.Envelope", ("before", row), ("after", row), ("source", SOURCE), ("op", STRING))


def line(
    op: str,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    **more: Any,
) -> str:
    """A change event. `more`: its `topic`, its `row` schema, its `headers`."""
    payload = {
        "before": before,
        "after": after,
        "source": {"ts_ms": 1_700_000_000_123, "table": "t"},
        "op": op,
    }
    schema = envelope(more.get("row", ROW)).json()
    value = f'{{"schema":{schema},"payload":{orjson.dumps(payload).decode()}}}'
    return _line(before or after, value, **more)


def tombstone(row: dict[str, Any], **more: Any) -> str:
    return _line(row, "null", **more)


def _line(keyed: dict[str, Any] | None, value: str, **more: Any) -> str:
    key_schema = struct("tm.public.t.Key", ("id", INT32)).json()
    payload = orjson.dumps({"id": keyed["id"]}).decode() if keyed else ""
    key = f'{{"schema":{key_schema},"payload":{payload}}}' if keyed else "null"
    topic, headers = more.get("topic", TOPIC), orjson.dumps(more.get("headers", [])).decode()
    return f'{{"topic":"{topic}","key":{key},"value":{value},"headers":{headers}}}\n'


def write_turn(directory: Path, turn: int, *parts: list[str]) -> None:
    """A committed turn with these lines in its parts."""
    path = directory / f"turn-{turn:012d}"
    path.mkdir(parents=True)
    (path / ".manifest.json").write_text("{}")
    for number, lines in enumerate(parts):
        (path / f"part-{number:05d}.jsonl").write_text("".join(lines))
