"""An event as it is compared: topic, key, value and headers as parsed JSON.

Reads both forms: the recorded one, where key and value are JSON text, and the files sink's, where
they are JSON. A header's value is JSON text in both. Leaves masks and comparison to others.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

Json: TypeAlias = Any
"""What `json.loads` gives; compared by `compare.py`, which tells 1 from 1.0 and from true."""


@dataclass(frozen=True, slots=True)
class Event:
    """One record of a topic; `key` or `value` None is a null, not the JSON text `null`."""

    topic: str
    key: Json
    value: Json
    headers: tuple[tuple[str, Json], ...] = ()

    @property
    def body(self) -> Json:
        """The value without its schema; None for a tombstone."""
        return payload(self.value)

    @property
    def key_text(self) -> str:
        """The key without its schema, as text that is equal where the keys are."""
        return json.dumps(payload(self.key), sort_keys=True, ensure_ascii=False)

    @property
    def op(self) -> str | None:
        """The operation of a change event, else None."""
        return self.body.get("op") if isinstance(self.body, dict) else None

    def __str__(self) -> str:
        what = "tombstone" if self.value is None else self.op or "event"
        return f"{what} {self.topic} {self.key_text}"


def payload(document: Json) -> Json:
    """The payload of a document that carries its schema; any other is its own payload."""
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        return document["payload"]
    return document


def recorded_events(path: Path) -> tuple[Event, ...]:
    """Read an events.jsonl: key and value are JSON text or null."""
    return tuple(_event(line, _parse_text) for line in _lines(path))


def emitted_events(directory: Path) -> tuple[Event, ...]:
    """Read what the files sink wrote below `directory`, in the order of turns and parts."""
    parts = sorted(directory.glob("turn-*/part-*.jsonl"))
    return tuple(_event(line, _as_is) for part in parts for line in _lines(part))


def _lines(path: Path) -> list[str]:
    # not splitlines: U+2028 and others may stand raw in JSON text
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text("utf-8")
    return [line for line in text.split("\n") if line]


def _event(line: str, parse: Any) -> Event:
    fields = _loads(line)
    if fields.keys() != {"topic", "key", "value", "headers"}:
        raise ValueError(f"an event has topic, key, value and headers, not {sorted(fields)!r}")
    headers = tuple((header["key"], _parse_text(header["value"])) for header in fields["headers"])
    return Event(fields["topic"], parse(fields["key"]), parse(fields["value"]), headers)


def _parse_text(text: str | None) -> Json:
    return None if text is None else _loads(text)


def _as_is(document: Json) -> Json:
    return document


def _loads(text: str) -> Json:
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError(f"a JSON object names a field twice: {[name for name, _ in pairs]!r}")
    return fields
