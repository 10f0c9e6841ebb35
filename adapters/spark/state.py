"""The state store: one JSON file per turn, in a directory on any storage that Hadoop knows.

Owns the files of a checkpoint directory, and how a half-written or damaged one is told from a state.
How files are written is `storage.py`'s affair, what the document says `engine.state`'s.

    turn-000000000042.json            promoted; the last five are kept
    turn-000000000043.pending.json    saved before turn 43 was sent
    .turn-….<unique>.partial          being written, or left by a crash: never read, removed by load

A file is one JSON object, `{"turn":…,"bytes":…,"sha256":"…","state":<the document>}`. Its length
and checksum cover the document's bytes, so what was cut short or edited by hand is refused.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from adapters.spark.storage import partial_of
from engine.errors import InvariantError, StateError
from engine.ports import SavedState, SavedStates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adapters.spark.storage import Storage

KEPT: Final = 5
"""Promoted states kept; all but the newest are for people."""

_NAME: Final = re.compile(r"turn-(\d{12,})(\.pending)?\.json")
_HEAD: Final = re.compile(rb'\{"turn":(\d+),"bytes":(\d+),"sha256":"([0-9a-f]{64})","state":')
_TAIL: Final = b"}\n"


class FileStateStore:
    """Keeps states in the files of a directory."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._promoted: list[int] | None = None

    def load(self) -> SavedStates:
        """Read the newest promoted state, and a pending one that is newer; see the port."""
        names = self._storage.names()
        self._remove_partial(names)
        promoted, pending = _turns(names)
        self._promoted = promoted
        newest = promoted[-1] if promoted else -1
        for turn in [turn for turn in pending if turn <= newest]:
            # Copied and not yet deleted when the process died: on an object store, a rename is both.
            self._storage.delete(_name(turn, pending=True))
        ahead = pending[-1:] if pending and pending[-1] > newest else []
        return SavedStates(
            promoted=self._read(newest, pending=False) if promoted else None,
            pending=self._read(ahead[0], pending=True) if ahead else None,
        )

    def save_pending(self, turn: int, document: bytes) -> None:
        """Write the document, whole or not at all; see the port."""
        self._storage.create(_name(turn, pending=True), _sealed(turn, document))

    def promote(self, turn: int) -> None:
        """Rename the pending state; see the port."""
        source, target = _name(turn, pending=True), _name(turn, pending=False)
        promoted = self._known_promoted()
        if turn in promoted:
            return
        if not self._storage.exists(source):
            raise InvariantError(f"state of turn {turn} is promoted without having been saved")
        self._storage.rename(source, target)
        self._promoted = sorted([*promoted, turn])
        for old in self._promoted[:-KEPT]:
            self._storage.delete(_name(old, pending=False))
        self._promoted = self._promoted[-KEPT:]

    def discard(self, turn: int) -> None:
        """Delete the pending state; see the port."""
        self._storage.delete(_name(turn, pending=True))

    def _known_promoted(self) -> list[int]:
        if self._promoted is None:
            self._promoted = _turns(self._storage.names())[0]
        return self._promoted

    def _remove_partial(self, names: Iterable[str]) -> None:
        for name in names:
            whole = partial_of(name)
            if whole and _NAME.fullmatch(whole):
                self._storage.delete(name)

    def _read(self, turn: int, *, pending: bool) -> SavedState:
        name = _name(turn, pending=pending)
        return _opened(turn, self._storage.read(name), place=f"{self._storage.place}/{name}")


def _turns(names: Iterable[str]) -> tuple[list[int], list[int]]:
    """The turns promoted and pending, in order; files that are not ours are passed over."""
    found = [match for match in map(_NAME.fullmatch, names) if match]
    promoted = sorted(int(match[1]) for match in found if not match[2])
    return promoted, sorted(int(match[1]) for match in found if match[2])


def _name(turn: int, *, pending: bool) -> str:
    return f"turn-{turn:012d}{'.pending' if pending else ''}.json"


def _sealed(turn: int, document: bytes) -> bytes:
    digest = hashlib.sha256(document).hexdigest()
    head = f'{{"turn":{turn},"bytes":{len(document)},"sha256":"{digest}","state":'
    return head.encode("ascii") + document + _TAIL


def _opened(turn: int, content: bytes, *, place: str) -> SavedState:
    """Take the document out of a file's content; StateError unless it is exactly what was saved."""
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
