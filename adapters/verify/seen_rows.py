"""The rows that windows have seen for a verification, one file per entry of the queue.

They belong to a session: the job begins a verification anew after a failure or a restart, so nothing here has
to survive.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.errors import SourceError
from engine.verify.comparison import SEEN_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator


class SeenRowsFiles:
    """Implements `SeenRows` in a directory of its own, which is made when it is needed."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._files: dict[int, tuple[pa.OSFile, pa.RecordBatchStreamWriter]] = {}
        self._rows: dict[int, int] = {}

    def add(self, ticket: int, rows: pa.Table) -> None:
        """Append rows to the entry's file."""
        with _errors(self._directory):
            if ticket not in self._files:
                self._directory.mkdir(parents=True, exist_ok=True)
                file = pa.OSFile(str(self._path(ticket)), "wb")
                self._files[ticket] = file, pa.ipc.new_stream(file, SEEN_ROWS)
                # The schema is written with the first batch, and without it nobody can read the stream.
                self._files[ticket][1].write_batch(pa.RecordBatch.from_pylist([], SEEN_ROWS))
            self._files[ticket][1].write_table(rows)
        self._rows[ticket] = self._rows.get(ticket, 0) + len(rows)

    def forget(self, ticket: int) -> None:
        """Remove the entry's file."""
        self._rows.pop(ticket, None)
        if (opened := self._files.pop(ticket, None)) is not None:
            opened[0].close()
            self._path(ticket).unlink(missing_ok=True)

    def rows(self, ticket: int) -> int:
        """How many rows the entry's file has."""
        return self._rows.get(ticket, 0)

    def path(self, ticket: int) -> str:
        """The entry's file. A stream may lack its end, so more rows can follow later."""
        if ticket not in self._files:
            self.add(ticket, SEEN_ROWS.empty_table())
        with _errors(self._directory):
            if not self.rows(ticket):
                # The schema is only written with the first batch, even an empty one.
                self._files[ticket][1].write_batch(pa.RecordBatch.from_pylist([], schema=SEEN_ROWS))
            self._files[ticket][0].flush()
        return str(self._path(ticket))

    def clear(self) -> None:
        """Remove everything."""
        for ticket in list(self._files):
            self.forget(ticket)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _path(self, ticket: int) -> Path:
        return self._directory / f"seen-{ticket}.arrow"


@contextlib.contextmanager
def _errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(
            f"rows to compare can't be kept: {error}", where=str(directory), hint="make room there"
        ) from error
