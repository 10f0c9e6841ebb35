"""What is asked about the change tables of one database, and their rows where these are few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import SQLAlchemyError

from adapters.sqlserver.server import change_statements
from adapters.sqlserver.server.execution import rows
from adapters.sqlserver.server.failures import source_errors
from adapters.sqlserver.server.metadata import agent_status
from adapters.sqlserver.server.position import LogPosition, lsn_of_hex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from adapters.sqlserver.log.span_planner import Share
    from adapters.sqlserver.server.change_statements import BoundStatement, ShareRead

_BRANCHES = 50
"""The most change tables in one statement; the server compiles a plan for each."""


@dataclass(frozen=True, slots=True)
class ServerClock:
    """The server's time as text, `yyyy-mm-dd hh:mm:ss.nnn`, and how many minutes it is ahead of UTC."""

    minutes: int
    now: str


class ChangeTables:
    """Questions about change tables: those of `span_planner.Probes`, and what else the log's thread asks."""

    def __init__(self, connection: Connection, database: str) -> None:
        self._connection, self._database = connection, database

    def greatest(self) -> LogPosition | None:
        """The greatest LSN that the capture job has processed; None if it has processed none."""
        with source_errors("asking for the greatest LSN", self._database):
            found = rows(self._connection, change_statements.MAX_LSN)
        return LogPosition(lsn_of_hex(found[0][0])) if found and found[0][0] else None

    def least(self) -> dict[str, str]:
        """The commit from which each change table is complete, by capture instance.

        Zero where the login lacks the right to see it.
        """
        with source_errors("asking for the least LSNs", self._database):
            found = rows(self._connection, change_statements.LEAST_LSNS)
        return {name: lsn_of_hex(lsn) for name, lsn in found}

    def clock(self) -> ServerClock:
        """The server's clock, by which it dates commits."""
        with source_errors("asking for the server's clock", self._database):
            ((minutes, now),) = rows(self._connection, change_statements.CLOCK)
        return ServerClock(int(minutes), now)

    def agent_runs(self, query: str) -> bool | None:
        """Whether SQL Server Agent runs, by the configured query; None where this login may not see it."""
        try:
            found = rows(self._connection, agent_status(query, self._database))
        except SQLAlchemyError:
            return None
        return bool(found and found[0][0])

    def counts(self, asked: Sequence[Share], most: int) -> list[int]:
        """The number of rows of each share, up to `most`."""
        found = [0] * len(asked)
        for first in range(0, len(asked), _BRANCHES):
            few = asked[first : first + _BRANCHES]
            for share, count in self._answers(change_statements.counts(few, most)):
                found[first + share] = count
        return found

    def commits(self, asked: Sequence[Share], offsets: Sequence[int]) -> list[str | None]:
        """The commit of the row at each share's offset."""
        found: list[str | None] = [None] * len(asked)
        for first in range(0, len(asked), _BRANCHES):
            few, skipped = asked[first : first + _BRANCHES], offsets[first : first + _BRANCHES]
            for share, lsn in self._answers(change_statements.commits(few, skipped)):
                found[first + share] = lsn_of_hex(lsn)
        return found

    def changes(self, asked: Sequence[Share], step: int) -> list[list[tuple[int, str]]]:
        """The command and the LSN of about every `step`-th change."""
        found: list[list[tuple[int, str]]] = [[] for _share in asked]
        for first in range(0, len(asked), _BRANCHES):
            few = asked[first : first + _BRANCHES]
            for share, command, lsn in self._answers(change_statements.changes(few, step)):
                found[first + share].append((int(command), lsn_of_hex(lsn)))
        return [sorted(changes) for changes in found]

    def _answers(self, asked: BoundStatement) -> Sequence[tuple[Any, ...]]:
        with source_errors("asking change tables", self._database):
            found = rows(self._connection, asked.text, asked.parameters)
        return [(int(share), *values) for share, *values in found]

    def rows(self, reads: Sequence[ShareRead]) -> list[tuple[Any, ...]]:
        """The change rows of some shares, unordered: the task, then the columns of `log.changes.RAW`.

        LSNs are twenty hexadecimal digits.
        """
        found: list[tuple[Any, ...]] = []
        with source_errors("reading change tables", self._database):
            for portion in change_statements.portions(reads):
                asked = change_statements.change_rows(portion)
                found += rows(self._connection, asked.text, asked.parameters)
        return found
