"""Opens the log of the databases of one SQL Server at a position."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from adapters.sqlserver.log.capture_instances import check_dropped, check_reach, gone, marks_of
from adapters.sqlserver.log.database_log import DatabaseLogReader, LogContext
from adapters.sqlserver.log.reader import LogSlice, Span
from adapters.sqlserver.log.span_reader import ReadSpan
from adapters.sqlserver.server.position import ZERO, LogPosition, positions_of, shown
from adapters.sqlserver.settings import SqlServerSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.sqlserver.databases import Databases
    from adapters.sqlserver.log.reader import SqlServerLog
    from adapters.sqlserver.streamed_spans import StreamedSpans
    from adapters.sqlserver.tools import SourceTools
    from engine.config.settings import Settings
    from engine.job.saved.state import State
    from engine.model import CollectionId, Position

_log = logging.getLogger("adapters")


class LogOpening:
    """Opens the log, if the job `streams` one; else it opens a log that only has the first spans."""

    def __init__(
        self,
        settings: Settings,
        databases: Databases,
        tools: SourceTools,
        spans: StreamedSpans,
        *,
        streams: bool,
    ) -> None:
        self._settings, self._databases, self._tools = settings, databases, tools
        self._spans, self._streams = spans, streams
        # What is asked of a database is kept over all sessions.
        self._asking = {name: _asking(settings, databases, tools) for name in databases.names}

    def open(self, state: State, position: Position) -> SqlServerLog:
        """The log. Its first spans report shapes that are new since the state."""
        clock = self._tools.clock
        now_s = clock.now()
        told = [
            Span(
                position,
                position,
                number,
                LogSlice(
                    place,
                    ReadSpan(),
                    self._databases.instances(name),
                    now_s,
                    changed=True,
                    gaps=self._gaps(state, name, place),
                ),
            )
            for number, (name, place) in enumerate(
                zip(self._databases.names, positions_of(position), strict=True)
            )
        ]
        if not self._streams:
            return self._tools.open_log([], position, 3600.0, clock.monotonic, told)
        saved = state.memory.get("databases", {})
        readers = [
            self._reader_of(name, saved.get(name, {}).get("instances", ())) for name in self._databases.names
        ]
        _log.info("reading the change tables from %s", shown(position))
        poll_s = self._settings.source_as(SqlServerSettings).poll_interval_ms / 1000
        return self._tools.open_log(readers, position, poll_s, clock.monotonic, told)

    def _gaps(self, state: State, name: str, position: LogPosition) -> dict[CollectionId, str]:
        """The tables whose changes were cleaned up, or whose change table was dropped, while no job ran."""
        if not self._streams:
            return {}
        known = marks_of(state.memory.get("databases", {}).get(name, {}).get("instances", ()))
        captures = self._databases.instances(name).captures
        signals = self._settings.source_as(SqlServerSettings).signal_tables
        # While no instance is gone, a table whose changes begin behind the position was enabled there.
        streamed = dict.fromkeys(self._spans.streamed if gone(known, captures) else (), ZERO)
        return {
            **check_dropped(streamed, captures, position, signals),
            **check_reach(known, captures, position, signals),
        }

    def _reader_of(self, name: str, saved: Sequence[Sequence[Any]]) -> DatabaseLogReader:
        ask, instances = partial(self._databases.open, name), self._databases.instances(name)
        reader = self._tools.changes(name)
        asking = replace(self._asking[name], fork=self._databases.forks.told.get(name))
        return DatabaseLogReader(name, ask, reader, asking, instances, marks_of(saved))


def _asking(settings: Settings, databases: Databases, tools: SourceTools) -> LogContext:
    """How a database's log is read, in every session."""
    sqlserver = settings.source_as(SqlServerSettings)
    return LogContext(
        tools.clock,
        tools.bounds,
        sqlserver.agent_status_query,
        never=sqlserver.signal_tables,
        captures=databases.captures,
    )
