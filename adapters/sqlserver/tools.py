"""What the source of SQL Server works with; `job.py` puts it together, a test something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.sqlserver.events.span_encoder import SpanEncoder
    from adapters.sqlserver.log.database_log import LogBounds
    from adapters.sqlserver.log.span_reader import ChangeReader
    from adapters.sqlserver.schema.history import History
    from adapters.sqlserver.snapshot.chunk_reader import ChunkReader


@dataclass(frozen=True, slots=True)
class SourceTools:
    """What the source works with: encoders, readers, and the schema history if one is kept."""

    encoder: SpanEncoder
    chunks: ChunkReader
    changes: Callable[[str], ChangeReader]
    bounds: LogBounds
    history: History | None = None
