"""Whether the events of a run are the recorded ones; if not, the first difference.

Streamed events are compared one by one, in order; READs of an incremental snapshot as a multiset
per collection; heartbeats and what their query writes, which come by a timer, as a set. Leaves
what varies to `masks.py`, single events to `values.py`, windows to `windows.py`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.golden.case import Source
from tests.golden.event import Event, Json, payload
from tests.golden.masks import masks_of
from tests.golden.values import event_difference
from tests.golden.windows import stale_read, without_windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.golden.case import Case

_QUERIED_TABLE = re.compile(r"\b(?:UPDATE|INTO|FROM)\s+(?:ONLY\s+)?\"?([\w.]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sorted:
    """One side's events, masked, sorted by how they are compared."""

    streamed: list[Event] = field(default_factory=list)
    reads: list[Event] = field(default_factory=list)
    timed: list[Event] = field(default_factory=list)


def difference(case: Case, expected: Sequence[Event], actual: Sequence[Event]) -> str | None:
    """The first difference between what a case expects and what was emitted; None if there is none."""
    wanted, found = _sorted(case, expected), _sorted(case, actual)
    return (
        _streamed_difference(wanted.streamed, found.streamed)
        or _reads_difference(wanted.reads, found.reads, spare=_spare_reads(case))
        or _timed_difference(wanted.timed, found.timed)
        or (stale_read(actual) if case.incremental else None)
    )


def _sorted(case: Case, events: Sequence[Event]) -> Sorted:
    masks = masks_of(case, events)
    timed = _timed_topics(case)
    kept = without_windows(events) if case.incremental else events
    result = Sorted()
    for event in kept:
        masked = masks.apply(event)
        if event.topic in timed:
            result.timed.append(masked)
        elif case.incremental and event.op == "r":
            result.reads.append(masked)
        else:
            result.streamed.append(_without_first_sequence(masked) if timed else masked)
    if case.initial and case.source is Source.MONGODB:
        # Debezium reads collections in an order that changes from run to run; the documents of one it
        # reads as they lie.
        result.streamed.sort(key=lambda event: (event.op != "r", event.topic if event.op == "r" else ""))
    return result


def _timed_topics(case: Case) -> set[str]:
    """Topics whose events come by a timer: heartbeats, and the tables that their query writes."""
    properties = case.properties
    if properties.get("heartbeat.interval.ms", "0") == "0":
        return set()
    prefix, delimiter = properties["topic.prefix"], properties.get("topic.delimiter", ".")
    heartbeat = properties.get("topic.heartbeat.prefix", "__debezium-heartbeat")
    tables = _QUERIED_TABLE.findall(properties.get("heartbeat.action.query", ""))
    qualified = [table if "." in table else f"public.{table}" for table in tables]
    named = {delimiter.join([prefix, *table.split(".")]) for table in qualified}
    return {f"{heartbeat}{delimiter}{prefix}", *named}


def _without_first_sequence(event: Event) -> Event:
    """Where heartbeats write, any event may be the first of the stream, whose sequence begins with null."""
    sequence = event.body.get("source", {}).get("sequence") if isinstance(event.body, dict) else None
    if isinstance(sequence, str):
        event.body["source"]["sequence"] = sequence.replace("null", '"9"', 1)
    return event


def _spare_reads(case: Case) -> int:
    """How many recorded READs need not come: in i3 Debezium reads a row again that it has just streamed."""
    return 1 if case.name.startswith("i3") else 0


def _streamed_difference(expected: list[Event], actual: list[Event]) -> str | None:
    for number, (wanted, found) in enumerate(zip(expected, actual, strict=False), start=1):
        where = event_difference(wanted, found)
        if where is not None:
            return f"event {number} of {len(expected)}: {_hint(expected, actual, number - 1)}{where}"
    if len(actual) < len(expected):
        return f"{len(actual)} events instead of {len(expected)}; missing: {_listed(expected[len(actual) :])}"
    if len(actual) > len(expected):
        return f"{len(actual)} events instead of {len(expected)}; more: {_listed(actual[len(expected) :])}"
    return None


def _hint(expected: list[Event], actual: list[Event], at: int) -> str:
    """Whether an event is missing or too many here, seen from what comes next."""
    if expected[at + 1 : at + 2] and event_difference(expected[at + 1], actual[at]) is None:
        return f"missing {expected[at]}; "
    if actual[at + 1 : at + 2] and event_difference(expected[at], actual[at + 1]) is None:
        return f"unexpected {actual[at]}; "
    return ""


def _listed(events: Sequence[Event], limit: int = 3) -> str:
    more = f" and {len(events) - limit} more" if len(events) > limit else ""
    return "; ".join(str(event) for event in events[:limit]) + more


def _reads_difference(expected: list[Event], actual: list[Event], *, spare: int) -> str | None:
    wanted, found = _counted(expected), _counted(actual)
    extra, missing = found - wanted, wanted - found
    if missing.total() <= spare and not extra:
        return None
    return _counted_difference(missing, extra, "READ")


def _timed_difference(expected: list[Event], actual: list[Event]) -> str | None:
    wanted = Counter(set(_counted(expected)))
    found = Counter(set(_counted(actual)))
    return _counted_difference(wanted - found, found - wanted, "event by timer")


def _counted(events: Iterable[Event]) -> Counter[str]:
    return Counter(_canonical(event) for event in events)


def _canonical(event: Event) -> str:
    """Text that two events share if and only if `event_difference` finds none."""
    documents = [_ordered(event.key), _ordered(event.value), [[k, _ordered(v)] for k, v in event.headers]]
    return json.dumps([event.topic, *documents], ensure_ascii=False)


def _ordered(document: Json) -> Json:
    """`document` with the fields of its payload in one order, its schema as it is."""
    if payload(document) is document:
        return _sorted_fields(document)
    return {"schema": document["schema"], "payload": _sorted_fields(document["payload"])}


def _sorted_fields(document: Json) -> Json:
    if isinstance(document, dict):
        return {name: _sorted_fields(document[name]) for name in sorted(document)}
    return [_sorted_fields(item) for item in document] if isinstance(document, list) else document


def _counted_difference(missing: Counter[str], extra: Counter[str], what: str) -> str | None:
    """Show the nearest pair: a missing event and one too many of the same key, if there are such."""
    for lost in missing:
        for found in extra:
            wanted, emitted = _restored(lost), _restored(found)
            if (wanted.topic, wanted.key_text) == (emitted.topic, emitted.key_text):
                where = event_difference(wanted, emitted)
                return f"{what} {wanted}: {where or 'emitted too often'}"
    if missing:
        return f"missing {what}, {missing.total()} in all: {_listed([_restored(text) for text in missing])}"
    if extra:
        return f"unexpected {what}, {extra.total()} in all: {_listed([_restored(text) for text in extra])}"
    return None


def _restored(text: str) -> Event:
    topic, key, value, headers = json.loads(text)
    return Event(topic, key, value, tuple((name, header) for name, header in headers))
