"""What has become of one signal, judged by its answers as the journal keeps them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from signals.answers import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENDS: Final = frozenset(
    {Outcome.REJECTED, Outcome.PLANNED, Outcome.FINISHED, Outcome.STOPPED, Outcome.FAILED}
)
"""After these nothing more is said about a collection."""
_BAD: Final = frozenset({Outcome.REJECTED, Outcome.FAILED, Outcome.STOPPED})


@dataclass(frozen=True, slots=True)
class Fate:
    """What is known of a signal: how many collections it named, and what became of those that ended.

    `collections` is None until the signal was accepted. A signal that reads nothing has ended then.
    """

    collections: int | None = None
    refused: bool = False
    ended: Mapping[str, Outcome] = field(default_factory=dict)

    def after(self, answer: Mapping[str, Any]) -> Fate:
        """What is known after one more of its answers."""
        outcome, collection = Outcome(answer["outcome"]), answer.get("collection")
        if collection is not None:
            return replace(self, ended={**self.ended, collection: outcome}) if outcome in _ENDS else self
        if outcome is Outcome.ACCEPTED:
            return replace(self, collections=int((answer.get("facts") or {}).get("collections", 0)))
        return replace(self, refused=self.refused or outcome is Outcome.REJECTED)

    @property
    def known(self) -> bool:
        """Whether nothing more will be said."""
        return self.refused or (self.collections is not None and len(self.ended) >= self.collections)

    @property
    def good(self) -> bool:
        """Whether all was done that the signal asked for."""
        return self.known and not self.refused and not _BAD & set(self.ended.values())
