"""The tables of a consumer that has applied all that a sink's files say, whichever jobs have sent it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from tests.torture.emitted import texts
from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.torture.emitted import Read
    from tests.torture.truth import Row


@dataclass(slots=True)
class FilesTables:
    """The tables of a consumer that has applied all turns in the files of a sink. Implements `Tables`.

    `read` reads an event.
    """

    events: Path
    read: Read

    def properties(self) -> dict[str, str]:
        """The sink."""
        return {"tidemark.sink": "files", "tidemark.sink.files.dir": str(self.events)}

    def behind(self) -> bool:
        """Never: a turn that is committed shows."""
        return False

    @property
    def parts(self) -> list[Path]:
        """The files of all turns, in order."""
        return [part for turn in sorted(self.events.glob("turn-*")) for part in sorted(turn.glob("part-*"))]

    def rows(self, name: str, types: Mapping[str, str]) -> list[Row] | None:
        """By the events."""
        found: dict[str, Row] = {}
        for part in self.parts:
            for line in part.read_bytes().splitlines():
                event = orjson.loads(line)
                if event["topic"] == f"tm.{name}":
                    self._apply(found, event, types)
        return list(found.values())

    def lacking(self, name: str, types: Mapping[str, str]) -> bool:
        """Whether a value of a row was never sent: an update left it out, under another key."""
        return any(UNCHANGED in row.values() for row in self.rows(name, types) or [])

    def _apply(self, rows: dict[str, Row], event: dict[str, Any], types: Mapping[str, str]) -> None:
        if event["key"] is None and event["value"] is None:
            return  # the tombstone of a row without a key names no row
        before, after = _keys(event)
        told = self.read(0, event["topic"], event["key"], event["value"])
        if told is not None and told.op == "t":
            rows.clear()
            return
        known = rows.pop(before, {}) if told is None or told.op in "ud" else rows.get(after, {})
        if told is not None and told.op != "d":
            row = texts(told.after or {}, types)
            # A document that was looked up may be gone: its event has the key alone.
            rows[after] = known | {
                name: known.get(name, text) if text == UNCHANGED else text for name, text in row.items()
            }


def _keys(event: dict[str, Any]) -> tuple[str, str]:
    """A row's key before and after an event; of a table without one, its version, which no other row has."""
    if event["key"] is not None:
        return json.dumps(event["key"]), json.dumps(event["key"])
    before, after = (json.dumps((event["value"][side] or {}).get("ver")) for side in ("before", "after"))
    return before, after
