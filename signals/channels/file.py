"""The file channel: lines appended to a file become messages.

The file is only read. A line counts once its newline is there; blank lines are skipped. A new job reads the
file from its beginning.

The position is a byte count and a digest of the bytes right before it. If those bytes have changed, the file
is another one (truncated, rotated, rewritten) and is read from its beginning. A copy, or an editor's new
file that contains the old lines, is resumed where the old file ended.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.model import Channel
from engine.saved import read_integer, read_text
from signals.channels.inbox import Inbox
from signals.model import Message
from signals.parse.budget import MAX_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO

_log = logging.getLogger("signals")
_KNOWN_BY: Final = 4096
"""How many bytes before the position identify the file."""
_READ_AT_ONCE: Final = 2 * MAX_MESSAGE


@dataclass(frozen=True, slots=True)
class FilePosition:
    """The number of bytes read, and the digest of the last of them."""

    bytes: int = 0
    digest: str = ""


class FileChannel:
    """A `SignalChannel` over a file, which need not exist yet."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._inbox = Inbox(FilePosition())
        self._seen: tuple[int, ...] = ()
        self._fault = ""

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Resume after the lines that the saved state has taken."""
        position = (
            FilePosition(read_integer(saved["bytes"]), read_text(saved["digest"]))
            if saved
            else FilePosition()
        )
        self._inbox.resume(position, is_new=not saved)
        self._seen = ()

    def memory(self) -> Mapping[str, Any]:
        """The bytes read, and their digest."""
        saved = self._inbox.saved()
        return {"bytes": saved.bytes, "digest": saved.digest}

    def pending(self) -> bool:
        """Whether complete lines wait, or a first position to save."""
        return self._current_inbox().pending

    def receive(self) -> Sequence[Message]:
        """The lines since the last call."""
        return self._current_inbox().take()

    def close(self) -> None:
        """Do nothing: no file is kept open."""

    def _current_inbox(self) -> Inbox[FilePosition]:
        """The inbox, with new lines if the file has changed since the last check."""
        self._absorb()
        return self._inbox

    def _absorb(self) -> None:
        try:
            touched = _stamp(self._path)
            if touched == self._seen:
                return
            with self._path.open("rb") as file:
                whole = self._read(file)
            self._seen = touched if whole else ()
            self._fault = ""
        except FileNotFoundError:
            self._seen = ()
        except OSError as error:
            self._say_once(f"the file of signals {str(self._path)!r} can't be read: {error.strerror}")

    def _read(self, file: BinaryIO) -> bool:
        """Take the lines after the position. Returns whether the file is read to its end."""
        inbox = self._inbox
        if _digest(file, inbox.position.bytes) != inbox.position.digest:
            _log.warning("%r is not the file it was: it is read from its beginning", str(self._path))
            inbox.position = FilePosition()
        file.seek(inbox.position.bytes)
        text = file.read(_READ_AT_ONCE)
        # An unfinished line longer than any signal is taken as it is, instead of waiting for its end.
        full = len(text) == _READ_AT_ONCE
        end = text.rfind(b"\n") + 1 or (len(text) if full else 0)
        at = inbox.position.bytes
        for line in text[:end].split(b"\n"):
            if line.strip():
                inbox.add(Message(Channel.FILE, f"{self._path.name}@{at}", line))
            at += len(line) + 1
        end += inbox.position.bytes
        inbox.position = FilePosition(end, _digest(file, end))
        return not full

    def _say_once(self, fault: str) -> None:
        if fault != self._fault:
            _log.warning("%s; trying again", fault)
        self._fault = fault


def _stamp(path: Path) -> tuple[int, ...]:
    """A value that changes whenever the file is written or replaced."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _digest(file: BinaryIO, end: int) -> str:
    """The digest of the bytes right before `end`; empty at the start of the file."""
    start = max(0, end - _KNOWN_BY)
    file.seek(start)
    known = file.read(end - start)
    return hashlib.sha256(known).hexdigest()[:32] if known else ""
