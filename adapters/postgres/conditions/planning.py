"""Has the server plan signals' conditions before anything is read under them, and refuses those that fail."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from engine.errors import SignalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.postgres.server.questions.questions import Questions
    from adapters.source.conditions.checking_time import CheckingTime
    from engine.model import CollectionId

_REMEMBERED = 1_000
_PLAN_ANSWER_S = 6.0
"""How long to wait for a condition's plan."""


class ConditionPlanning:
    """Plans on connections that `plan_on` opens, else on the one of `questions`.

    The argument of `plan_on` is how many seconds an answer may take. Conditions that take too long are
    remembered. `checking` limits how long all checks may take.
    """

    def __init__(
        self, questions: Questions, checking: CheckingTime, plan_on: Callable[[float], Questions] | None
    ) -> None:
        self._questions, self._plan_on, self._planner = questions, plan_on, questions
        self._too_long: set[bytes] = set()
        self._checking = checking

    def check(self, table: CollectionId, relation: str, condition: str) -> None:
        """Raise SignalError if the server can't plan reading the table under the condition."""
        digest = hashlib.sha256(condition.encode()).digest()
        if digest in self._too_long:
            raise _takes_too_long(table)
        with self._checking.of(table):
            try:
                refusal = self._connection().probes.refusal(relation, condition)
            except TimeoutError as error:
                if len(self._too_long) >= _REMEMBERED:
                    self._too_long.clear()
                self._too_long.add(digest)
                raise _takes_too_long(table) from error
        if refusal is not None:
            raise SignalError(
                f"the condition is refused: {refusal}",
                where=table,
                hint="EXPLAIN a SELECT with this condition says more",
            )

    def _connection(self) -> Questions:
        if self._plan_on is not None and (self._planner is self._questions or self._planner.closed):
            self._planner = self._plan_on(_PLAN_ANSWER_S)
        return self._planner

    def end(self) -> None:
        """Close the connection that was opened for it."""
        if self._planner is not self._questions:
            self._planner.close()
            self._planner = self._questions


def _takes_too_long(collection: CollectionId) -> SignalError:
    return SignalError(
        "the condition is refused: the server takes too long to plan it",
        where=collection,
        hint="leave out arithmetic of constants",
    )
