"""What the job has emitted, as any consumer reads it: the files sink's lines, and values as text.

Knows the documented event format, and nothing of the engine.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.torture.truth import Row

_WORDS: Final = "__debezium_unavailable_value"
_UNAVAILABLE: Final = frozenset({_WORDS, base64.b64encode(_WORDS.encode()).decode()})
_READERS: Final[Mapping[str, Callable[[Any], str]]] = {
    "boolean": lambda value: "true" if value else "false",
    "double precision": lambda value: repr(float(value)),
    "bytea": lambda value: "\\x" + base64.b64decode(value).hex(),
    "date": lambda value: (date(1970, 1, 1) + timedelta(days=value)).isoformat(),
}
"""Types whose JSON value differs from the database's text."""


Read: TypeAlias = "Callable[[int, str, Any, Any], Emitted | None]"
"""Reads an event from its turn, topic, key and value; None for a tombstone."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """An event of a row: the turn that it came with, `op` r, c, u, d or t, its images, its transaction.

    `snapshot` is from the source block, `place` is the entry's place in the log. `at_s` is the Unix time of
    sending, where known. `described` is the update description of a document.
    """

    turn: int
    table: str
    op: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    transaction: int | None
    snapshot: str = "incremental"
    place: int = 0
    at_s: float = 0.0
    described: Mapping[str, Any] | None = None


class Events:
    """Reads the committed turns, each once, in order."""

    def __init__(self, directory: Path, read: Read) -> None:
        self._directory, self._read, self._last = directory, read, ""

    def read(self) -> Iterator[Emitted]:
        """The events of the turns committed since the last call, without tombstones."""
        for turn in sorted(self._directory.glob("turn-*")):
            if turn.name <= self._last:
                continue
            self._last = turn.name
            for part in _parts(turn):
                for line in part.read_bytes().split(b"\n"):
                    number = int(turn.name.removeprefix("turn-"))
                    if line and (event := self._read_line(number, orjson.loads(line))):
                        yield event

    @property
    def parts(self) -> list[Path]:
        """The files that were read, in order."""
        turns = sorted(turn for turn in self._directory.glob("turn-*") if turn.name <= self._last)
        return [part for turn in turns for part in _parts(turn)]

    def _read_line(self, turn: int, line: Mapping[str, Any]) -> Emitted | None:
        return self._read(turn, line["topic"], line["key"], line["value"])


def _parts(turn: Path) -> list[Path]:
    return sorted(turn.glob("part-*.jsonl"))


def emitted(turn: int, value: Mapping[str, Any] | None, at_s: float = 0.0) -> Emitted | None:
    """Read an event's value; None for a tombstone."""
    if value is None:
        return None
    source = value["source"]
    table = f"{source['schema']}.{source['table']}"
    return Emitted(
        turn,
        table,
        value["op"],
        value["before"],
        value["after"],
        source["txId"],
        snapshot=str(source["snapshot"]),
        place=source["lsn"] or 0,
        at_s=at_s,
    )


def texts(image: Mapping[str, Any], types: Mapping[str, str]) -> Row:
    """An image's values as the database would print them."""
    return {name: text(value, types.get(name, "")) for name, value in image.items()}


def text(value: Any, type_: str) -> str | None:
    """One value. `type_` is the server's name of the type."""
    if value is None:
        return None
    if value in _UNAVAILABLE:
        return UNCHANGED
    reader = _READERS.get(type_)
    return reader(value) if reader else printed(str(value), type_)


def printed(value: str, type_: str) -> str:
    """The database's text, normalized where differences do not matter."""
    match type_:
        case "double precision":
            return repr(float(value))
        case "timestamp with time zone":
            moment = value.replace("T", " ").replace("Z", "+00").removesuffix("+00")
            return moment.rstrip("0").rstrip(".") if "." in moment else moment
        case type_ if type_.startswith("character"):
            return value.rstrip(" ")
        case "mood":
            # A label counts as the same after it was renamed.
            return value.partition("_")[0]
    return value


def printed_row(row: Row, types: Mapping[str, str]) -> Row:
    """A row of the database's own texts."""
    return {
        name: value if value is None or value == UNCHANGED else printed(value, types.get(name, ""))
        for name, value in row.items()
    }
