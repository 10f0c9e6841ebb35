"""The guards of the merge rule, each with what happens when it is taken out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from engine.job.snapshots import measurement
from engine.job.snapshots.opened_window import OpenedWindow
from engine.job.snapshots.windows_in_progress import WindowsInProgress
from engine.snapshot.merge import NewerKeys, SupersededKeys
from tests.exhaustive import engine_steps
from tests.exhaustive.engine_steps import EngineSteps
from tests.exhaustive.logs import logs
from tests.exhaustive.search import AFTER, BEFORE, WHOLE, Found, Search


@dataclass(frozen=True)
class Guard:
    """A guard: where it is, the invariant that it keeps, and what is in its place when it is taken out."""

    name: str
    where: str
    keeps: str
    out: tuple[tuple[Any, str, Callable[..., Any]], ...]

    @contextmanager
    def taken_out(self) -> Iterator[None]:
        """Without the guard, until the block ends."""
        patches = [patch.object(*place) for place in self.out]
        for replacement in patches:
            replacement.start()
        try:
            yield
        finally:
            for patched in patches:
                patched.stop()


_SURVIVORS = NewerKeys.survivors


def _without_truncates(newer: NewerKeys, keys: pa.ChunkedArray) -> pa.ChunkedArray | None:
    return _SURVIVORS(replace(newer, truncated=False), keys)


def _whatever_the_position(opened: OpenedWindow, _position: Any) -> bool:
    return opened.staged is not None


GUARDS = (
    Guard(
        "Entries supersede rows of open windows",
        "`WindowsInProgress.supersede`",
        AFTER,
        ((WindowsInProgress, "supersede", lambda _windows, _encoded: None),),
    ),
    Guard(
        "Entries streamed before a window opens, which it does not show, supersede its rows",
        "`OpenWindow.superseded`",
        AFTER,
        ((EngineSteps, "hidden", lambda engine, _missed: engine.nothing),),
    ),
    Guard(
        "A truncate supersedes every row",
        "`NewerKeys.survivors`",
        AFTER,
        ((NewerKeys, "survivors", _without_truncates),),
    ),
    Guard(
        "A window waits for the stream",
        "`OpenedWindow.may_emit`",
        BEFORE,
        ((OpenedWindow, "may_emit", _whatever_the_position),),
    ),
    Guard(
        "A row dropped for an entry that lacks a value is read again",
        "`SupersededKeys.unsent`",
        WHOLE,
        ((SupersededKeys, "unsent", lambda *_arguments: frozenset()),),
    ),
    Guard(
        "A row that moves without its value is read again",
        "`moved_rows.read_again`",
        WHOLE,
        tuple(
            (module, "with_moved", lambda snapshot, _moved: snapshot)
            for module in (measurement, engine_steps)
        ),
    ),
)


def counterexample(guard: Guard) -> tuple[str, Found]:
    """The shortest way to a violation without a guard, and the rows that are there at first."""
    with guard.taken_out():
        for transactions in (1, 2, 3):
            shortest: tuple[str, Found] | None = None
            engine = EngineSteps(2)
            for log in logs(2, transactions):
                found = Search(engine, log, 0, told=True).run()
                if found.violation and (shortest is None or len(found.steps) < len(shortest[1].steps)):
                    rows = [str(key) for key, row in enumerate(log.first) if row is not None]
                    shortest = (", ".join(rows) or "none", found)
            if shortest is not None:
                return shortest
    raise LookupError(guard.name)


def document() -> str:
    """All counterexamples as they stand in the documentation."""
    parts = [_HEAD]
    for guard in GUARDS:
        rows, found = counterexample(guard)
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(found.steps, 1))
        parts.append(
            f"## {guard.name}\n\n{guard.where}. Without it, with these rows at first: {rows}:\n\n{steps}\n\n"
            f"**Violated:** {found.violation}.\n"
        )
    return "\n".join(parts)


_HEAD = """# Why each guard is there

For each guard of the merge rule, the shortest history that violates an invariant without it. The exhaustive
search found them. `make prove ARGS=--document` writes this file, and a test compares it with what is found.
Entries are numbered in the order of the log. A row's version is the number of the entry that changed it last;
first rows have version 0.
"""
