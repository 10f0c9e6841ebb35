"""What processes cost, from /proc: memory and CPU time of a process and all below it.

Memory is the proportional set size: a page that forked workers share counts once. Linux only.
"""

from __future__ import annotations

import os
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)
_PSS_OF_FILES = re.compile(rb"^Pss_File:\s+(\d+) kB", re.MULTILINE)
_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Stat:
    """A line of /proc/PID/stat: the parent, and CPU seconds of its own and of children that have ended."""

    parent: int
    own_s: float
    ended_s: float


def parse_stat(text: str, ticks_per_s: int = _TICKS_PER_S) -> Stat:
    """The name stands in parentheses and may hold anything, so fields are counted behind the last one."""
    fields = text[text.rindex(")") + 2 :].split()
    own, ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return Stat(int(fields[1]), own / ticks_per_s, ended / ticks_per_s)


def stats() -> dict[int, Stat]:
    """Of every process; one that ends meanwhile is left out."""
    found = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = parse_stat((folder / "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def below(root: int, parents: dict[int, int], without: Collection[int] = ()) -> set[int]:
    """A process and its descendants; those `without` are left out with theirs."""
    children: dict[int, list[int]] = {}
    for process, parent in parents.items():
        children.setdefault(parent, []).append(process)
    found, waiting = set(), [root]
    while waiting:
        process = waiting.pop()
        if process not in without and process not in found:
            found.add(process)
            waiting += children.get(process, [])
    return found


def _stats_below(root: int, without: Collection[int]) -> dict[int, Stat]:
    """Of a process and of those below it, as they are now."""
    seen = stats()
    tree = below(root, {process: stat.parent for process, stat in seen.items()}, without)
    return {process: seen[process] for process in tree if process in seen}


def cpu_seconds(root: int, without: Collection[int] = ()) -> float:
    """CPU time of a process, of those below it, and of those below it that have ended."""
    return sum(stat.own_s + stat.ended_s for stat in _stats_below(root, without).values())


def own_seconds(root: int, without: Collection[int] = ()) -> dict[int, float]:
    """CPU time of a process and of each below it, of its own."""
    return {process: stat.own_s for process, stat in _stats_below(root, without).items()}


def spent_s(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """What processes have spent that were there before and after. Who has gone meanwhile told nobody."""
    return sum(after[process] - before[process] for process in before.keys() & after.keys())


class Memory(NamedTuple):
    """Resident memory in MiB, shared pages in proportion.

    `mapped` is what of it are pages of files, which the system takes back when memory is short.
    """

    resident: float = 0.0
    mapped: float = 0.0


def memory_of(process: int) -> Memory:
    """The memory of a process; nothing of one that has ended."""
    try:
        told = (_PROC / str(process) / "smaps_rollup").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return Memory()
    return Memory(
        *(int(found[1]) / 1024 if (found := kind.search(told)) else 0.0 for kind in (_PSS, _PSS_OF_FILES))
    )


@dataclass(slots=True)
class Peak:
    """The most that was resident at once, in MiB, and what of it each part had then.

    `own` is the most at once without pages of files.
    """

    total: float = 0.0
    own: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)

    def add(self, sample: Sample) -> None:
        """Another sample."""
        total = sum(sample.parts.values())
        self.own = max(self.own, total - sample.mapped)
        if total > self.total:
            self.total, self.parts = total, sample.parts


@dataclass(slots=True)
class Sample:
    """MiB of this process as the driver, of its JVM, and of the workers, everything else below it.

    `mapped` is what of all these are pages of files.
    """

    parts: dict[str, float] = field(default_factory=lambda: {"driver": 0.0, "jvm": 0.0, "workers": 0.0})
    mapped: float = 0.0


def sample(without: Collection[int] = ()) -> Sample:
    """The memory of all that runs now."""
    found = Sample()
    for process in _stats_below(os.getpid(), without):
        memory = memory_of(process)
        found.parts[_part(process)] += memory.resident
        found.mapped += memory.mapped
    return found


def _part(process: int) -> str:
    if process == os.getpid():
        return "driver"
    try:
        return "jvm" if (_PROC / str(process) / "comm").read_text().strip() == "java" else "workers"
    except (FileNotFoundError, ProcessLookupError):
        return "workers"


@contextmanager
def peaking(without: Collection[int] = ()) -> Iterator[Peak]:
    """Sample all that runs below this process, servers left out, several times a second."""
    peak, stop = Peak(), threading.Event()

    def watch() -> None:
        while not stop.wait(_EVERY_S):
            peak.add(sample(without))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()
        peak.add(sample(without))
