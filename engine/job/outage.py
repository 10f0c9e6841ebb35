"""Logs what a retrying job waits for: each reason once, and the end."""

from __future__ import annotations

import logging
from dataclasses import dataclass

_log = logging.getLogger("engine")


@dataclass(slots=True)
class Outage:
    """The failures in a row. Times are those of a clock that never goes back."""

    _told: str = ""
    _since_s: float = 0.0
    _attempts: int = 0

    def note_failure(self, error: Exception, pause_s: float, now_s: float) -> None:
        """Note a failure after which the job waits. Told if the reason is another one than before."""
        if not self._attempts:
            self._since_s = now_s
        self._attempts += 1
        level = logging.DEBUG if str(error) == self._told else logging.WARNING
        self._told = str(error)
        _log.log(level, "%s; trying again in %.1f s, and until it passes", error, pause_s)

    def note_progress(self, now_s: float) -> None:
        """Note that the job got further."""
        if self._attempts:
            _log.info("continues after %.0f s and %d attempts", now_s - self._since_s, self._attempts)
            self._told, self._attempts = "", 0
