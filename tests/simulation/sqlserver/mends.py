"""Faults that were once found, or that a guard is for, brought back: each takes a mend out by name.

`python -m tests.simulation.sqlserver.mends` draws histories until each fault is found again, cuts them down
and saves them as regression seeds; `--saved` plays those, with and without the mend.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from adapters.sqlserver import log_opening, source
from adapters.sqlserver.events.decode import Watch
from adapters.sqlserver.log import database_log, entries
from adapters.sqlserver.snapshot import initial, watermark
from adapters.sqlserver.snapshot.tables import SqlServerTables
from adapters.sqlserver.snapshot.windows import OpenWindows
from engine.job import loop
from tests.simulation.mends import Mends
from tests.simulation.sqlserver.script import draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.job.saved.state import State

REGRESSIONS = Path(__file__).parents[1] / "regressions" / "sqlserver"
_keys, _readings = entries._keys, SqlServerTables.readings


def _by_seqval(commits: Any, commands: Any, changes: Any, operations: Any) -> Any:
    """Order the changes of a commit by their LSNs alone."""
    return _keys(commits, commands * 0, changes, operations)


def _unlocked(tables: SqlServerTables, targets: Any, *catalogs: Any) -> Any:
    """Read rows that may never be committed."""
    found = _readings(tables, targets, *catalogs)
    return {target: replace(read, hint="NOLOCK") for target, read in found.items()}


def _true(*_arguments: Any) -> bool:
    return True


@contextmanager
def _both(*patches: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for replacement in patches:
            stack.enter_context(replacement)
        yield


_check_kept = database_log.DatabaseLogReader._check_kept


def _kept_since_planned(log: Any, questions: Any, _after: Any, planned: Any) -> None:
    _check_kept(log, questions, planned.after, planned)


_open_log = source.SqlServerSource.open_log


def _without_instances(self: source.SqlServerSource, state: State) -> Any:
    opened, log = _open_log(self, state)
    memory = {name: saved for name, saved in opened.memory.items() if name in {*state.memory, "first"}}
    return replace(opened, memory=memory), log


MENDS: Mapping[str, Callable[[], Any]] = {
    "key-shift-in-one-transaction": lambda: patch.object(entries, "_keys", _by_seqval),
    "streamed-meanwhile": lambda: patch.object(OpenWindows, "watch", lambda *_: Watch()),
    "closing-row": lambda: patch.object(watermark.SignalRows, "reached", _true),
    "end-of-the-log": lambda: patch.object(watermark.LogEnd, "reached", _true),
    "measured-before-the-fork": lambda: patch.object(loop, "restart_unread", lambda snapshot: snapshot),
    "another-instance": lambda: patch.object(OpenWindows, "note_switch", lambda *_: None),
    "cleaned-up-while-it-was-planned": lambda: patch.object(
        database_log.DatabaseLogReader, "_check_kept", _kept_since_planned
    ),
    "cleaned-up-before-the-first-turn": lambda: patch.object(
        source.SqlServerSource, "open_log", _without_instances
    ),
    "cleaned-up-change-table": lambda: _both(
        patch.object(database_log, "check_reach", lambda *_: {}),
        patch.object(database_log, "check_kept", lambda *_: {}),
        patch.object(initial, "check_reach", lambda *_: {}),
        patch.object(log_opening, "check_reach", lambda *_: {}),
        # It sees most of what these are for.
        patch.object(database_log, "check_dropped", lambda *_: {}),
        patch.object(log_opening, "check_dropped", lambda *_: {}),
    ),
    "instance-dropped-too-early": lambda: _both(
        patch.object(database_log, "check_dropped", lambda *_: {}),
        patch.object(log_opening, "check_dropped", lambda *_: {}),
    ),
    "another-fork": lambda: patch.object(initial, "check_fork", lambda *_: ""),
    "locks-of-readers": lambda: patch.object(SqlServerTables, "readings", _unlocked),
}
"""By name, what takes the mend out."""

FAULTS = Mends(MENDS, REGRESSIONS, draw)

if __name__ == "__main__":
    sys.exit(FAULTS.main("tests.simulation.sqlserver.mends", __doc__ or ""))
