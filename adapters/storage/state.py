"""The state store: one JSON file per turn, in a directory on any storage that Hadoop supports.

Owns when the files of a checkpoint directory are written, renamed and removed. `state_files.py` has their
names and content, `directory.py` writes them, and `engine.job.saved.state` defines the document. A file named
`.turn-….<unique>.partial` is being written, or was left by a crash: it is never read, and loading removes it.

A job that has lost the lease can't promote. Loading takes the pending states of older epochs away: the one
that may count gets the loading job's epoch in its name, the others are removed. If the old job saves a
pending state later, that has its own epoch and is ignored.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from adapters.storage.directory import partial_of
from adapters.storage.lease import newest_lease
from adapters.storage.state_files import (
    QUEUE,
    STATE,
    queue_name,
    queues_in,
    queues_named,
    seal,
    state_name,
    turns_in,
    unseal,
)
from engine.errors import InvariantError, LeaseLost, StateError
from engine.ports.state_store import SavedState, SavedStates

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from adapters.storage.directory import Storage

KEPT: Final = 5
"""The number of promoted states kept; all but the newest are for people."""


class FileStateStore:
    """Keeps states as files of a directory, for the job that holds its lease of this epoch.

    If `forced`, a promotion survives a power failure at once. Otherwise it does so once the next state is
    saved; until then the state may be found pending again. That needs a sink that knows its turns: the next
    start asks it, and promotes the state. It saves one forced write of six in each turn.
    """

    def __init__(self, storage: Storage, epoch: int = 0, *, forced: bool = True) -> None:
        self._storage, self._epoch, self._forced = storage, epoch, forced
        self._promoted: list[int] | None = None
        self._beside: set[str] = set()
        self._named: dict[int, frozenset[str]] = {}
        """The queues' files that the state of each turn refers to, promoted or pending."""

    def load(self) -> SavedStates:
        """Read the newest promoted state, and a pending one that is newer.

        Raises LeaseLost if a job of a newer epoch has saved a state.
        """
        names = self._storage.names()
        self._remove_partial(names)
        promoted, pending = turns_in(names)
        self._promoted = promoted
        newest = promoted[-1] if promoted else -1
        kept = self._take_over(newest, pending)
        if kept is not None and not self._adopt(*kept):
            return self.load()
        states = SavedStates(
            promoted=self._read(state_name(newest), newest) if promoted else None,
            pending=None if kept is None else self._read(state_name(kept[1], self._epoch), kept[1]),
        )
        self._note_named(names, states)
        return states

    def _take_over(self, newest: int, pending: list[tuple[int, int]]) -> tuple[int, int] | None:
        """The epoch and turn of the pending state that may count; the others are removed.

        It is the one of the newest epoch: when it was saved, holders of older epochs could not commit any
        more.
        """
        if pending and max(epoch for epoch, _turn in pending) > self._epoch:
            raise LeaseLost("a newer job has saved its state", where=self._storage.location)
        ahead = [(epoch, turn) for epoch, turn in sorted(pending) if turn > newest]
        kept = ahead[-1] if ahead else None
        for epoch, turn in pending:
            # A pending state that is not newer was copied and not yet deleted: on an object store, a rename
            # does both.
            if (epoch, turn) != kept:
                self._storage.delete(state_name(turn, epoch))
        return kept

    def _adopt(self, epoch: int, turn: int) -> bool:
        """Give a pending state this job's epoch. False: it is gone.

        A job that lost the lease in its last step may have settled the state meanwhile.
        """
        source = state_name(turn, epoch)
        if epoch == self._epoch:
            return True
        try:
            self._storage.rename(source, state_name(turn, self._epoch))
        except StateError:
            if self._storage.exists(source):
                raise
            return False
        return True

    def save_pending(self, turn: int, document: bytes) -> None:
        """Write the document, whole or not at all."""
        self._storage.create(state_name(turn, self._epoch), seal(turn, document))
        self._named[turn] = queues_named(document)

    def save_beside(self, turn: int, document: bytes) -> str:
        """Write the document to a file with the epoch in its name."""
        name = queue_name(turn, self._epoch)
        self._storage.create(name, seal(turn, document))
        self._beside.add(name)
        return name

    def load_beside(self, name: str) -> bytes:
        """Read and verify the file."""
        match = QUEUE.fullmatch(name)
        if match is None:
            raise StateError(f"the saved state names no queue: {name!r}", where=self._storage.location)
        return self._read(name, int(match[1])).document

    def _note_named(self, names: Iterable[str], states: SavedStates) -> None:
        """Note which queues there are, and which of them the states refer to."""
        self._beside = queues_in(names)
        read = [state for state in (states.promoted, states.pending) if state is not None]
        if self._beside:
            read += self._older_states()
        self._named = {state.turn: queues_named(state.document) for state in read}

    def _older_states(self) -> Iterator[SavedState]:
        """The kept states before the newest, except damaged ones, which must not stop the job."""
        for turn in self._known_promoted()[:-1]:
            with contextlib.suppress(StateError):
                yield self._read(state_name(turn), turn)

    def _drop_beside(self, promoted: Collection[int]) -> None:
        """Remove the files that no state refers to; `promoted` are the turns of the kept states.

        A file's turn does not say whether it is in use. If an attempt at a turn fails after it has written
        a file, the turn may still go on with an older one when it is repeated.
        """
        self._named = {turn: named for turn, named in self._named.items() if turn >= min(promoted)}
        if not self._named.keys() >= set(promoted):
            return  # nobody knows what a state that could not be read refers to
        in_use = frozenset().union(*self._named.values())
        for name in sorted(self._beside - in_use):
            self._storage.delete(name)
        self._beside &= in_use

    def promote(self, turn: int) -> None:
        """Rename the pending state, and remove old states."""
        source, target = state_name(turn, self._epoch), state_name(turn)
        promoted = self._known_promoted()
        if turn in promoted:
            return
        try:
            self._storage.rename(source, target, forced=self._forced)
        except StateError as error:
            if self._storage.exists(source):
                raise
            self._check_promoted(turn, error)
        self._promoted = sorted([*promoted, turn])
        for old in self._promoted[:-KEPT]:
            self._storage.delete(state_name(old))
        self._promoted = self._promoted[-KEPT:]
        self._drop_beside(self._promoted)

    def discard(self, turn: int) -> None:
        """Delete the pending state."""
        self._storage.delete(state_name(turn, self._epoch))

    def _check_promoted(self, turn: int, error: StateError) -> None:
        """Find out why the pending state is gone. Raises unless it was promoted in spite of the error.

        Only a job with a newer lease could have taken it away, and it creates the lease's file before.
        """
        names = self._storage.names()
        promoted, pending = turns_in(names)
        newer = newest_lease(names) > self._epoch or any(epoch > self._epoch for epoch, _turn in pending)
        if newer or promoted[-1:] > [turn]:
            raise LeaseLost(f"another job has settled turn {turn}", where=self._storage.location) from error
        if turn not in promoted:
            text = f"state of turn {turn} is promoted without having been saved"
            raise InvariantError(text) from error

    def _known_promoted(self) -> list[int]:
        if self._promoted is None:
            self._promoted = turns_in(self._storage.names())[0]
        return self._promoted

    def _remove_partial(self, names: Iterable[str]) -> None:
        for name in names:
            whole = partial_of(name)
            if whole and (STATE.fullmatch(whole) or QUEUE.fullmatch(whole)):
                self._storage.delete(name)

    def _read(self, name: str, turn: int) -> SavedState:
        return unseal(turn, self._storage.read(name), where=f"{self._storage.location}/{name}")
