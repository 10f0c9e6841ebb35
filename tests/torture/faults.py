"""Faults in the files of a sink, put there behind the job's back, and the rows that consumers have of them.

Knows the files sink's lines, and nothing of the engine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path
    from random import Random

Event: TypeAlias = dict[str, Any]
EventKey: TypeAlias = tuple[str, str]
"""The topic of an event, and the text of its key."""
_STRANGE: Final = 100_000_000
"""Keys from here on are of no row."""


@dataclass(slots=True)
class Faults:
    """How many rows of each kind are wrong, by collection. `extra` has the events of rows too many."""

    kinds: dict[str, Counter[str]] = field(default_factory=dict)
    extra: list[Event] = field(default_factory=list)

    def __add__(self, other: Faults) -> Faults:
        """Both."""
        names = dict.fromkeys((*self.kinds, *other.kinds))
        kinds = {name: self.kinds.get(name, Counter()) + other.kinds.get(name, Counter()) for name in names}
        return Faults(kinds, [*self.extra, *other.extra])


class Line(NamedTuple):
    """Where an event stands."""

    path: Path
    number: int


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a consumer who has applied all events of some topics: the last event of each, and its line.

    An update of a document may lack the document. The consumer then keeps the one that it has.
    """

    last: Mapping[EventKey, tuple[Line, Event]]

    @classmethod
    def of(cls, parts: Iterable[Path], topics: Collection[str]) -> Rows:
        """By the files of committed turns, in order."""
        found: dict[EventKey, tuple[Line, Event]] = {}
        for path in parts:
            for number, line in enumerate(path.read_bytes().splitlines()):
                event = orjson.loads(line)
                if event["topic"] in topics and event["value"] is not None:
                    found = _applied(found, Line(path, number), event)
        return cls(found)

    def left_behind(self, topics: Mapping[str, str], is_row: Callable[[Event], bool]) -> Faults:
        """The rows that the source does not have, and of which no event has said that they are gone."""
        extra = [event for _line, event in self.last.values() if not is_row(event)]
        kinds: dict[str, Counter[str]] = {}
        for event in extra:
            kinds.setdefault(topics[event["topic"]], Counter())["extra"] += 1
        return Faults(kinds, extra)


def _applied(
    rows: dict[EventKey, tuple[Line, Event]], line: Line, event: Event
) -> dict[EventKey, tuple[Line, Event]]:
    topic, value = event["topic"], event["value"]
    if value["op"] == "t":
        return {key: last for key, last in rows.items() if key[0] != topic}
    key = _key_of(event)
    if value["op"] == "d":
        rows.pop(key, None)
    elif event["key"] is not None and value["after"] is not None:
        rows[key] = line, event
    return rows


def _key_of(event: Event) -> EventKey:
    return event["topic"], orjson.dumps(event["key"]).decode()


def put(
    parts: Sequence[Path],
    topics: Mapping[str, str],
    takes_extra: Collection[str],
    draw: Random,
    count: int,
    is_row: Callable[[Event], bool] = lambda _event: True,
) -> Faults:
    """Put up to `count` faults into the copies of collections, which `topics` names.

    `parts` are the files of committed turns, in order. Those that `takes_extra` names get extra rows, too.
    Rows that the source does not have stay as they are.
    """
    last = Rows.of(parts, topics).last
    live = sorted(key for key, (_line, event) in last.items() if is_row(event))
    faults = Faults()
    wrong: dict[Line, Event] = {}
    gone = set()
    for number, key in enumerate(draw.sample(live, min(count, len(live)))):
        line, event = last[key]
        name = topics[event["topic"]]
        kind = draw.choice(["missing", "different", *(["extra"] if name in takes_extra else [])])
        faults.kinds.setdefault(name, Counter())[kind] += 1
        if kind == "missing":
            gone.add(key)
        elif kind == "different":
            wrong[line] = _wrong(event)
        else:
            faults.extra.append(_stranger(event, number))
    _write(parts, wrong, gone, faults.extra)
    return faults


def _wrong(event: Event) -> Event:
    """The event as one that says something else of its row."""
    after = event["value"]["after"]
    other = f'{after[:-1]},"wrong":true}}' if isinstance(after, str) else after | {"ver": -1}
    return _said(event, event["key"], other)


def _stranger(event: Event, number: int) -> Event:
    """The event as one of a row that does not exist: of a document, or with another column `k` of the key."""
    after = event["value"]["after"]
    if isinstance(after, str):
        own = f'"strange {number}"'
        return _said(event, {"id": own}, f'{{"_id":{own}}}')
    numeric = isinstance(event["key"]["k"], int)
    other = {"k": _STRANGE + number if numeric else f"strange {number}"}
    return _said(event, event["key"] | other, after | other)


def _said(event: Event, key: Any, after: Any) -> Event:
    return event | {"key": key, "value": event["value"] | {"op": "c", "before": None, "after": after}}


def _write(
    parts: Sequence[Path], wrong: Mapping[Line, Event], gone: Collection[EventKey], added: Sequence[Event]
) -> None:
    """Replace lines by `wrong` ones, remove those of the keys `gone`, and add lines to the last file."""
    for path in parts:
        lines = path.read_bytes().splitlines()
        kept = []
        for number, line in enumerate(lines):
            if _key_of(orjson.loads(line)) not in gone:
                other = wrong.get(Line(path, number))
                kept.append(line if other is None else orjson.dumps(other))
        if path == parts[-1]:
            kept += map(orjson.dumps, added)
        if kept != lines:
            path.write_bytes(b"".join(line + b"\n" for line in kept))
