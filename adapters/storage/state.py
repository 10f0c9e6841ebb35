"""The state store: one JSON file per turn, in a directory on any storage that Hadoop supports.

Owns the files of a checkpoint directory, and tells half-written or damaged files from states. `directory.py`
writes the files; `engine.job.state` defines the document.

    turn-000000000042.json            promoted; the last five are kept
    turn-000000000043.7.pending.json  saved before turn 43 was sent, by the job that held the lease of epoch 7
    queue-000000000042.7.json         what waited after turn 42; kept as long as a state refers to it
    .turn-….<unique>.partial          being written, or left by a crash: never read, removed by load

A job that has lost the lease can't promote. Loading takes the pending states of older epochs away: the one
that may count gets the loading job's epoch in its name, the others are removed. If the old job saves a
pending state later, that has its own epoch and is ignored.

A file is one JSON object, `{"turn":…,"bytes":…,"sha256":"…","state":<the document>}`. Its length and checksum
cover the document's bytes, so a truncated or hand-edited file is refused.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from adapters.storage.directory import partial_of
from engine.errors import InvariantError, LeaseLost, StateError
from engine.ports import SavedState, SavedStates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adapters.storage.directory import Storage

KEPT: Final = 5
"""The number of promoted states kept; all but the newest are for people."""

_NAME: Final = re.compile(r"turn-(\d{12,})((?:\.(\d+))?\.pending)?\.json")
"""Pending states from before there were leases have no epoch; that counts as 0."""
_BESIDE: Final = re.compile(r"queue-(\d{12,})\.(\d+)\.json")
_HEAD: Final = re.compile(rb'\{"turn":(\d+),"bytes":(\d+),"sha256":"([0-9a-f]{64})","state":')
_TAIL: Final = b"}\n"


class FileStateStore:
    """Keeps states as files of a directory, for the job that holds its lease of this epoch."""

    def __init__(self, storage: Storage, epoch: int = 0) -> None:
        self._storage, self._epoch = storage, epoch
        self._promoted: list[int] | None = None
        self._beside: list[tuple[int, int]] | None = None

    def load(self) -> SavedStates:
        """Read the newest promoted state, and a pending one that is newer.

        Raises LeaseLost if a job of a newer epoch has saved a state.
        """
        names = self._storage.names()
        self._remove_partial(names)
        promoted, pending = _turns(names)
        self._promoted = promoted
        newest = promoted[-1] if promoted else -1
        return SavedStates(
            promoted=self._read(_name(newest), newest) if promoted else None,
            pending=self._taken_over(newest, pending),
        )

    def _taken_over(self, newest: int, pending: list[tuple[int, int]]) -> SavedState | None:
        """The pending state that may count, renamed to this job's epoch; the others are removed.

        It is the one of the newest epoch: when it was saved, holders of older epochs could not commit any
        more.
        """
        if pending and max(epoch for epoch, _turn in pending) > self._epoch:
            raise LeaseLost("a newer job has saved its state", place=self._storage.place)
        ahead = [(epoch, turn) for epoch, turn in sorted(pending) if turn > newest]
        kept = ahead[-1] if ahead else None
        for epoch, turn in pending:
            # A pending state that is not newer was copied and not yet deleted: on an object store, a rename
            # does both.
            if (epoch, turn) != kept:
                self._storage.delete(_name(turn, epoch))
        if kept is None:
            return None
        epoch, turn = kept
        if epoch != self._epoch:
            self._storage.rename(_name(turn, epoch), _name(turn, self._epoch))
        return self._read(_name(turn, self._epoch), turn)

    def save_pending(self, turn: int, document: bytes) -> None:
        """Write the document, whole or not at all."""
        self._storage.create(_name(turn, self._epoch), _sealed(turn, document))

    def save_beside(self, turn: int, document: bytes) -> str:
        """Write the document to a file with the epoch in its name."""
        if self._beside is None:
            self._beside = _besides(self._storage.names())
        name = _beside_name(turn, self._epoch)
        self._storage.create(name, _sealed(turn, document))
        self._beside = sorted({*self._beside, (turn, self._epoch)})
        return name

    def load_beside(self, name: str) -> bytes:
        """Read and verify the file."""
        match = _BESIDE.fullmatch(name)
        if match is None:
            raise StateError(f"the saved state names no queue: {name!r}", place=self._storage.place)
        return self._read(name, int(match[1])).document

    def _drop_beside(self, oldest: int) -> None:
        """Remove the files that no kept state refers to; `oldest` is the turn of the oldest kept state."""
        if not self._beside:
            return
        kept = max((turn for turn, _epoch in self._beside if turn <= oldest), default=0)
        for turn, epoch in self._beside:
            if turn < kept:
                self._storage.delete(_beside_name(turn, epoch))
        self._beside = [pair for pair in self._beside if pair[0] >= kept]

    def promote(self, turn: int) -> None:
        """Rename the pending state, and remove old states."""
        source, target = _name(turn, self._epoch), _name(turn)
        promoted = self._known_promoted()
        if turn in promoted:
            return
        try:
            self._storage.rename(source, target)
        except StateError as error:
            if self._storage.exists(source):
                raise
            raise self._nothing_to_promote(turn) from error
        self._promoted = sorted([*promoted, turn])
        for old in self._promoted[:-KEPT]:
            self._storage.delete(_name(old))
        self._promoted = self._promoted[-KEPT:]
        self._drop_beside(self._promoted[0])

    def discard(self, turn: int) -> None:
        """Delete the pending state."""
        self._storage.delete(_name(turn, self._epoch))

    def _nothing_to_promote(self, turn: int) -> Exception:
        promoted, pending = _turns(self._storage.names())
        if promoted[-1:] > [turn - 1] or any(epoch > self._epoch for epoch, _turn in pending):
            return LeaseLost(f"another job has settled turn {turn}", place=self._storage.place)
        return InvariantError(f"state of turn {turn} is promoted without having been saved")

    def _known_promoted(self) -> list[int]:
        if self._promoted is None:
            self._promoted = _turns(self._storage.names())[0]
        return self._promoted

    def _remove_partial(self, names: Iterable[str]) -> None:
        for name in names:
            whole = partial_of(name)
            if whole and (_NAME.fullmatch(whole) or _BESIDE.fullmatch(whole)):
                self._storage.delete(name)

    def _read(self, name: str, turn: int) -> SavedState:
        return _opened(turn, self._storage.read(name), place=f"{self._storage.place}/{name}")


def _turns(names: Iterable[str]) -> tuple[list[int], list[tuple[int, int]]]:
    """The promoted turns, and `(epoch, turn)` of the pending ones, in order; other files are ignored."""
    found = [match for match in map(_NAME.fullmatch, names) if match]
    promoted = sorted(int(match[1]) for match in found if not match[2])
    return promoted, sorted((int(match[3] or 0), int(match[1])) for match in found if match[2])


def _besides(names: Iterable[str]) -> list[tuple[int, int]]:
    found = [match for match in map(_BESIDE.fullmatch, names) if match]
    return sorted((int(match[1]), int(match[2])) for match in found)


def _beside_name(turn: int, epoch: int) -> str:
    return f"queue-{turn:012d}.{epoch}.json"


def newest_epoch(names: Iterable[str]) -> int:
    """The newest epoch of pending states among these files, 0 for none."""
    return max((epoch for epoch, _turn in _turns(names)[1]), default=0)


def _name(turn: int, epoch: int | None = None) -> str:
    """The name of a promoted state, or of a pending one of an epoch."""
    if epoch is None:
        return f"turn-{turn:012d}.json"
    return f"turn-{turn:012d}{f'.{epoch}' if epoch else ''}.pending.json"


def _sealed(turn: int, document: bytes) -> bytes:
    digest = hashlib.sha256(document).hexdigest()
    head = f'{{"turn":{turn},"bytes":{len(document)},"sha256":"{digest}","state":'
    return head.encode("ascii") + document + _TAIL


def _opened(turn: int, content: bytes, *, place: str) -> SavedState:
    """Extract the document from a file's content. Raises StateError unless it is exactly what was saved."""
    hint = "restore the file, or move it away to go on from the state before it"
    head = _HEAD.match(content)
    if head is None:
        raise StateError("holds no saved state", place=place, hint=hint)
    document = content[head.end() : -len(_TAIL)]
    whole = content.endswith(_TAIL) and len(document) == int(head[2])
    if not whole or hashlib.sha256(document).hexdigest().encode("ascii") != head[3]:
        raise StateError("is damaged: its length or checksum is wrong", place=place, hint=hint)
    if int(head[1]) != turn:
        raise StateError(f"holds the state of turn {int(head[1])}", place=place, hint=hint)
    return SavedState(turn, document)
