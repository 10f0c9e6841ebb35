"""Mutants of what decides, and whether the simulator catches each: `python -m tests.simulation.mutants`.

Each mutant is played in a process of its own, forked before any of the engine is imported, until a history
violates something. A mutant that changes nothing that anyone could observe is listed with its proof.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import os
import re
import resource
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tests.simulation.equivalent import EQUIVALENT
from tests.simulation.mutate import Mutation, mutated, mutations

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterator, Sequence

_ROOT = Path(__file__).parents[2]
REGRESSIONS = Path(__file__).parent / "regressions"
_HANG_S = 40
TARGETS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "merge rule": (
        ("engine/snapshot/merge.py", ()),
        ("engine/snapshot/copies.py", ("sum_balances", "taken_copies", "remaining_rows")),
    ),
    "windows": (
        ("engine/job/snapshots/windows.py", ()),
        ("engine/job/snapshots/windows_in_progress.py", ()),
        ("engine/job/snapshots/opened_window.py", ("OpenedWindow.may_emit",)),
        ("engine/job/snapshots/emitter.py", ()),
        ("engine/job/snapshots/slice_record.py", ()),
        ("engine/snapshot/extent.py", ("Advance.apply_to", "_less")),
    ),
    "failure policy": (
        ("engine/snapshot/failure_policy.py", ()),
        (
            "engine/job/snapshots/window_scheduler.py",
            ("WindowScheduler.handle_failure", "WindowScheduler.restart_crowded"),
        ),
    ),
    "state protocol": (
        ("engine/job/startup.py", ("newest", "not_behind")),
        ("engine/job/checkpoint.py", ("Checkpoint.commit",)),
        (
            "engine/job/turns.py",
            ("Turns._finish", "Turns._send", "Turns._encode", "Turns._with_rows", "Turns._take"),
        ),
        (
            "adapters/storage/state.py",
            (
                "FileStateStore.load",
                "FileStateStore._take_over",
                "FileStateStore.promote",
                "FileStateStore.discard",
            ),
        ),
    ),
    "fencing": (
        ("engine/job/loop.py", ("Job._undisturbed",)),
        (
            "adapters/storage/lease.py",
            (
                "FileLease.try_take",
                "FileLease._holder",
                "FileLease._watch",
                "FileLease.renew",
                "FileLease._owner",
                "Leases.check",
                "Leases.confirm",
                "Leases.renew",
            ),
        ),
    ),
}
"""By group: files, and the functions in them; without any, all of them."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutation of a file."""

    group: str
    path: str
    mutation: Mutation

    @property
    def name(self) -> str:
        """The file's name, the function, the operator and what it changes."""
        return f"{Path(self.path).stem}.{self.mutation.name}"


def all_mutants() -> list[Mutant]:
    """Every mutant, in order."""
    return [
        Mutant(group, path, mutation)
        for group, places in TARGETS.items()
        for path, functions in places
        for mutation in mutations((_ROOT / path).read_text())
        if not functions or mutation.function in functions
    ]


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with the mutation."""

    mutation: Mutation

    def get_code(self, fullname: str) -> types.CodeType:
        """Compile the mutated tree; no cache."""
        path = self.get_filename(fullname)
        return compile(mutated(Path(path).read_text(), self.mutation), path, "exec")


class _Finder:
    """Finds the one module that is mutated."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._module = mutant.path.removesuffix(".py").replace("/", ".")

    def find_spec(self, fullname: str, _path: Any = None, _target: Any = None) -> Any:
        """The spec of the mutated module, None for others."""
        if fullname != self._module:
            return None
        loader = _Loader(fullname, str(_ROOT / self._mutant.path))
        loader.mutation = self._mutant.mutation
        return importlib.util.spec_from_loader(fullname, loader)


_LARGE = (
    *("bson", "confluent_kafka", "dateutil.tz", "msgspec", "numpy", "pandas", "prometheus_client", "psycopg"),
    *(
        "py4j.protocol",
        "pyarrow.compute",
        "pymongo",
        "pyspark.errors",
        "re2",
        "sqlalchemy",
        "sqlglot",
        "xxhash",
    ),
)


def preload() -> None:
    """Import what is large and not under test, once for all forks."""
    for name in _LARGE:
        importlib.import_module(name)


def _played(mutant: Mutant, first: int, count: int) -> str:
    """In a fork: what caught the mutant, empty for nothing. Its own saved history comes first."""
    from tests.simulation.script import draw  # noqa: PLC0415  it imports what is mutated
    from tests.simulation.world import World  # noqa: PLC0415

    for path in _histories():
        document = path.read_bytes()
        if mutant.name in _caught_by(document) and (violation := _replayed(document)):
            return f"{path.name}: {violation}"
    for seed in range(first, first + count):
        if violation := World(draw(seed)).play().violation:
            return f"seed {seed}: {violation}"
    return ""


def _histories() -> list[Path]:
    """The saved histories of all worlds that catch mutants, and all of the core."""
    catching = [path for path in REGRESSIONS.glob("*/*.json") if b'"catches"' in path.read_bytes()]
    return sorted([*REGRESSIONS.glob("*.json"), *catching])


def _caught_by(document: bytes) -> list[str]:
    """The names of the mutants that a saved history catches."""
    names = orjson.loads(document).get("catches", [])
    return [names] if isinstance(names, str) else names


def _replayed(document: bytes) -> str:
    """In a fork: what a saved history violates."""
    if b'"world"' not in document:
        from tests.simulation.script import from_json  # noqa: PLC0415  it imports what is mutated
        from tests.simulation.world import World  # noqa: PLC0415

        return World(from_json(document)).play().violation
    from tests.simulation.worlds import played, saved  # noqa: PLC0415  it takes seconds to import all of them

    return played(saved(document)).violation


def _violated() -> str:
    """In a fork: what saved histories violate without a mutant."""
    found = [(path, _replayed(path.read_bytes())) for path in _histories()]
    return "\n".join(f"{path.name}: {says}" for path, says in found if says)


def _saved(mutant: Mutant, first: int, count: int) -> str:
    """In a fork: find a history that catches the mutant, cut it down and save it."""
    from tests.simulation.script import draw, to_json  # noqa: PLC0415  it imports what is mutated
    from tests.simulation.shrink import shrunk  # noqa: PLC0415
    from tests.simulation.world import World  # noqa: PLC0415

    for seed in range(first, first + count):
        if violation := World(draw(seed)).play().violation:
            small = shrunk(draw(seed), lambda history: World(history).play().invariant)
            violation = World(small).play().violation
            path = REGRESSIONS / f"{_slug(mutant.name)}.json"
            path.write_text(to_json(small, {"catches": mutant.name, "says": violation}))
            return f"seed {seed}: {violation}"
    return ""


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:70].strip("-")


def in_fork(mutant: Mutant | None, play: Callable[[], str], hang_s: int = _HANG_S) -> str:
    """What `play` says in a fork with the mutant: empty for nothing. A mutant that hangs is caught.

    It hangs if it uses `hang_s` of processor time, or ten times that of any time.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10 * hang_s)
        resource.setrlimit(resource.RLIMIT_CPU, (hang_s, hang_s))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if mutant is not None:
            sys.meta_path.insert(0, _Finder(mutant))
        try:
            found = play() or "survived"
        except Exception as error:  # noqa: BLE001  a mutant that can't even run is caught, too
            found = f"broken: {type(error).__name__}: {error}"
        os.write(writing, found.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return "" if said == "survived" else said or "hung"


def survivors(
    mutants: Sequence[Mutant], play: Callable[[Mutant, int, int], str], first: int, count: int
) -> Iterator[Mutant]:
    """Play each mutant, print what became of it, and give those that nothing caught."""
    for number, mutant in enumerate(mutants, 1):
        begun = time.monotonic()
        found = in_fork(mutant, partial(play, mutant, first, count), _HANG_S + count // 4)
        took = time.monotonic() - begun
        print(
            f"{number}/{len(mutants)} {mutant.group}: {mutant.name} (line {mutant.mutation.line}): "
            f"{found[:110] or 'SURVIVED'} [{took:.1f} s]",
            flush=True,
        )
        if not found:
            yield mutant


def replayed() -> int:
    """Play each saved history, with its mutant and without; returns how much is not as it should be."""
    known = {mutant.name: mutant for mutant in all_mutants()}
    wrong = 0
    if says := in_fork(None, _violated):
        print(says)
        wrong += 1
    for path in _histories():
        document = path.read_bytes()
        for name in _caught_by(document):
            if name not in known:
                says = f"there is no mutant {name!r} any more; save another one with --save"
            elif not (says := in_fork(known[name], partial(_replayed, document))):
                says = f"does not catch {name!r} any more; save another one with --save"
            else:
                print(f"{path.name}: {says[:110]}")
                continue
            print(f"{path.name}: {says}")
            wrong += 1
    return wrong


def main() -> int:
    """Play all mutants, or a sample; the exit code says whether one survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="part of the name, or of the group")
    parser.add_argument("--every", type=int, default=1, help="take every n-th mutant")
    parser.add_argument("--offset", type=int, default=0, help="begin with this one")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=2000, help="how many histories a mutant may survive")
    parser.add_argument("--save", action="store_true", help="save the history that catches each")
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument("--saved", action="store_true", help="play what was saved")
    arguments = parser.parse_args()
    if arguments.saved:
        preload()
        return replayed()
    mutants = [
        m for m in all_mutants() if arguments.only in f"{m.group} {m.name}" and m.name not in EQUIVALENT
    ]
    mutants = mutants[arguments.offset :: arguments.every]
    if arguments.list:
        print("\n".join(f"{mutant.group}: {mutant.name} (line {mutant.mutation.line})" for mutant in mutants))
        return 0
    preload()
    begun = time.monotonic()
    play = _saved if arguments.save else _played
    left = list(survivors(mutants, play, arguments.seed, arguments.count))
    print(f"{len(mutants) - len(left)} of {len(mutants)} caught in {time.monotonic() - begun:.0f} s")
    print("\n".join(f"survived: {mutant.name} ({mutant.path}:{mutant.mutation.line})" for mutant in left))
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
