"""The journal: turns that are committed and are to be merged into the lake's tables, on a local disk.

A turn's typed events become a directory here, as a turn of the files sink does: whole or not at all. That is
the commit. Merging follows, table by table, from nothing but this directory.

    <journal>/turn-000000000042/part-00000.arrow   a turn that waits
                               /contents           its parts with their checksums, and the topics whose events
                                                   in it do not count
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
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson
import pyarrow as pa  # noqa: TC002  a field's type

from adapters.jdbc.parts import topic_of, unpacked
from adapters.lakehouse.removal import removal_of
from adapters.sinks.files import FilesSink
from adapters.staging.turn_names import turn_name
from adapters.staging.turn_parts import RESTORE, ArrowPart, number, part_files
from adapters.storage.directory import LocalStorage
from engine.errors import StateError
from engine.model import Checksum
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from engine.model import Part

_CONTENTS: Final = "contents"
_MERGED, _TABLES = "merged", "tables"


class WaitingTurn(NamedTuple):
    """A turn that waits, and the bytes of its parts."""

    turn: int
    bytes: int


class WaitingEvents(NamedTuple):
    """Typed events of a turn, their topic, and the number of their part over all turns of a group.

    Instead of events there may be rows to be deleted (`removal.py`), which have no topic.
    """

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
        self.location = str(self._directory)
        self.identity = self._turns.identity()
        self.discard = self._turns.close
        self.merged = self._number(_MERGED) if self._notes.exists(_MERGED) else 0
        self._waiting, self._changing = self._load_waiting(), Lock()

    def begin(self, turn: int) -> Path:
        """The directory of a turn's parts. Raises LeaseLost if another job has taken over."""
        return self._turns.begin(turn)

    def check_lease(self) -> None:
        """Raise LeaseLost if another job has taken over."""
        self._turns.ensure_epoch()

    def commit(self, attempt: Path, turn: int, parts: Sequence[Part], withheld: Collection[str]) -> None:
        """Make a turn one that is to be merged."""
        written = part_files(attempt)
        for path in written:
            force_file(path)
        if written:
            _Contents.of(parts, withheld).write(attempt / _CONTENTS)
        self._turns.commit(turn, parts)
        if written:
            self._note_waiting(WaitingTurn(turn, sum(part.checksum.bytes for part in parts)))

    def resolve_commit(self, turn: int) -> bool:
        """Find out whether a turn is committed here. If it is, it waits to be merged."""
        if turn <= self.merged:
            return True
        found, directory = self._turns.resolve_commit(turn), self._directory / turn_name(turn)
        with sink_errors(self._directory):
            if found and directory.is_dir():
                # The commit may have failed once the turn had its name, before the turn was noted.
                self._note_waiting(_waiting_turn(directory))
        return found

    def _note_waiting(self, waiting: WaitingTurn) -> None:
        """Let a turn wait, unless it does already or is merged. It is the newest one."""
        with self._changing:
            if waiting.turn > self.merged and all(known.turn != waiting.turn for known in self._waiting):
                self._waiting = [*self._waiting, waiting]

    def newest_turn(self) -> int | None:
        """The newest turn; None if there is none."""
        found = self._turns.newest_turn()
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
        for turn in waiting:
            total += turn.bytes
            if total > most_bytes and turn.turn > upto:
                break
            upto = turn.turn
        if not self._notes.create_new(name, str(upto).encode()):
            upto = self._number(name)
        return upto

    def batches(self, upto: int) -> Iterator[WaitingEvents]:
        """The typed events of a group, in order."""
        part = -1
        for waiting in self._waiting:
            if waiting.turn > upto:
                return
            directory = self._directory / turn_name(waiting.turn)
            contents = _Contents.read(directory / _CONTENTS)
            for path, checksum in contents.files(directory):
                part += 1
                for batch in typed_batches(path, checksum):
                    topic = topic_of(batch) or ""
                    if topic not in contents.withheld:
                        yield WaitingEvents(waiting.turn, part, topic, batch)

    def finish(self, upto: int) -> None:
        """Note that all tables are merged up to a turn, and remove what is not needed any more.

        Raises LeaseLost if another job has taken over: it may have merged later turns.
        """
        self.check_lease()
        self._notes.create(_MERGED, str(upto).encode())
        before, self.merged = self.merged, upto
        with self._changing:
            self._waiting = [turn for turn in self._waiting if turn.turn > upto]
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
        self.check_lease()
        self._notes.create(_TABLES, orjson.dumps(tables, option=orjson.OPT_SORT_KEYS))

    def _number(self, name: str) -> int:
        with self._reading(name):
            return int(self._notes.read(name))

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Raise StateError for a note that is none."""
        try:
            yield
        except ValueError as error:
            raise StateError("it is damaged", where=f"{self._notes.location}/{name}", hint=RESTORE) from error

    def _load_waiting(self) -> list[WaitingTurn]:
        self._remove()
        with sink_errors(self._directory):
            # A turn that is merged may still be here: what can't be removed stays.
            return [_waiting_turn(path) for path in self._directories() if _turn_of(path) > self.merged]

    def _directories(self) -> list[Path]:
        with sink_errors(self._directory):
            return sorted(path for path in self._directory.iterdir() if path.name.startswith("turn-"))

    def _remove(self) -> None:
        """Remove the turns that are merged. What can't be removed is removed with a later one."""
        for path in self._directories():
            if _turn_of(path) <= self.merged:
                with suppress(OSError):
                    shutil.rmtree(path)


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a turn has: the checksums of its parts by their numbers, and the topics that do not count."""

    parts: Mapping[int, Checksum]
    withheld: frozenset[str] = frozenset()

    @classmethod
    def of(cls, parts: Sequence[Part], withheld: Collection[str]) -> _Contents:
        return cls({part.number: part.checksum for part in parts if part.events}, frozenset(withheld))

    def write(self, path: Path) -> None:
        """Write it, forced to disk."""
        parts = [[number, checksum.bytes, checksum.digest] for number, checksum in self.parts.items()]
        with sink_errors(path):
            path.write_bytes(orjson.dumps({"parts": parts, "withheld": sorted(self.withheld)}))
        force_file(path)

    @classmethod
    def read(cls, path: Path) -> _Contents:
        """Raises StateError if it is missing or damaged."""
        try:
            with sink_errors(path):
                found = orjson.loads(path.read_bytes())
            parts = {number: Checksum(size, digest) for number, size, digest in found["parts"]}
            return cls(parts, frozenset(found["withheld"]))
        except (ValueError, KeyError, TypeError) as error:
            raise StateError("it is damaged", where=str(path), hint=RESTORE) from error

    def files(self, directory: Path) -> Iterator[tuple[Path, Checksum]]:
        """The parts' files in order, with their checksums. Raises StateError if one is missing."""
        found = {number(path): path for path in part_files(directory)}
        for place, checksum in sorted(self.parts.items()):
            if place not in found:
                raise StateError(f"part {place} is missing", where=str(directory), hint=RESTORE)
            yield found[place], checksum


def typed_batches(path: Path, checksum: Checksum) -> Iterator[pa.RecordBatch]:
    """The typed events of a part, and rows to be deleted; other records are left out.

    Raises StateError if the part is damaged.
    """
    for batch in ArrowPart(path, checksum).committed():
        typed = topic_of(batch) is not None or removal_of(batch) is not None
        yield from ([batch] if typed else unpacked(batch))


def force_file(path: Path) -> None:
    """Force a file's content to disk."""
    with sink_errors(path), path.open("rb") as file:
        os.fsync(file.fileno())


def _waiting_turn(path: Path) -> WaitingTurn:
    return WaitingTurn(_turn_of(path), sum(part.stat().st_size for part in part_files(path)))


def _turn_of(path: Path) -> int:
    return int(path.name.removeprefix("turn-"))
