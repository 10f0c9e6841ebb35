"""Changes a saved state on request: to another position in the change tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.sqlserver.saved import saved_names
from adapters.sqlserver.server.position import parse_position, position_of
from engine.errors import ConfigError

if TYPE_CHECKING:
    from engine.config.settings import Settings
    from engine.job.saved.state import State


def at_position(settings: Settings, state: State, text: str) -> State:  # noqa: ARG001  as all sources
    """The state behind the commits that the text gives, one per database, with commas between.

    Raises ConfigError for another text.
    """
    names = saved_names(state.memory)
    try:
        positions = [parse_position(part.strip().lower()) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is no LSN", hint="write it as 00000025:00000d98:00a2, one per database"
        ) from error
    if len(positions) != len(names):
        raise ConfigError(
            f"there are {len(names)} databases, and {len(positions)} positions",
            hint=f"give one for each of {names}",
        )
    # The position is one of the server as it is now, whatever fork was streamed before.
    databases = {
        name: {kept: value for kept, value in saved.items() if kept != "fork"}
        for name, saved in state.memory.get("databases", {}).items()
    }
    memory = {**state.memory, "transactions": {}, "databases": databases}
    return replace(state, position=position_of(positions), memory=memory)
