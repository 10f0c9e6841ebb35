"""A promotion whose rename reported an error: it took effect, it did not, or another job was faster."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from adapters.sinks.files import FilesSink
from adapters.sinks.null import NullSink
from adapters.source.assembly.wiring import _knows_turns
from adapters.storage.directory import LocalStorage
from adapters.storage.lease import FileLease
from adapters.storage.owner import Claim
from adapters.storage.state import FileStateStore
from adapters.storage.state_files import newest_epoch, state_name
from engine.errors import LeaseLost, StateError
from engine.ports.state_store import SavedState, SavedStates
from tests.batches import numbered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class ReportsErrors(LocalStorage):
    """Storage whose renames take effect and report an error, as when a network file system repeats one."""

    def rename(self, source: str, target: str, *, forced: bool = True) -> None:
        super().rename(source, target, forced=forced)
        if source.endswith(".pending.json"):
            raise StateError("no such file", where=self.location)


class RefusesRenames(LocalStorage):
    """Storage that promotes nothing."""

    def rename(self, source: str, target: str, *, forced: bool = True) -> None:
        if source.endswith(".pending.json"):
            raise StateError(f"{source} can't be renamed to {target}", where=self.location)
        super().rename(source, target, forced=forced)


class CountsForced(LocalStorage):
    """Storage that knows what it has forced to disk."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.forced: list[str] = []

    def _renamed(self, source: str, target: str, *, forced: bool) -> None:
        super()._renamed(source, target, forced=forced)
        self.forced += [target] if forced else []


def lease(directory: Path) -> FileLease:
    taken = FileLease(LocalStorage(directory), Claim("shop"), epoch_in=newest_epoch)
    assert taken.try_take() is None
    return taken


def test_a_rename_that_took_effect_has_promoted_whatever_it_reported(tmp_path: Path):
    store = FileStateStore(ReportsErrors(tmp_path), lease(tmp_path).epoch)
    for turn in (1, 2):
        store.save_pending(turn, b"%d" % turn)
        store.promote(turn)

    assert FileStateStore(LocalStorage(tmp_path), 1).load() == SavedStates(SavedState(2, b"2"), None)


def test_a_rename_that_had_no_effect_is_reported_and_may_be_tried_again(tmp_path: Path):
    epoch = lease(tmp_path).epoch
    store = FileStateStore(RefusesRenames(tmp_path), epoch)
    store.save_pending(1, b"one")
    with pytest.raises(StateError, match="can't be renamed"):
        store.promote(1)
    FileStateStore(LocalStorage(tmp_path), epoch).promote(1)

    assert FileStateStore(LocalStorage(tmp_path), epoch).load().promoted == SavedState(1, b"one")


def test_a_state_that_a_newer_job_has_promoted_is_not_ours(tmp_path: Path):
    first = lease(tmp_path)
    asleep = FileStateStore(LocalStorage(tmp_path), first.epoch)
    asleep.load()
    asleep.save_pending(1, b"one")
    first.release()
    awake = FileStateStore(LocalStorage(tmp_path), lease(tmp_path).epoch)
    awake.load()
    awake.promote(1)

    with pytest.raises(LeaseLost, match="another job has settled turn 1"):
        asleep.promote(1)


class WakesAnother(LocalStorage):
    """Storage beside which a job that had been asleep takes its last step, before the first rename."""

    def __init__(self, root: Path, wakes: Callable[[], None]) -> None:
        super().__init__(root)
        self._wakes = [wakes]

    def rename(self, source: str, target: str, *, forced: bool = True) -> None:
        while self._wakes:
            self._wakes.pop()()
        super().rename(source, target, forced=forced)


@pytest.mark.parametrize(
    ("last_step", "found"),
    [
        (FileStateStore.promote, SavedStates(SavedState(2, b"two"), None)),
        (FileStateStore.discard, SavedStates(SavedState(1, b"one"), None)),
    ],
)
def test_a_state_that_is_settled_while_it_is_taken_over_is_found_as_it_is_then(
    tmp_path: Path, last_step: Callable[[FileStateStore, int], None], found: SavedStates
):
    asleep = FileStateStore(LocalStorage(tmp_path), 1)
    asleep.save_pending(1, b"one")
    asleep.promote(1)
    asleep.save_pending(2, b"two")
    awake = FileStateStore(WakesAnother(tmp_path, lambda: last_step(asleep, 2)), 2)

    assert awake.load() == found


def test_a_state_is_taken_over_whatever_its_rename_reported(tmp_path: Path):
    FileStateStore(LocalStorage(tmp_path), 1).save_pending(1, b"one")

    assert FileStateStore(ReportsErrors(tmp_path), 2).load() == SavedStates(None, SavedState(1, b"one"))


def test_a_state_that_can_not_be_taken_over_is_an_error(tmp_path: Path):
    FileStateStore(LocalStorage(tmp_path), 1).save_pending(1, b"one")

    with pytest.raises(StateError, match="can't be renamed"):
        FileStateStore(RefusesRenames(tmp_path), 2).load()


@pytest.mark.parametrize("forced", [True, False])
def test_a_promotion_is_forced_to_disk_unless_the_sink_knows_its_turns(tmp_path: Path, *, forced: bool):
    storage = CountsForced(tmp_path)
    store = FileStateStore(storage, forced=forced)
    for turn in (1, 2):
        store.save_pending(turn, b"%d" % turn)
        store.promote(turn)

    names = [f"turn-{turn:012d}{kind}.json" for turn in (1, 2) for kind in (".pending", "")]
    assert storage.forced == [name for name in names if forced or "pending" in name]


def queues(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if path.name.startswith("queue")}


def save(store: FileStateStore, turn: int, queue: str = "") -> None:
    store.save_pending(turn, f'{{"queue_document": "{queue}"}}'.encode())
    store.promote(turn)


def test_a_queue_of_an_attempt_that_failed_is_removed_once_its_turn_is_saved(tmp_path: Path):
    store = FileStateStore(LocalStorage(tmp_path))
    used = store.save_beside(1, b"{}")
    save(store, 1, used)
    attempted = store.save_beside(2, b"{}")
    before = queues(tmp_path)
    save(store, 2, used)

    assert before == {used, attempted}
    assert queues(tmp_path) == {used}


def test_a_start_learns_which_queues_the_kept_states_refer_to(tmp_path: Path):
    dead = FileStateStore(LocalStorage(tmp_path), 1)
    used = []
    for turn in (1, 2):
        used.append(dead.save_beside(turn, b"{}"))
        save(dead, turn, used[-1])
    dead.save_pending(3, dead.save_beside(3, b"{}").encode())
    store = FileStateStore(LocalStorage(tmp_path), 2)
    store.load()
    found = []
    for turn in range(3, 8):
        save(store, turn, used[1])
        found.append(queues(tmp_path))

    assert found == [set(used)] * 3 + [set(used[1:])] * 2


def test_a_damaged_old_state_stops_no_start_and_keeps_the_queues(tmp_path: Path):
    store = FileStateStore(LocalStorage(tmp_path))
    for turn in (1, 2):
        save(store, turn, store.save_beside(turn, b"{}"))
    (tmp_path / state_name(1)).write_bytes(b"{")
    store.load()
    found = []
    for turn in range(3, 7):
        save(store, turn)
        found.append(len(queues(tmp_path)))

    assert found == [2, 2, 2, 1]


def test_the_files_sink_alone_knows_its_turns_after_a_power_failure(tmp_path: Path):
    assert _knows_turns(FilesSink(tmp_path))
    assert not _knows_turns(NullSink())


def test_a_turn_of_the_files_sink_waits_for_the_disk_five_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The part, its directory, the state, the checkpoint's directory, and the directory of turns.

    For the part and its directory, a thread waits while the state is saved.
    """
    sink = FilesSink(tmp_path / "events")
    store = FileStateStore(LocalStorage(tmp_path / "state"), forced=not _knows_turns(sink))
    forced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda _file: forced.append(threading.get_ident()))
    for turn in range(1, 11):
        part = sink.writer(turn).write(0, [numbered(turn)])
        store.save_pending(turn, b"{}")
        sink.commit(turn, [part])
        store.promote(turn)

    assert forced.count(threading.get_ident()) == 3 * 10
    assert len(forced) == 5 * 10
