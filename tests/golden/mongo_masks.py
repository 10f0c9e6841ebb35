"""What varies between two runs of a MongoDB case, replaced so that the rest can be compared exactly.

Cluster times, session ids, transaction ids. Equal transactions get equal names, so that it is still
seen which events are of one. The JSON inside `before` and `after` is compared as text, as it is.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.golden.event import Event, Json, payload

if TYPE_CHECKING:
    from collections.abc import Callable

_BASE64 = re.compile(r'("\$binary": ")[A-Za-z0-9+/=]+"')
_WINDOW_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(-open|-close)")


@dataclass(slots=True)
class MongoMasks:
    """The masks of one run; `apply` to its events in order. `initial` where it begins with a snapshot."""

    initial: bool
    transactions: dict[str, str] = field(default_factory=dict)

    def apply(self, event: Event) -> Event:
        """The event with everything that varies replaced."""
        key = _replaced(event.key, self._name)
        body = event.body
        if not isinstance(body, dict):
            return dataclasses.replace(event, key=key)
        if "source" in body:
            body = {**body, **self._envelope(body)}
        elif "status" in body:
            body = {**body, "id": self._name(body["id"])}
        body["ts_ms"] = _number(body.get("ts_ms"))
        has_schema = payload(event.value) is not event.value
        return dataclasses.replace(
            event, key=key, value={**event.value, "payload": body} if has_schema else body
        )

    def _envelope(self, body: dict[str, Json]) -> dict[str, Json]:
        source = dict(body["source"])
        for name in ("ts_ms", "ord", "txnNumber"):
            source[name] = _number(source.get(name))
        source["version"] = "<version>" if isinstance(source.get("version"), str) else source.get("version")
        if isinstance(source.get("lsid"), str):
            source["lsid"] = _BASE64.sub(r'\1…"', source["lsid"])
        if self.initial and source.get("snapshot") == "last":
            source["snapshot"] = "true"
        masked: dict[str, Json] = {"source": source}
        for name in ("before", "after"):
            if isinstance(body.get(name), str):
                masked[name] = _WINDOW_ID.sub(r"<window>\1", body[name])
        if isinstance(body.get("transaction"), dict):
            masked["transaction"] = {**body["transaction"], "id": self._name(body["transaction"]["id"])}
        return masked

    def _name(self, text: str) -> str:
        """A transaction's id by a name of its own; other ids as they are, less a window's."""
        if text.startswith('{"id": {"$binary"'):
            return self.transactions.setdefault(text, f"<transaction {len(self.transactions) + 1}>")
        return _WINDOW_ID.sub(r"<window>\1", text)


def _replaced(key: Json, change: Callable[[str], str]) -> Json:
    if payload(key) is not key:
        return {**key, "payload": _replaced(key["payload"], change)}
    if not isinstance(key, dict) or not isinstance(key.get("id"), str):
        return key
    return {**key, "id": change(key["id"])}


def _number(value: Json) -> Json:
    return "<number>" if isinstance(value, int) and not isinstance(value, bool) else value
