"""Verifications against tables that somebody else keeps: who keeps them, and what is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from tests.meanwhile import meanwhile

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from signals.answers import Answer

LAG_S: Final = 0.3
"""How often somebody brings rows to the table."""
SETTLE_MS: Final = 3000
KINDS: Final = ("equal", "missing", "different", "extra")
_ENDS: Final = frozenset({"finished", "failed", "rejected"})


class Answering(Protocol):
    """A job turned by hand, and what it has answered."""

    answers: list[Answer]

    def until(self, condition: Callable[[], Any]) -> None:
        """Turn until the condition holds."""


def last_answer(job: Answering, id_: str) -> Answer:
    """The last answer to a signal that was sent; the job is turned until it is there."""

    def ended() -> list[Answer]:
        return [answer for answer in job.answers if answer.id == id_ and answer.outcome in _ENDS]

    job.until(lambda: bool(ended()))
    return ended()[0]


def kept(keep: Callable[[], None]) -> AbstractContextManager[None]:
    """Somebody who brings rows to the table, now and then."""

    def go_on(stop: threading.Event) -> None:
        while not stop.wait(LAG_S):
            keep()

    return meanwhile(go_on)


def counts(answer: Answer) -> dict[str, int]:
    """The numbers of rows of an answer."""
    return {kind: answer.facts[kind] for kind in KINDS}
