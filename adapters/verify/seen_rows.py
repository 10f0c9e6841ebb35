"""The rows that windows have seen for a verification, one file per entry of the queue.

A file is an Arrow stream without its end, which only grows. A later session goes on with the beginning that
its state tells by its digest. It takes a copy, since a job that has lost its lease may still write to the
file. Each process has names of its own, so such a job can't remove or replace a file of the newer one.
"""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xxhash import xxh3_128

from adapters.storage.disk import make_private, open_private
from engine.errors import SourceError
from engine.verify.compared_digests import SEEN_ROWS
from engine.verify.saved_course import Written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import FileIO

    import pyarrow as pa

_COPIED_AT_ONCE: Final = 4 << 20


@dataclass(slots=True)
class _Seen:
    """An open file, and what it has."""

    file: FileIO
    size: int = 0
    rows: int = 0
    digest: xxh3_128 = field(default_factory=xxh3_128)

    def write(self, content: bytes | memoryview | pa.Buffer) -> None:
        left = memoryview(content)
        self.digest.update(left)
        self.size += len(left)
        while left:
            left = left[self.file.write(left) :]


class SeenRowsFiles:
    """Implements `SeenRows` in a directory of its own, which is made when it is needed."""

    def __init__(self, directory: str) -> None:
        self._directory, self._own = Path(directory), secrets.token_hex(4)
        self._files: dict[int, _Seen] = {}

    def add(self, ticket: int, rows: pa.Table) -> None:
        """Append rows to the entry's file."""
        with _errors(self._directory):
            seen = self._seen(ticket)
            for batch in rows.combine_chunks().to_batches():
                seen.write(batch.serialize())
        seen.rows += len(rows)

    def forget(self, ticket: int) -> None:
        """Remove the entry's file."""
        if (seen := self._files.pop(ticket, None)) is not None:
            seen.file.close()
            self._path(ticket).unlink(missing_ok=True)

    def path(self, ticket: int) -> str:
        """The entry's file. The stream lacks its end, so more rows can follow later."""
        with _errors(self._directory):
            self._seen(ticket)
        return str(self._path(ticket))

    def written(self, ticket: int) -> Written:
        """What the entry's file has."""
        with _errors(self._directory):
            seen = self._seen(ticket)
        return Written(seen.size, seen.rows, seen.digest.hexdigest())

    def resume(self, written: Mapping[int, Written]) -> frozenset[int]:
        """Copy the beginnings of these files, and remove all others. Without room, the rows are lost."""
        self.close()
        copied = {ticket: self._copied(ticket, what) for ticket, what in written.items()}
        self._files = {ticket: seen for ticket, seen in copied.items() if seen is not None}
        kept = {self._path(ticket).name for ticket in self._files}
        for path in self._directory.glob("seen-*"):
            if path.name not in kept:
                path.unlink(missing_ok=True)
        return frozenset(self._files)

    def close(self) -> None:
        """Close all files. Nobody else may write to them by their names, which a newer job may have taken."""
        for seen in self._files.values():
            seen.file.close()

    def _copied(self, ticket: int, written: Written) -> _Seen | None:
        """A copy of the beginning of an entry's file; None if no process has left what was written."""
        found = (
            self._copy(path, ticket, written) for path in self._directory.glob(f"seen-{ticket}[.-]*arrow")
        )
        return next((seen for seen in found if seen is not None), None)

    def _copy(self, path: Path, ticket: int, written: Written) -> _Seen | None:
        """A copy of the beginning of this file under our own name; None if it is not what was written."""
        new = self._path(ticket).with_suffix(".new")
        try:
            new.unlink(missing_ok=True)
            with path.open("rb") as old:
                seen = _Seen(open_private(new))
                while piece := old.read(min(_COPIED_AT_ONCE, written.size - seen.size)):
                    seen.write(piece)
            if (seen.size, seen.digest.hexdigest()) == (written.size, written.digest):
                new.replace(self._path(ticket))
                seen.rows = written.rows
                return seen
        except OSError:
            return None
        seen.file.close()
        return None

    def _seen(self, ticket: int) -> _Seen:
        """The entry's file, which is begun if there is none. Nobody can read a stream without its schema."""
        if ticket not in self._files:
            make_private(self._directory)
            self._path(ticket).unlink(missing_ok=True)
            self._files[ticket] = _Seen(open_private(self._path(ticket)))
            self._files[ticket].write(SEEN_ROWS.serialize())
        return self._files[ticket]

    def _path(self, ticket: int) -> Path:
        return self._directory / f"seen-{ticket}-{self._own}.arrow"


@contextlib.contextmanager
def _errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(
            f"rows to compare can't be kept: {error}", where=str(directory), hint="make room there"
        ) from error
