"""Tells whether a refused login has expired or has never worked.

While credentials change, neither the old nor the new one may work, and a server that has just taken over may
not know its users yet. Both problems pass. A login that has never worked in this process, or that can't
change, is a wrong setting.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from engine.errors import ConfigError, LoginRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

_ADMITTED: Final[set[tuple[str, ...]]] = set()
"""The servers that this process has logged in to, each with the user."""


@contextmanager
def admission(server: tuple[str, ...], *, renewable: bool = True) -> Iterator[None]:
    """Log in inside. Raises ConfigError instead of LoginRefused if the login has never worked.

    It does so, too, if the login is not `renewable`: the same credentials will be refused again.
    """
    try:
        yield
    except LoginRefused as error:
        if renewable and server in _ADMITTED:
            raise
        where = f"{error.where}: " if error.where else ""
        raise ConfigError(f"{where}{error.message}", hint=error.hint) from error
    _ADMITTED.add(server)
