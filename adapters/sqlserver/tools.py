"""The parts that the SQL Server source works with. `job.py` builds them; tests may pass others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from adapters.source.opening_window import opening_pool
from adapters.source.window_reader import one_thread
from adapters.sqlserver.log.reader import SqlServerLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from adapters.source.log.span_encoder import SpanEncoder
    from adapters.sqlserver.log.database_log import LogBounds
    from adapters.sqlserver.log.reader import DatabaseLog, Span
    from adapters.sqlserver.log.span_reader import ChangeReader
    from adapters.sqlserver.schema.history import History
    from adapters.sqlserver.snapshot.chunk_reader import ChunkReader
    from engine.clock import Clock
    from engine.model import Position

OpenLog: TypeAlias = (
    "Callable[[Sequence[DatabaseLog], Position, float, Callable[[], float], Sequence[Span]], SqlServerLog]"
)
"""`SqlServerLog`, or what takes its position."""


@dataclass(frozen=True, slots=True)
class SourceTools:
    """Encoders, readers, the time, and the schema history if there is one.

    `open_log` reads the databases' logs, and `pool` makes what a window's rows are read in.
    `opening` makes what a window's questions are asked in.
    """

    encoder: SpanEncoder
    chunks: ChunkReader
    changes: Callable[[str], ChangeReader]
    bounds: LogBounds
    clock: Clock
    history: History | None = None
    open_log: OpenLog = SqlServerLog
    pool: Callable[[], Executor] = one_thread
    opening: Callable[[], Executor] = opening_pool
