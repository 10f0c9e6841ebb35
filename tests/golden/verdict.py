"""What becomes of a case: a pass, a pass by a documented difference, or a fault."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import TidemarkError
from tests.golden.case import Case, load_case
from tests.golden.compare import difference
from tests.golden.event import Event
from tests.golden.runner import CaseFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a case: `fault` None is a pass, by a documented difference if `reason` is given."""

    fault: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        if self.fault is not None:
            return f"FAILED  {self.fault}"
        return "pass" if self.reason is None else f"pass, by a documented difference: {self.reason}"


Order = Callable[[tuple[Event, ...]], tuple[Event, ...]]
"""In which order events are compared: a road may not keep the one in which they were sent."""


def as_sent(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """The order in which they were sent."""
    return events


def judge(case: Case, events: Sequence[Event], order: Order = as_sent) -> Verdict:
    """Compare a run with the recorded events, and with our own answer where the case has one."""
    events = order(tuple(events))
    fault = difference(case, order(tuple(case.expected)), events)
    if fault is None or case.documented is None:
        return Verdict(fault)
    own_fault = difference(case, order(tuple(case.documented.events)), events)
    if own_fault is None:
        return Verdict(reason=case.documented.reason)
    return Verdict(f"(against the project's own answer) {own_fault}")


def verdict(folder: Path, run: Callable[[Case], Sequence[Event]], order: Order = as_sent) -> Verdict:
    """Load, run and judge one case; whatever goes wrong on the way is its fault, not the program's."""
    try:
        case = load_case(folder)
        return judge(case, run(case), order)
    except (CaseFailed, TidemarkError) as exc:
        return Verdict("; ".join(str(exc).splitlines()))
    except Exception as exc:  # noqa: BLE001  (the other cases must run)
        return Verdict("; ".join(f"{type(exc).__name__}: {exc}".splitlines()))


def chosen(folders: Sequence[Path], names: Sequence[str]) -> list[Path]:
    """The folders that the names pick, as shell patterns; all without names. LookupError for a wrong name."""
    for name in names:
        if not fnmatch.filter([folder.name for folder in folders], name):
            raise LookupError(f"no case {name!r}")
    return [
        folder for folder in folders if not names or any(fnmatch.fnmatch(folder.name, name) for name in names)
    ]


def summary(verdicts: Sequence[Verdict]) -> str:
    """The closing line."""
    failed = sum(finding.fault is not None for finding in verdicts)
    documented = sum(finding.reason is not None for finding in verdicts)
    line = f"{len(verdicts) - failed} passed, {failed} failed"
    return f"{line}, {documented} by a documented difference" if documented else line
