"""The files of a checkpoint directory: their names and their content. Pure; `state.py` writes them.

    turn-000000000042.json            promoted; the last five are kept
    turn-000000000043.7.pending.json  saved before turn 43 was sent, by the job that held the lease of epoch 7
    queue-000000000042.7.json         what waited after turn 42; kept as long as a state refers to it

A file is one JSON object, `{"turn":…,"bytes":…,"sha256":"…","state":<the document>}`. Its length and checksum
cover the document's bytes, so a truncated or hand-edited file is refused.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from engine.errors import StateError
from engine.ports.state_store import SavedState

if TYPE_CHECKING:
    from collections.abc import Iterable

STATE: Final = re.compile(r"turn-(\d{12,})((?:\.(\d+))?\.pending)?\.json")
"""Pending states from before there were leases have no epoch; that counts as 0."""
QUEUE: Final = re.compile(r"queue-(\d{12,})\.(\d+)\.json")
_NAMED: Final = re.compile(QUEUE.pattern.encode("ascii"))
_HEAD: Final = re.compile(rb'\{"turn":(\d+),"bytes":(\d+),"sha256":"([0-9a-f]{64})","state":')
_TAIL: Final = b"}\n"


def turns_in(names: Iterable[str]) -> tuple[list[int], list[tuple[int, int]]]:
    """The promoted turns, and `(epoch, turn)` of the pending ones, in order; other files are ignored."""
    found = [match for match in map(STATE.fullmatch, names) if match]
    promoted = sorted(int(match[1]) for match in found if not match[2])
    return promoted, sorted((int(match[3] or 0), int(match[1])) for match in found if match[2])


def queues_in(names: Iterable[str]) -> set[str]:
    """The files with waiting queues."""
    return {name for name in names if QUEUE.fullmatch(name)}


def queues_named(document: bytes) -> frozenset[str]:
    """The files with waiting queues that a state refers to: those whose names stand in its document."""
    return frozenset(match[0].decode("ascii") for match in _NAMED.finditer(document))


def queue_name(turn: int, epoch: int) -> str:
    """The name of the file with what waited after a turn."""
    return f"queue-{turn:012d}.{epoch}.json"


def newest_epoch(names: Iterable[str]) -> int:
    """The newest epoch of pending states among these files, 0 for none."""
    return max((epoch for epoch, _turn in turns_in(names)[1]), default=0)


def state_name(turn: int, epoch: int | None = None) -> str:
    """The name of a promoted state, or of a pending one of an epoch."""
    if epoch is None:
        return f"turn-{turn:012d}.json"
    return f"turn-{turn:012d}{f'.{epoch}' if epoch else ''}.pending.json"


def seal(turn: int, document: bytes) -> bytes:
    """The content of the file that holds a turn's document."""
    digest = hashlib.sha256(document).hexdigest()
    head = f'{{"turn":{turn},"bytes":{len(document)},"sha256":"{digest}","state":'
    return head.encode("ascii") + document + _TAIL


def unseal(turn: int, content: bytes, *, where: str) -> SavedState:
    """Extract the document from a file's content. Raises StateError unless it is exactly what was saved."""
    hint = "restore the file, or move it away to go on from the state before it"
    head = _HEAD.match(content)
    if head is None:
        raise StateError("holds no saved state", where=where, hint=hint)
    document = content[head.end() : -len(_TAIL)]
    whole = content.endswith(_TAIL) and len(document) == int(head[2])
    if not whole or hashlib.sha256(document).hexdigest().encode("ascii") != head[3]:
        raise StateError("is damaged: its length or checksum is wrong", where=where, hint=hint)
    if int(head[1]) != turn:
        raise StateError(f"holds the state of turn {int(head[1])}", where=where, hint=hint)
    return SavedState(turn, document)
