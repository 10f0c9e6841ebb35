"""How long servers may take to check what signals ask for: conditions, and keys of rows.

The stream waits meanwhile, and a signal costs its sender nothing. Each check has a limit of its own; this one
is for all of them, however many signals there are.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from engine.errors import TableBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.model import CollectionId

_AT_ONCE_S: Final = 10.0
"""The most that is saved up."""
_SHARE: Final = 0.1
"""The part of all time that checks may take."""


class CheckingTime:
    """A tenth of the time that passes, of which ten seconds at most are saved up.

    A check may take more than what is left. The next ones wait until that is made up for.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._left_s, self._at_s = _AT_ONCE_S, monotonic()

    @contextmanager
    def of(self, collection: CollectionId) -> Iterator[None]:
        """Check something for a collection inside. Raises TableBusy if there is no time left."""
        self._save_up()
        if self._left_s <= 0:
            raise TableBusy("checking what other signals ask for has taken its time", where=collection)
        try:
            yield
        finally:
            self._left_s -= self._monotonic() - self._at_s
            self._at_s = self._monotonic()

    def _save_up(self) -> None:
        now_s = self._monotonic()
        self._left_s = min(_AT_ONCE_S, self._left_s + _SHARE * (now_s - self._at_s))
        self._at_s = now_s
