"""`python -m tests.golden DIR [NAME…]`: runs recorded cases and compares, a line per case.

A case whose recorded answer is wrong passes by our own answer; it is counted among the passed, and
once more as a documented difference. Exit code 1 if any case failed, 2 if there is none to run.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import TidemarkError
from tests.golden import engine_under_test
from tests.golden.case import Case, Source, case_folders, load_case
from tests.golden.compare import difference
from tests.golden.runner import CaseFailed, Runner
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.golden.event import Event


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a case: `fault` None is a pass, by a documented difference if `reason` is given."""

    fault: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        if self.fault is not None:
            return f"FAILED  {self.fault}"
        return "pass" if self.reason is None else f"pass, by a documented difference: {self.reason}"


def judge(case: Case, events: Sequence[Event]) -> Verdict:
    """Compare a run with the recorded events, and with our own answer where the case has one."""
    fault = difference(case, case.expected, events)
    if fault is None or case.documented is None:
        return Verdict(fault)
    own_fault = difference(case, case.documented.events, events)
    if own_fault is None:
        return Verdict(reason=case.documented.reason)
    return Verdict(f"(against the project's own answer) {own_fault}")


def verdict(folder: Path, run: Callable[[Case], Sequence[Event]]) -> Verdict:
    """Load, run and judge one case; whatever goes wrong on the way is its fault, not the program's."""
    try:
        case = load_case(folder)
        if case.source is not Source.POSTGRES:
            return Verdict(f"{case.source} cases are not supported yet")
        return judge(case, run(case))
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
    failed = sum(one.fault is not None for one in verdicts)
    documented = sum(one.reason is not None for one in verdicts)
    line = f"{len(verdicts) - failed} passed, {failed} failed"
    return f"{line}, {documented} by a documented difference" if documented else line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    options = _parser().parse_args(arguments)
    try:
        folders = chosen(case_folders(options.directory), options.names)
    except LookupError as exc:
        print(f"{exc} in {options.directory}", file=sys.stderr)
        return 2
    if not folders:
        print(f"no cases in {options.directory}", file=sys.stderr)
        return 2
    with PostgresServer(options.version) as server:
        report = _report if options.verbose else _silent
        runner = Runner(server, engine_under_test.start, options.timeout, report)
        verdicts = [_one(folder, runner) for folder in folders]
    print(summary(verdicts))
    return int(any(one.fault is not None for one in verdicts))


def _one(folder: Path, runner: Runner) -> Verdict:
    result = verdict(folder, runner.run)
    print(f"{folder.name}: {result}", flush=True)
    return result


def _report(text: str) -> None:
    print(f"    {text}", flush=True)


def _silent(_text: str) -> None:
    pass


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("directory", metavar="DIR", type=Path, help="folder of case folders")
    parser.add_argument("names", metavar="NAME", nargs="*", help="a case, or a pattern such as 'i*'")
    parser.add_argument("--version", type=int, choices=(15, 18), default=15, help="PostgreSQL to run on (15)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds to wait for the engine (60)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what psql complains of")
    return parser


if __name__ == "__main__":
    sys.exit(main())
