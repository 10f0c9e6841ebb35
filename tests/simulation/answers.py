"""The judge of signals: each is taken once and answered once, and liveness makes the answers come.

An answer is given after its turn was saved; after a crash the last answers may be given again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from signals.answers import Outcome
from tests.simulation.source import in_scope
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from engine.model import CollectionId, Scope
    from signals.answers import Answer
    from tests.simulation.database import Key

_FINAL = (Outcome.FINISHED, Outcome.STOPPED, Outcome.FAILED, Outcome.REJECTED)
_INITIAL = "initial"


@dataclass(slots=True)
class Asked:
    """A signal: what it asked for, where in the log, and its outcomes by collection ("": as a whole).

    `scope` are the rows of its only collection that it asked for; None: all.
    """

    kind: str
    collections: tuple[CollectionId, ...]
    at: int
    turn: int = 0
    scope: Scope | None = None
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)

    def lose(self) -> None:
        """It is in no log any more, so it need not be answered; but it may have been obeyed before."""
        self.kind = "lost"
        self.outcomes.setdefault("", [])


@dataclass(slots=True)
class Answers:
    """The signals of a history and their answers, by label.

    A server that was restored gives positions again, so that two signals may have one label. Their answers
    can't be told apart, and are not judged.
    """

    asked: dict[str, Asked] = field(default_factory=dict)
    pardons: int = 0
    given: int = 0
    failed: set[CollectionId] = field(default_factory=set)
    ambiguous: set[str] = field(default_factory=set)

    def ask(self, label: str, asked: Asked) -> None:
        """Note a signal that was sent."""
        if label in self.asked:
            self.ambiguous.add(label)
        self.asked[label] = asked

    def hear(self, answer: Answer) -> tuple[Asked, CollectionId] | None:
        """Take in an answer. Returns the request and the collection of one that says finished, new."""
        self.given += 1
        asked = self.asked.get(answer.label)
        if answer.label in self.ambiguous:
            return None
        if asked is None:
            raise Violation(f"an answer to no signal: {answer.label} {answer.outcome}")
        about = next(
            (
                collection
                for collection in asked.collections
                if answer.text.startswith((f"{collection} ", f"{collection}:"))
            ),
            None,
        )
        final = about is not None and asked.kind in {"execute", "lost", _INITIAL} and answer.outcome in _FINAL
        found = asked.outcomes.setdefault(str(about) if final else "", [])
        if found and (found[-1] is not answer.outcome or len(found) > self.pardons):
            raise Violation(
                f"signal at {answer.label} was answered {found[-1]} and then {answer.outcome}"
                f" about {about or 'all of it'} without a crash in between"
            )
        found.append(answer.outcome)
        if answer.outcome is Outcome.FAILED and about is not None:
            self.failed.add(about)
        if asked.kind == "lost":
            return None  # it is in no log any more
        if final and about is not None and answer.outcome is Outcome.FINISHED and len(found) == 1:
            return asked, about
        return None

    def ask_for(self, collection: CollectionId, key: Key) -> bool:
        """Whether any signal has asked for a row."""
        return any(
            collection in asked.collections and in_scope(asked.scope, key)
            for asked in self.asked.values()
            if asked.kind in {"execute", "lost", _INITIAL}
        )

    def snapshots_of(self, collection: CollectionId) -> int:
        """How many snapshots of a collection may be in progress."""
        return sum(
            asked.kind in {"execute", "lost", _INITIAL}
            and collection in asked.collections
            and str(collection) not in asked.outcomes
            and Outcome.REJECTED not in asked.outcomes.get("", ())
            for asked in self.asked.values()
        )

    def waiting(self) -> list[str]:
        """What has no answer yet."""
        found = []
        for label, asked in self.asked.items():
            if label in self.ambiguous:
                continue
            if asked.kind == _INITIAL:
                wanted = [str(collection) for collection in asked.collections]
            elif asked.kind == "execute" and Outcome.REJECTED not in asked.outcomes.get("", ()):
                wanted = ["", *map(str, asked.collections)]
            else:
                wanted = [""]
            found += [
                f"signal at {label} about {collection or 'all'}"
                for collection in wanted
                if collection not in asked.outcomes
            ]
        return found
