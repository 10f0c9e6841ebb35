"""How long a server has sent nothing, and when that is too long."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from adapters.postgres.server.answering import no_answer
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("adapters")


class ServerSilence:
    """How long the server of one connection has been silent: since `heard_s`.

    Too long is more than `longest_s`; 0 waits for ever.
    """

    def __init__(self, longest_s: float, now_s: float, give_up: Callable[[], None]) -> None:
        self._longest_s, self.heard_s, self._give_up = longest_s, now_s, give_up
        self._told = False

    def check(self, now_s: float) -> float:
        """How long it has lasted, in seconds. Raises SourceError if that is too long."""
        silent_s = now_s - self.heard_s
        if silent_s < self._longest_s / 2:
            self._told = False
        elif not self._told and self._longest_s:
            self._told = True
            _log.warning("%s; it is given up after %.0f s", no_answer(silent_s), self._longest_s)
        if 0 < self._longest_s < silent_s:
            self._give_up()
            raise SourceError(no_answer(silent_s), where="replication connection")
        return silent_s
