"""The parts that the SQL Server source works with. `job.py` builds them; tests may pass others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.source.log.span_encoder import SpanEncoder
    from adapters.sqlserver.log.database_log import LogBounds
    from adapters.sqlserver.log.span_reader import ChangeReader
    from adapters.sqlserver.schema.history import History
    from adapters.sqlserver.snapshot.chunk_reader import ChunkReader
    from engine.clock import Clock


@dataclass(frozen=True, slots=True)
class SourceTools:
    """Encoders, readers, the time, and the schema history if there is one."""

    encoder: SpanEncoder
    chunks: ChunkReader
    changes: Callable[[str], ChangeReader]
    bounds: LogBounds
    clock: Clock
    history: History | None = None
