"""Whether a login that is refused has expired, or never served.

Between two credentials neither may serve, and a server that has just taken over may not know its users yet:
both pass. A login that has never let this process in is a mistake in the settings.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from engine.errors import ConfigError, LoginRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

_ADMITTED: Final[set[tuple[str, ...]]] = set()
"""The servers that have let this process in, each with the user."""


@contextmanager
def admission(server: tuple[str, ...]) -> Iterator[None]:
    """Where this process logs in. Raises ConfigError in the place of LoginRefused if it never was let in."""
    try:
        yield
    except LoginRefused as error:
        if server in _ADMITTED:
            raise
        where = f"{error.place}: " if error.place else ""
        raise ConfigError(f"{where}{error.message}", hint=error.hint) from error
    _ADMITTED.add(server)
