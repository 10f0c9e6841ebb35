"""How a history ends early: an invariant was violated, or a process was killed."""

from __future__ import annotations

import traceback
from pathlib import Path


class Violation(BaseException):
    """An invariant was violated: never caught by the code under test, so that a history ends where it was."""

    @property
    def invariant(self) -> str:
        """What was violated, the same for all histories: the line that found it, and the error's type."""
        *_, raised = traceback.extract_tb(self.__traceback__)
        return f"{Path(raised.filename).name}:{raised.lineno} {type(self.__cause__).__name__}"


class Killed(BaseException):
    """The process was killed here: never caught by the code under test either."""
