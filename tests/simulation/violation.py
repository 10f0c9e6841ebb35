"""How a history ends early: an invariant was violated, or a process was killed."""

from __future__ import annotations


class Violation(BaseException):
    """An invariant was violated: never caught by the code under test, so that a history ends where it was."""


class Killed(BaseException):
    """The process was killed here: never caught by the code under test either."""
