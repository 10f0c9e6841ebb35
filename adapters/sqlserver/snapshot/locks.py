"""Table locks while an initial snapshot begins or until it is read: `snapshot.isolation.mode`.

Owns the transactions that hold them, one per database, and the log position that they fix: after every change
committed before the locks, and before every later one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from adapters.sqlserver.server.questions import LogEndUnknown
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.sqlserver.server.connection import Server
    from adapters.sqlserver.server.position import LogPosition
    from adapters.sqlserver.server.questions import Questions
    from engine.model import CollectionId

_log = logging.getLogger("adapters")


class Locks:
    """Exclusive locks on tables of several databases. Raises TableBusy on a lock timeout."""

    def __init__(self, server: Server, tables: Sequence[CollectionId], timeout_ms: int) -> None:
        self._server, self._timeout_ms = server, timeout_ms
        self._held: dict[str, Questions] = {}
        try:
            for table in tables:
                self._lock(table)
        except SourceError:
            self.release()
            raise

    def _lock(self, table: CollectionId) -> None:
        self._transaction(table.database).lock(table)

    def _transaction(self, database: str) -> Questions:
        if database not in self._held:
            self._held[database] = self._server.open(database)
            self._held[database].begin(self._timeout_ms)
        return self._held[database]

    def is_alive(self) -> bool:
        """Ask whether all transactions are still open."""
        return all(questions.in_transaction() for questions in self._held.values())

    def release(self) -> None:
        """End the transactions."""
        held, self._held = self._held, {}
        for questions in held.values():
            questions.roll_back()
            questions.close()


def log_end(questions: Questions, captured: LogPosition) -> LogPosition:
    """The end of the transaction log; the greatest captured LSN where the login may not see the end."""
    try:
        return max(captured, questions.log_end())
    except SourceError as error:
        lacking = error.lacking if isinstance(error, LogEndUnknown) else "VIEW DATABASE STATE"
    _log.warning(
        "database %s: without %s the log begins where it was captured last; changes that"
        " were not captured yet are repeated after the rows that show them",
        *(questions.database, lacking),
    )
    return captured
