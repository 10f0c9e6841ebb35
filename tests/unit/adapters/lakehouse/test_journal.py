"""The journal of turns that wait to be merged, used by two threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from adapters.lakehouse.journal import Journal
from adapters.staging.turn_parts import ArrowParts
from tests.typed_batches import change, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Interrupted(list[Any]):
    """A list that lets another thread act just before its first element is taken."""

    def __init__(self, content: list[Any], act: Callable[[], None]) -> None:
        super().__init__(content)
        self._other: threading.Thread | None = threading.Thread(target=act)
        self.others = [self._other]

    def __iter__(self) -> Iterator[Any]:
        taken = list(super().__iter__())
        if self._other is not None:
            other, self._other = self._other, None
            other.start()
            other.join(0.2)  # it may have to wait for us
        return iter(taken)


def commit(journal: Journal, turn: int) -> None:
    attempt = journal.begin(turn)
    journal.commit(attempt, turn, [ArrowParts(attempt).write(0, [typed(change("c", turn))])], ())


@pytest.mark.parametrize("during", ["merge", "commit"])
def test_a_turn_committed_while_a_group_is_finished_waits_and_no_other(tmp_path: Path, during: str):
    journal = Journal(tmp_path, 1)
    commit(journal, 1)
    upto = journal.group(1 << 20)
    assert upto == 1
    steps: list[Callable[[], None]] = [lambda: commit(journal, 2), lambda: journal.finish(upto)]
    first, second = steps if during == "commit" else reversed(steps)
    waiting = Interrupted([*journal.waiting()], second)
    journal._waiting = waiting
    first()
    for other in waiting.others:
        other.join()

    assert [one.turn for one in journal.waiting()] == [2]
    assert journal.group(1 << 20) == 2
    assert [one.turn for one in journal.batches(2)] == [2]
