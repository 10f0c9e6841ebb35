"""What incremental snapshots add to a comparison: windows left out, and the order of READs.

How many windows there are, and the rows that open and close them, are each engine's own business.
That no READ follows a newer change of its key is everybody's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.golden.event import Event, Json, payload
from tests.golden.values import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

_WINDOW_KEY = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-(?:open|close)")
_UNAVAILABLE = (
    "__debezium_unavailable_value",
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ",  # the same in base64
    "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565",  # and in hex
)
"""What a change carries for a large value that the log did not repeat."""


def without_windows(events: Iterable[Event]) -> list[Event]:
    """The events less the rows that open and close windows, and the transactions of those alone."""
    events = list(events)
    windows = [event for event in events if _is_window_row(event)]
    ids = {event.body["transaction"]["id"] for event in windows if event.body and event.body["transaction"]}
    transactions = {_transaction_number(text) for text in ids}
    return [
        event
        for event in events
        if not _is_window_row(event) and _transaction_number(_metadata_id(event)) not in transactions
    ]


def _is_window_row(event: Event) -> bool:
    key = payload(event.key)
    return isinstance(key, dict) and any(
        isinstance(value, str) and _WINDOW_KEY.fullmatch(value.strip('"')) for value in key.values()
    )


def _metadata_id(event: Event) -> str:
    """The id of an event of the transaction topic; empty for any other event."""
    return str(event.body["id"]) if isinstance(event.body, dict) and "status" in event.body else ""


def _transaction_number(transaction_id: str) -> str:
    return transaction_id.partition(":")[0]


def stale_read(events: Iterable[Event]) -> str | None:
    """The first READ that does not agree with the newest change of its key streamed before it."""
    newest: dict[tuple[str, str], Json] = {}
    for event in events:
        if not isinstance(event.body, dict) or "source" not in event.body:
            continue
        key = (event.topic, event.key_text)
        if event.op == "t":
            newest |= {known: None for known in newest if known[0] == event.topic}
        elif event.op != "r":
            newest[key] = event.body.get("after")
        elif event.key is not None and key in newest and not _agrees(event.body["after"], newest[key]):
            return f"{event} follows a newer change of its key"
    return None


def _agrees(read: Json, change: Json) -> bool:
    if change is None:
        return False
    if isinstance(read, str):  # a whole document as text
        return bool(read == change)
    shared = read.keys() & change.keys()
    return all(shown(read[name]) == shown(change[name]) or _unavailable(change[name]) for name in shared)


def _unavailable(value: Json) -> bool:
    text = shown(value)
    return any(placeholder in text for placeholder in _UNAVAILABLE)
