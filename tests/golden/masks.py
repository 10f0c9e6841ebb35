"""What varies from run to run, replaced so that the rest can be compared exactly.

A mask keeps the shape: a null stays a null, text stays text, and a value of the wrong kind stays
as it is, so that it is found. Values that the case's own SQL takes from the clock are known by
being near the time of their run, on either side.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.golden.case import Source
from tests.golden.event import Event, Json, payload
from tests.golden.mongo_masks import MongoMasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.golden.case import Case

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WINDOW_ID = re.compile(rf"{_UUID.pattern}(-open|-close)")
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)?")
_DIGIT = re.compile(r"\d")
_DIGITS = re.compile(r"\d+")
_NO_UUID = "00000000-0000-0000-0000-000000000000"
_SLACK_MS = 600_000
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Masks:
    """The masks of one run of a case.

    `clock` is the run's time in ms, from and to, where the case's SQL reads the clock; `literal`
    is that SQL, whose own uuids are compared, where it makes others.
    """

    clock: tuple[int, int] | None = None
    literal: str | None = None

    def apply(self, event: Event) -> Event:
        """The event with everything that varies replaced."""
        body = event.body
        if not isinstance(body, dict):
            return dataclasses.replace(event, key=_in_payload(event.key, _mask_window_id))
        if _is_transaction(body):
            masked = {**body, "id": _mask_digits(body["id"]), "ts_ms": _mask_number(body["ts_ms"])}
            return _with(event, masked, key=_in_payload(event.key, _mask_digits))
        if body.keys() == {"ts_ms"}:  # a heartbeat
            return _with(event, {"ts_ms": _mask_number(body["ts_ms"])}, key=event.key)
        return _with(event, self._envelope(body), key=_in_payload(event.key, _mask_window_id))

    def _envelope(self, body: dict[str, Json]) -> dict[str, Json]:
        masked = dict(body)
        for name in ("before", "after"):
            if name in body:
                masked[name] = _deep(body[name], self._row_value)
        if isinstance(body.get("source"), dict):
            masked["source"] = _mask_source(body["source"])
        if isinstance(body.get("transaction"), dict):
            transaction = body["transaction"]
            masked["transaction"] = {**transaction, "id": _mask_digits(transaction.get("id"))}
        if "ts_ms" in body:
            masked["ts_ms"] = _mask_number(body["ts_ms"])
        return masked

    def _row_value(self, value: Json) -> Json:
        if self.clock is not None and _near(value, *self.clock):
            return _DIGIT.sub("9", value) if isinstance(value, str) else f"<clock, {len(str(value))} digits>"
        if self.literal is not None and _is_made_uuid(value, self.literal):
            return "<uuid>"
        return _mask_window_id(value)


def masks_of(case: Case, events: Iterable[Event]) -> Masks | MongoMasks:
    """The masks for one side's events of a case; each side has a clock of its own."""
    if case.source is Source.MONGODB:
        return MongoMasks(case.initial)
    times = [
        event.body["ts_ms"] for event in events if isinstance(event.body, dict) and "ts_ms" in event.body
    ]
    times = [time for time in times if isinstance(time, int)]
    clock = (min(times) - _SLACK_MS, max(times) + _SLACK_MS) if case.reads_clock and times else None
    return Masks(clock, case.sql if case.makes_uuids else None)


def _is_transaction(body: dict[str, Json]) -> bool:
    return {"status", "id", "event_count", "data_collections", "ts_ms"} == body.keys()


def _with(event: Event, body: Json, key: Json) -> Event:
    has_schema = payload(event.value) is not event.value
    value = {**event.value, "payload": body} if has_schema else body
    return dataclasses.replace(event, key=key, value=value)


def _mask_source(source: dict[str, Json]) -> dict[str, Json]:
    masked = dict(source)
    for name in ("ts_ms", "lsn", "txId", "xmin"):
        if name in source:
            masked[name] = _mask_number(source[name])
    if isinstance(source.get("version"), str):
        masked["version"] = "<version>"
    if "sequence" in source:
        masked["sequence"] = _mask_digits(source["sequence"])
    return masked


def _mask_number(value: Json) -> Json:
    return "<number>" if isinstance(value, int) and not isinstance(value, bool) else value


def _mask_digits(value: Json) -> Json:
    return _DIGITS.sub("9", value) if isinstance(value, str) else value


def _mask_window_id(value: Json) -> Json:
    return _WINDOW_ID.sub(r"<window>\1", value) if isinstance(value, str) else value


def _is_made_uuid(value: Json, literal: str) -> bool:
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        return False
    return value != _NO_UUID and value not in literal.lower()


def _near(value: Json, start_ms: int, end_ms: int) -> bool:
    """Whether a value is a time between two others, in any of the forms that events give a time."""
    if isinstance(value, str):
        found = _TIMESTAMP.fullmatch(value)
        return found is not None and start_ms <= _text_ms(found[1], found[2]) <= end_ms
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return start_ms // _DAY_MS <= value <= end_ms // _DAY_MS or any(
        start_ms <= value // unit <= end_ms for unit in (1, 1_000, 1_000_000)
    )


def _text_ms(date: str, time: str) -> int:
    try:
        return int(datetime.fromisoformat(f"{date}T{time}").replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return 0


def _in_payload(document: Json, change: Callable[[Json], Json]) -> Json:
    """`document` with `change` applied throughout its payload, its schema left as it is."""
    if payload(document) is document:
        return _deep(document, change)
    return {**document, "payload": _deep(document["payload"], change)}


def _deep(document: Json, change: Callable[[Json], Json]) -> Json:
    """`document` with `change` applied to everything in it that is neither object nor list."""
    if isinstance(document, dict):
        return {name: _deep(value, change) for name, value in document.items()}
    if isinstance(document, list):
        return [_deep(item, change) for item in document]
    return change(document)
