"""A directory in memory for the real state store and the real lease, with faults between any two steps.

It checks the state protocol while it stores: a state is promoted after its turn was sent, nothing is written
under the epoch of a job that has been relieved, what a crash left is removed before a state is read, and old
states are removed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adapters.storage.lease import newest_lease
from adapters.storage.state import KEPT
from adapters.storage.state_files import QUEUE, queues_named
from engine.errors import StateError
from tests.simulation.fallible_calls import fallible
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.simulation.fallible_calls import Process

_FIRST = "turn-000000000000."
"""The state saved before the first turn. It is no step: nothing was sent that it could be too late for."""
_PROMOTED = re.compile(r"turn-(\d+)\.json")
_CRASHES = 7
"""How many files more there may be: each crash may leave one that the next promotion removes."""
_PENDING = re.compile(r"turn-(\d+)\.(?:(\d+)\.)?pending\.json")


@dataclass
class Directory:
    """The files, which outlive every job."""

    files: dict[str, bytes] = field(default_factory=dict)
    stamps: dict[str, int] = field(default_factory=dict)
    changes: int = 0
    unforced: dict[str, str] = field(default_factory=dict)
    """Names that a power failure undoes, with what each was before."""
    sent: Callable[[int], bool] = lambda _turn: True
    """Whether the sink has a turn."""
    newest_lease: int = 0
    """The greatest number that a lease's file ever had, withdrawn ones included."""
    torn: dict[str, Process] = field(default_factory=dict)
    """Files that were written in part, with who wrote them."""

    def write(self, name: str, content: bytes) -> None:
        """Put a file there at once."""
        self.changes += 1
        self.files[name] = content
        self.stamps[name] = self.changes

    def rename(self, source: str, target: str, *, forced: bool) -> None:
        """Give a file another name at once."""
        self.write(target, self.files.pop(source))
        if forced:
            self.unforced.clear()
        else:
            self.unforced[target] = source

    def lose_power(self) -> int:
        """Undo what was not forced; returns how many names."""
        lost = [(target, source) for target, source in self.unforced.items() if target in self.files]
        for target, source in lost:
            self.write(source, self.files.pop(target))
        self.unforced.clear()
        return len(lost)


class MemoryStorage:
    """The `Storage` of one process over a directory."""

    location = "memory"

    def __init__(self, directory: Directory, process: Process) -> None:
        self._directory, self._process = directory, process
        self._left: list[str] = []
        """What no start needs, of the files that were listed last."""
        self._newest = -1

    def names(self) -> list[str]:
        """All files."""
        self._process.step("names")
        names = list(self._directory.files)
        if self._process.renewing:
            return names  # nobody but the lease hears of them
        self._judge_old(names)
        self._judge_named(names)
        self._newest = max(_turns(_PROMOTED, names), default=-1)
        self._left = [*self._in_part(names), *(name for name in names if self._is_settled(name))]
        return names

    def _judge_old(self, names: Iterable[str]) -> None:
        for kind, most in ((_PROMOTED, KEPT + _CRASHES), (QUEUE, KEPT + _CRASHES)):
            if len(kept := [name for name in names if kind.fullmatch(name)]) > most:
                raise Violation(f"what nobody needs any more is kept: {sorted(kept)}")

    def _judge_named(self, names: Iterable[str]) -> None:
        """Each promoted state that is kept can be read, with the queue that it refers to."""
        for name in names:
            if _PROMOTED.fullmatch(name) and (gone := queues_named(self._directory.files[name]) - set(names)):
                raise Violation(f"{name} refers to {sorted(gone)}, which is not there")

    def _judge_taken(self, name: str) -> None:
        """A pending state of a newer job is none of an older one's business."""
        pending = _PENDING.fullmatch(name)
        if pending and int(pending[2] or 0) > self._process.epoch and name in self._directory.files:
            raise Violation(f"{name} is taken away by the job of epoch {self._process.epoch}")

    def _is_settled(self, name: str) -> bool:
        """Whether it is a pending state whose turn was promoted when the files were listed last."""
        return max(_turns(_PENDING, [name]), default=self._newest + 1) <= self._newest

    def _in_part(self, names: Iterable[str]) -> Iterator[str]:
        """States that dead processes had written in part.

        A lease in part may be another process's that is about to take it, so it stays.
        """
        for name in names:
            process = self._directory.torn.get(name)
            if process is not None and process.dead and not name.startswith(".lease-"):
                yield name

    def read(self, name: str) -> bytes:
        """A file's content."""
        self._process.step("read")
        if self._is_settled(name):
            raise Violation(f"{name} is read, and turn {self._newest} is promoted")
        known = self._directory.files
        if name.startswith("turn-") and (left := [name for name in self._left if name in known]):
            raise Violation(f"a state is read, and what a crash left is still there: {left}")
        try:
            return self._directory.files[name]
        except KeyError:
            raise StateError("there is no such file", where=name) from None

    def create(self, name: str, content: bytes, *, forced: bool = True) -> None:
        """Write a file; torn, it leaves a partial file that nobody may read."""
        if name.startswith(_FIRST):
            self._directory.write(name, content)
            return
        with fallible(self._process, "create") as fault:
            if fault == "torn":
                partial = f".{name}.{self._directory.changes:032x}.partial"
                self._directory.write(partial, content[: len(content) // 2])
                self._directory.torn[partial] = self._process
            else:
                self._directory.write(name, content)
                if forced:
                    self._directory.unforced.clear()

    def create_new(self, name: str, content: bytes) -> bool:
        """Write a file unless it exists."""
        self._process.step("create_new")
        if name in self._directory.files:
            return False
        self._directory.write(name, content)
        self._directory.unforced.clear()
        self._directory.newest_lease = max(self._directory.newest_lease, newest_lease([name]))
        return True

    def refresh(self, name: str, content: bytes) -> None:
        """Give a file another stamp."""
        self._directory.write(name, content)

    def stamp(self, name: str) -> str:
        """What changes with each write."""
        if name not in self._directory.files:
            raise StateError("there is no such file", where=name)
        return str(self._directory.stamps[name])

    def rename(self, source: str, target: str, *, forced: bool = True) -> None:
        """Rename a file."""
        if source.startswith(_FIRST) and source in self._directory.files:
            self._directory.write(target, self._directory.files.pop(source))
            return
        with fallible(self._process, "rename") as fault:
            if source not in self._directory.files:
                raise StateError("there is no such file", where=source)
            self._judge_taken(source)
            promoted = _PROMOTED.fullmatch(target)
            if promoted and not self._directory.sent(int(promoted[1])):
                raise Violation(f"state {target} was promoted, and its turn was not sent")
            if fault == "torn":  # an object store copies the file, and then removes it
                self._directory.write(target, self._directory.files[source])
            else:
                self._directory.rename(source, target, forced=forced)

    def delete(self, name: str) -> None:
        """Remove a file, if it exists."""
        self._process.step("delete")
        self._judge_taken(name)
        self._directory.files.pop(name, None)

    def exists(self, name: str) -> bool:
        """Whether a file exists."""
        return name in self._directory.files


def is_lease(name: str) -> bool:
    """Whether a file is a lease."""
    return name.startswith("lease-")


def _turns(kind: re.Pattern[str], names: Iterable[str]) -> Iterator[int]:
    """The turns of these states."""
    return (int(match[1]) for name in names if (match := kind.fullmatch(name)))
