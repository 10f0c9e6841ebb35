"""Signal types of other packages, each with an action.

They are entry points of the group `tidemark.signal.actions`. The name is the signal's type, the object a
`SignalAction`. The desk runs an action in the turn that takes its signal, and answers with what it returns.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from engine.config.plugins import find, registered
from engine.errors import ConfigError, SignalError
from engine.model import LogMessage
from signals.parse.budget import MAX_SCOPED
from signals.parse.commands import BUILT_IN, AcceptedSignal, check_id, parse
from signals.parse.fields import object_of
from signals.request import SignalRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from signals.model import Signal
    from signals.parse.names import KnownNames

_log = logging.getLogger("signals")
ACTIONS: Final = "tidemark.signal.actions"


@dataclass(frozen=True, slots=True)
class ReceivedSignal:
    """A signal of a custom type. `label` is its position in its channel, `id` the sender's name for it.

    `data` is its JSON object, `channel` where it came from, `position` how far the stream was.
    """

    label: str
    id: str | None
    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    channel: str = "source"
    position: str | None = None


@dataclass(frozen=True, slots=True)
class SignalAction:
    """What a custom signal does. `run` returns the text of the answer, or a built-in signal to obey instead.

    It runs in the job's thread, so the stream waits for it. It is called again if the turn that took the
    signal has to be repeated. A SignalError that it raises is the answer. Of other errors, the name is.
    """

    run: Callable[[ReceivedSignal], str | SignalRequest]


def registered_actions() -> dict[str, SignalAction]:
    """The actions of other packages, by signal type. Raises ConfigError if one can't be loaded."""
    found: dict[str, SignalAction] = {}
    for name in registered(ACTIONS):
        if name in BUILT_IN:
            raise ConfigError(
                f"an entry point of the group {ACTIONS} is named as the built-in signal {name!r}"
            )
        action = find(ACTIONS, name, SignalAction)
        found |= {} if action is None else {name: action}
    return found


def run_action(action: SignalAction, signal: Signal, known: KnownNames) -> AcceptedSignal:
    """Run an action. Raises SignalError, whose message is the answer."""
    check_id(signal)
    type_ = (signal.type or "").strip()
    data = object_of(signal.data, MAX_SCOPED) if signal.data and signal.data.strip() else {}
    received = ReceivedSignal(signal.label, signal.id, type_, data, signal.channel, signal.position)
    try:
        result = action.run(received)
    except SignalError:
        raise
    except Exception as error:
        _log.debug("the action of the signal at %s failed", signal.label, exc_info=error)
        raise SignalError(f"the action of {type_!r} failed ({type(error).__name__})") from error
    if isinstance(result, SignalRequest):
        row = result.row
        return parse(replace(signal, type=row.type, data=row.data), known)
    if not isinstance(result, str):
        raise SignalError(f"the action of {type_!r} returned neither a text nor a signal")
    return AcceptedSignal(LogMessage(signal.label, result))
