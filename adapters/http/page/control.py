"""What the page's forms ask for, as signals: they go through the job's own desk, which answers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from signals.answers import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.http.monitor import Monitor
    from engine.model import CollectionId

_KINDS: Final = ("execute", "stop", "pause", "resume")
_ANSWERED_WITHIN_S: Final = 10.0
_WAITED_FOR: Final = frozenset({Outcome.ACCEPTED, Outcome.REJECTED})


@dataclass(frozen=True, slots=True)
class SentSignal:
    """What became of a form. `label` is its signal's, empty if none was sent; `taken`: it was not refused."""

    label: str
    taken: bool
    text: str


def literal(collection: CollectionId) -> str:
    """An item of `data-collections` that names just this collection, whatever signs its name has."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in collection.parts)


def send(monitor: Monitor, form: Mapping[str, str]) -> SentSignal:
    """Send the signal that a form asks for, and wait for its answer for a few seconds.

    `type` is what to do, `collections` are items of `data-collections` separated by commas, `exact` is a
    single one, and `blocking` is set for a blocking snapshot.
    """
    channel, kind = monitor.channel, form.get("type", "")
    if channel is None or kind not in _KINDS:
        return SentSignal(
            "", taken=False, text=f"there is no signal of this type; known: {', '.join(_KINDS)}"
        )
    label = channel.send(signal_of(kind, form))
    if label is None:
        return SentSignal("", taken=False, text="the job takes no signals yet, or too many wait; try again")
    monitor.await_answer(label, _ANSWERED_WITHIN_S)
    answers = [told.answer for told in monitor.answers_to(label)]
    first = next((answer for answer in answers if answer.outcome in _WAITED_FOR), None)
    if first is None:
        return SentSignal(label, taken=True, text="the signal is sent; its answer is not there yet")
    return SentSignal(label, first.outcome is not Outcome.REJECTED, f"{first.outcome}: {first.text}")


def signal_of(kind: str, form: Mapping[str, str]) -> bytes:
    """The signal as JSON, as it would stand in a Kafka record."""
    exact = form.get("exact", "")
    named = [exact] if exact else [item.strip() for item in form.get("collections", "").split(",")]
    items = [item for item in named if item]
    data: dict[str, object] = {}
    if kind in {"execute", "stop"}:
        data["type"] = "blocking" if form.get("blocking") else "incremental"
    if items or kind == "execute":
        data["data-collections"] = items
    return orjson.dumps({"id": "page", "type": f"{kind}-snapshot", "data": data})
