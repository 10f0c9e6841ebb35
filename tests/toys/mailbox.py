"""A signal channel and actions that another package could bring.

The channel takes letters from a box in memory, by `signal.enabled.channels=mailbox`. The actions are two
signal types: one answers, one becomes a built-in signal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.config.plugins import ChannelType
from engine.config.properties.row import APPLIED, Property
from engine.config.properties.shapes import TEXT
from engine.errors import SignalError
from engine.model import Channel
from engine.saved import read_integer
from signals.actions import ReceivedSignal, SignalAction
from signals.channels import Inbox
from signals.model import Message
from signals.request import SignalRequest, SignalType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.config.properties.values import Values

BOXES: dict[str, list[bytes]] = {}


class Mailbox:
    """A `SignalChannel` over a list of letters."""

    def __init__(self, name: str, prefix: str) -> None:
        self._letters, self._prefix = BOXES.setdefault(name, []), prefix
        self._inbox = Inbox(0)

    def resume(self, saved: Mapping[str, Any]) -> None:
        self._inbox.resume(read_integer(saved["read"]) if saved else 0, is_new=not saved)

    def memory(self) -> Mapping[str, Any]:
        return {"read": self._inbox.saved()}

    def pending(self) -> bool:
        return self._filled().pending

    def receive(self) -> Sequence[Message]:
        return self._filled().take()

    def close(self) -> None: ...

    def _filled(self) -> Inbox[int]:
        for number in range(self._inbox.position, len(self._letters)):
            label = f"mailbox-{self._prefix}@{number}"
            self._inbox.add(Message(Channel.CUSTOM, label, self._letters[number]))
            self._inbox.position = number + 1
        return self._inbox


def read(values: Values) -> str:
    return values.get("mailbox.name", str)


CHANNEL = ChannelType((Property("mailbox.name", APPLIED, "the box", TEXT, required=True),), read, Mailbox)


def ring(signal: ReceivedSignal) -> str:
    times = signal.data.get("times", 1)
    if not isinstance(times, int):
        raise SignalError("'times' must be a whole number")
    if times > 3:
        raise RuntimeError("the bell is broken")
    return "ding " * times + f"for {signal.id} by {signal.channel}"


def everything(_signal: ReceivedSignal) -> SignalRequest:
    return SignalRequest("", SignalType.EXECUTE, {"data-collections": [".*"]})


RING, EVERYTHING = SignalAction(ring), SignalAction(everything)
