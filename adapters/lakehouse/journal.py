"""The journal: turns that are committed and are to be merged into the lake's tables, on a local disk.

A turn's typed events become a directory here, as a turn of the files sink does: whole or not at all. That is
the commit. Merging follows, table by table, from nothing but this directory.

    <journal>/turn-000000000042/part-00000.arrow   a turn that waits
                               /withheld           topics whose events in it do not count
             /.merge/group-41                      the turns after 41 are merged up to the one in this file
                    /merged                        the turn up to which all tables are merged
                    /tables                        the tables that were written, and what tells them apart

A *group* are the turns that are merged at once. It is fixed before the first of its tables is touched, so
whoever continues after a crash merges exactly the same turns into the tables that are left.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson
import pyarrow as pa  # noqa: TC002  a field's type

from adapters.jdbc.parts import topic_of, unpacked
from adapters.sinks.files import FilesSink
from adapters.staging.turn_names import turn_name
from adapters.staging.turn_parts import arrow_batches, part_files
from adapters.storage.directory import LocalStorage
from engine.errors import StateError
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from engine.model import Part

_WITHHELD: Final = "withheld"
_MERGED, _TABLES = "merged", "tables"


class WaitingTurn(NamedTuple):
    """A turn that waits, and the bytes of its parts."""

    turn: int
    bytes: int


class Waiting(NamedTuple):
    """Typed events of a turn, their topic, and the number of their part over all turns of a group."""

    turn: int
    part: int
    topic: str
    events: pa.RecordBatch


class Journal:
    """The journal in a directory, of the job with this epoch of its lease.

    One thread commits turns, and another one merges them: both change what waits.
    """

    def __init__(self, directory: Path | str, epoch: int) -> None:
        self._directory = Path(directory).absolute()
        self._turns = FilesSink(self._directory, epoch)
        self._notes = LocalStorage(self._directory / ".merge")
        self.place = str(self._directory)
        self.identity = self._turns.identity()
        self.discard = self._turns.close
        self.merged = self._merged()
        self._waiting, self._changing = self._found(), Lock()

    def begin(self, turn: int) -> Path:
        """The directory of a turn's parts. Raises LeaseLost if another job has taken over."""
        return self._turns.begin(turn)

    def held(self) -> None:
        """Raise LeaseLost if another job has taken over."""
        self._turns.held()

    def commit(self, attempt: Path, turn: int, parts: Sequence[Part], withheld: Collection[str]) -> None:
        """Make a turn one that is to be merged."""
        written = part_files(attempt)
        for path in written:
            force_file(path)
        if written and withheld:
            with sink_errors(attempt):
                (attempt / _WITHHELD).write_bytes(orjson.dumps(sorted(withheld)))
            force_file(attempt / _WITHHELD)
        self._turns.commit(turn, parts)
        if written:
            waiting = WaitingTurn(turn, sum(part.checksum.bytes for part in parts))
            with self._changing:
                self._waiting = [*self._waiting, waiting]

    def applied(self, turn: int) -> bool:
        """Whether a turn is committed here."""
        return turn <= self.merged or self._turns.applied(turn)

    def newest(self) -> int | None:
        """The newest turn; None if there is none."""
        found = self._turns.newest()
        return max(self.merged, found or 0) or found

    def waiting(self) -> Sequence[WaitingTurn]:
        """The turns that are not merged everywhere, oldest first."""
        return self._waiting

    def group(self, most_bytes: int) -> int | None:
        """The last turn of the group that is due, fixed now if it is not yet; None if nothing waits."""
        waiting = self._waiting
        if not waiting:
            return None
        name, total, upto = f"group-{self.merged}", 0, waiting[0].turn
        for one in waiting:
            total += one.bytes
            if total > most_bytes and one.turn > upto:
                break
            upto = one.turn
        if not self._notes.create_new(name, str(upto).encode()):
            upto = self._number(name)
        return upto

    def batches(self, upto: int) -> Iterator[Waiting]:
        """The typed events of a group, in order."""
        part = -1
        for waiting in self._waiting:
            if waiting.turn > upto:
                return
            directory = self._directory / turn_name(waiting.turn)
            withheld = _withheld(directory)
            for path in part_files(directory):
                part += 1
                for batch in typed_batches(path):
                    topic = topic_of(batch) or ""
                    if topic not in withheld:
                        yield Waiting(waiting.turn, part, topic, batch)

    def finish(self, upto: int) -> None:
        """Note that all tables are merged up to a turn, and remove what is not needed any more.

        Raises LeaseLost if another job has taken over: it may have merged later turns.
        """
        self.held()
        self._notes.create(_MERGED, str(upto).encode())
        before, self.merged = self.merged, upto
        with self._changing:
            self._waiting = [one for one in self._waiting if one.turn > upto]
        self._notes.delete(f"group-{before}")
        self._remove()

    @property
    def tables(self) -> dict[str, str]:
        """The ids of the tables that were written, by name."""
        if not self._notes.exists(_TABLES):
            return {}
        with self._reading(_TABLES):
            found: dict[str, str] = orjson.loads(self._notes.read(_TABLES))
        return found

    def note_tables(self, tables: Mapping[str, str]) -> None:
        """Note the tables that were written. Raises LeaseLost if another job has taken over."""
        self.held()
        self._notes.create(_TABLES, orjson.dumps(tables, option=orjson.OPT_SORT_KEYS))

    def _merged(self) -> int:
        return self._number(_MERGED) if self._notes.exists(_MERGED) else 0

    def _number(self, name: str) -> int:
        with self._reading(name):
            return int(self._notes.read(name))

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Raise StateError for a note that is none."""
        try:
            yield
        except ValueError as error:
            hint = "restore it with the rest of the journal, from the same backup"
            raise StateError("it is damaged", place=f"{self._notes.place}/{name}", hint=hint) from error

    def _found(self) -> list[WaitingTurn]:
        self._remove()
        with sink_errors(self._directory):
            return [
                WaitingTurn(_turn_of(path), sum(part.stat().st_size for part in part_files(path)))
                for path in self._directories()
            ]

    def _directories(self) -> list[Path]:
        with sink_errors(self._directory):
            return sorted(path for path in self._directory.iterdir() if path.name.startswith("turn-"))

    def _remove(self) -> None:
        """Remove the turns that are merged. What can't be removed is removed with a later one."""
        for path in self._directories():
            if _turn_of(path) <= self.merged:
                with suppress(OSError):
                    shutil.rmtree(path)


def typed_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The typed events of a part; other records are left out."""
    for batch in arrow_batches(path):
        yield from ([batch] if topic_of(batch) is not None else unpacked(batch))


def force_file(path: Path) -> None:
    """Force a file's content to disk."""
    with sink_errors(path), path.open("rb") as file:
        os.fsync(file.fileno())


def _withheld(directory: Path) -> frozenset[str]:
    with sink_errors(directory), suppress(FileNotFoundError):
        return frozenset(orjson.loads((directory / _WITHHELD).read_bytes()))
    return frozenset()


def _turn_of(path: Path) -> int:
    return int(path.name.removeprefix("turn-"))
