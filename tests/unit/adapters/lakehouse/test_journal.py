"""The journal of turns that wait to be merged, used by two threads."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

from adapters.lakehouse.journal import Journal
from adapters.sinks import files
from adapters.staging.turn_parts import ArrowParts
from engine.errors import LeaseLost, SinkError, StateError
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

    assert [waiting.turn for waiting in journal.waiting()] == [2]
    assert journal.group(1 << 20) == 2
    assert [batch.turn for batch in journal.batches(2)] == [2]


def test_a_turn_whose_commit_fails_once_it_has_its_name_waits_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    journal = Journal(tmp_path, 1)
    commit(journal, 1)

    def failing(path: Path) -> None:
        if path == tmp_path:
            raise SinkError("Input/output error", where=str(path))

    with monkeypatch.context() as patched:
        patched.setattr(files, "force", failing)
        with pytest.raises(SinkError, match="Input/output"):
            commit(journal, 2)
    assert journal.resolve_commit(2)
    assert journal.resolve_commit(2)
    commit(journal, 3)

    assert [waiting.turn for waiting in journal.waiting()] == [1, 2, 3]
    assert [*journal.waiting()] == [*Journal(tmp_path, 2).waiting()]
    assert journal.group(1 << 20) == 3
    assert [batch.turn for batch in journal.batches(3)] == [1, 2, 3]


def test_a_turn_that_is_merged_and_can_t_be_removed_does_not_wait_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def failing(path: Path, *, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise OSError(path)

    monkeypatch.setattr(shutil, "rmtree", failing)
    journal = Journal(tmp_path, 1)
    commit(journal, 1)
    journal.finish(1)
    commit(journal, 2)

    again = Journal(tmp_path, 2)
    assert again.resolve_commit(1)
    assert [waiting.turn for waiting in again.waiting()] == [2]


def test_a_job_that_was_replaced_while_it_merged_notes_nothing_any_more(tmp_path: Path):
    old = Journal(tmp_path, 1)
    commit(old, 1)
    upto = old.group(1 << 20)
    assert upto == 1
    new = Journal(tmp_path, 2)
    new.finish(upto)
    commit(new, 2)
    new.finish(2)
    new.note_tables({"t": "new"})

    with pytest.raises(LeaseLost):
        old.finish(upto)
    with pytest.raises(LeaseLost):
        old.note_tables({"t": "old"})
    assert Journal(tmp_path, 3).merged == 2
    assert Journal(tmp_path, 3).tables == {"t": "new"}


@pytest.mark.parametrize(("name", "found"), [("merged", b"4x"), ("tables", b"{"), ("group-0", b"")])
def test_a_damaged_note_is_told_with_its_place(tmp_path: Path, name: str, found: bytes):
    commit(Journal(tmp_path, 1), 1)
    (tmp_path / ".merge" / name).write_bytes(found)

    with pytest.raises(StateError, match=f"{name}: it is damaged"):
        _ = (journal := Journal(tmp_path, 2)).tables, journal.group(1 << 20)


@pytest.mark.parametrize("damage", ["flipped", "cut", "missing", "contents"])
def test_a_turn_that_was_damaged_while_it_waited_is_not_merged(tmp_path: Path, damage: str):
    commit(Journal(tmp_path, 1), 1)
    (part,) = tmp_path.glob("turn-*/part-*")
    content = bytearray(part.read_bytes())
    place = content.index(b"tm.public.t")
    if damage == "flipped":
        content[place + 10] ^= 1
        part.write_bytes(content)
    elif damage == "cut":
        part.write_bytes(content[:-8])
    elif damage == "missing":
        part.unlink()
    else:
        (part.parent / "contents").write_bytes(b"{")
    journal = Journal(tmp_path, 2)
    upto = journal.group(1 << 20)
    assert upto == 1

    with pytest.raises(StateError, match=r"damaged|missing") as caught:
        list(journal.batches(upto))
    assert "journal" in str(caught.value)
