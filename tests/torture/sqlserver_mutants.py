"""The guards that only SQL Server has, each to be switched off by name.

Not here: that rows are read with READCOMMITTEDLOCK. The stand-in has no row versions older than its log, so
nothing on it could need that. A unit test checks that each statement asks for the locks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapters.sqlserver.events.decode import Watch
from adapters.sqlserver.log import reader, span_planner
from adapters.sqlserver.server import change_statements
from adapters.sqlserver.server.position import LogPosition, after_lsn
from adapters.sqlserver.snapshot import watermark
from adapters.sqlserver.snapshot.locks import Locks
from adapters.sqlserver.snapshot.windows import OpenWindows
from tests.torture.mutants import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable


def _always(gives: Any) -> Callable[[Any], Any]:
    """A function that always returns this."""
    return lambda _was: lambda *_args, **_more: gives


def _from_its_beginning(positions_of: Any) -> Any:
    """A commit that was streamed in part is streamed again."""

    def positions(position: Any) -> Any:
        return [
            reached if reached.whole else LogPosition(after_lsn(reached.commit, -1))
            for reached in positions_of(position)
        ]

    return positions


SQLSERVER_MUTANTS: dict[str, Mutant] = {
    "changes supersede rows read": Mutant("in-window", ((OpenWindows, "watch", _always(Watch())),)),
    "the close row is waited for": Mutant(
        "late-capture", ((watermark.SignalRows, "reached", _always(gives=True)),)
    ),
    "the log's end is waited for": Mutant(
        "late-capture-read-only", ((watermark.LogEnd, "reached", _always(gives=True)),)
    ),
    "one instance tells of a change": Mutant("switched", ((span_planner, "_follows", _always(gives=False)),)),
    "going on inside a commit": Mutant("mid-commit", ((reader, "positions_of", _from_its_beginning),)),
    "changes follow their commands": Mutant("shifted", ((change_statements, "_command", _always("0")),)),
    "tables are locked": Mutant("locked", ((Locks, "_lock", _always(None)),)),
}
