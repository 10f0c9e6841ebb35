"""The guards that are SQL Server's own, each to be switched off by name.

Not here: that rows are read behind their writers' locks. The stand-in has no row versions that lag behind
its log, so nothing on it could need them; that each statement asks for the locks is a unit test's to see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapters.sqlserver import database, log, spans, statements, watermark
from adapters.sqlserver.decode import Watch
from adapters.sqlserver.locks import Locks
from adapters.sqlserver.place import Place, after_lsn
from tests.torture.mutants import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable


def _always(gives: Any) -> Callable[[Any], Any]:
    """A function that gives this, whatever it is asked."""
    return lambda _was: lambda *_args, **_more: gives


def _from_its_beginning(places_of: Any) -> Any:
    """A commit that was streamed in part is streamed again."""

    def places(position: Any) -> Any:
        return [one if one.whole else Place(after_lsn(one.commit, -1)) for one in places_of(position)]

    return places


_SOURCE = database.SqlServerSource
SQLSERVER_MUTANTS: dict[str, Mutant] = {
    "changes supersede rows read": Mutant("in-window", ((_SOURCE, "_watch", _always(Watch())),)),
    "the close row is waited for": Mutant(
        "late-capture", ((watermark.SignalRows, "reached", _always(gives=True)),)
    ),
    "the log's end is waited for": Mutant(
        "late-capture-read-only", ((watermark.LogEnd, "reached", _always(gives=True)),)
    ),
    "one instance tells of a change": Mutant("switched", ((spans, "_follows", _always(gives=False)),)),
    "going on inside a commit": Mutant("mid-commit", ((log, "places_of", _from_its_beginning),)),
    "changes follow their commands": Mutant("shifted", ((statements, "_command", _always("0")),)),
    "tables are locked": Mutant("locked", ((Locks, "_lock", _always(None)),)),
}
