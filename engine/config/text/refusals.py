"""How often servers have refused this process's credentials.

Whoever sees a refusal notes it. What keeps something that was made with credentials asks for the number, and
makes it again once that has grown: the output of a program that prints a password, a client that logs in by
itself.
"""

from __future__ import annotations

_refusals = 0


def note_refusal() -> None:
    """Note that credentials were refused."""
    global _refusals  # noqa: PLW0603  it is this process's
    _refusals += 1


def refusal_count() -> int:
    """How often credentials were refused. Whatever was made at a lower number may hold refused ones."""
    return _refusals
