"""Compares the spelling of databases' names in the settings, on the server, and in a saved state. Pure.

A server takes a name in any letter case, unless its own collation is case-sensitive. But topics, events and
positions have a name as the settings spell it. So a new job must spell it as the server does, and one that
has begun must keep its spelling.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from adapters.sqlserver.saved import saved_names
from engine.errors import ConfigError, StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.job.saved.state import State

_NAMES = "'database.names'"


def check_spellings(
    real: Mapping[str, str], state: State, is_same: Callable[[str, str], bool]
) -> dict[str, str]:
    """What to warn of, by database. `real` has the server's spelling of each database of the settings.

    `is_same` tells whether a database of the state can be one of the settings. Raises ConfigError where two
    names are one database, or where a name that the state does not have differs from the server's. Raises
    StateError where the state has a database in another spelling: its position would be passed over.
    """
    _check_single(real)
    saved = _begun(state, list(real))
    for name, spelled in real.items():
        if name in saved:
            continue
        for other in saved:
            if other not in real and other.casefold() == name.casefold() and is_same(other, name):
                raise StateError(
                    f"the saved state has database {name!r} of {_NAMES} as {other!r}",
                    hint=f"write {other} in database.names, or set tidemark.checkpoint to an empty directory"
                    " to start over",
                )
        if name != spelled:
            raise ConfigError(
                f"the server spells database {name!r} as {spelled!r}",
                hint=f"write {spelled} in database.names",
            )
    return {
        name: f"the server spells database {name!r} as {spelled!r}; topics and the saved state keep {name!r}"
        for name, spelled in real.items()
        if name != spelled
    }


def _check_single(real: Mapping[str, str]) -> None:
    for spelled, count in Counter(real.values()).items():
        if count > 1:
            names = " and ".join(repr(name) for name, other in real.items() if other == spelled)
            raise ConfigError(
                f"{names} in {_NAMES} are one database", hint=f"write only one of them: {spelled}"
            )


def _begun(state: State, names: Sequence[str]) -> Sequence[str]:
    """The databases that the job has begun: those of the settings where an older state does not say."""
    if state.position is None and not state.awaits_log:
        return ()
    return saved_names(state.memory) or names
