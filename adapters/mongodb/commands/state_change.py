"""Changes a saved state on request: to another position in the change stream."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.mongodb.log.position import checked
from engine.errors import ConfigError
from engine.model import Position

if TYPE_CHECKING:
    from engine.config.settings import Settings
    from engine.job.saved.state import State


def at_position(settings: Settings, state: State, text: str) -> State:  # noqa: ARG001  as all sources
    """The state behind the event whose resume token the text gives. Raises ConfigError for another text."""
    try:
        position = checked(Position((text, "", 0)))
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{text!r} is no resume token", hint="give the _data of an event's _id, in hexadecimal digits"
        ) from error
    memory = {name: value for name, value in state.memory.items() if name not in {"transaction", "event"}}
    return replace(state, position=position, memory=memory)
