"""What the source of SQL Server works with; `job.py` puts it together, a test something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.sqlserver.chunks import ChunkReader
    from adapters.sqlserver.encode import SpanEncoder
    from adapters.sqlserver.history import History
    from adapters.sqlserver.reading import ChangeReader
    from adapters.sqlserver.tail import LogBounds


@dataclass(frozen=True, slots=True)
class Means:
    """What the source works with: encoders, readers, and the schema history if one is kept."""

    encoder: SpanEncoder
    chunks: ChunkReader
    changes: Callable[[str], ChangeReader]
    bounds: LogBounds
    history: History | None = None
