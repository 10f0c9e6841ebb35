"""What a PostgreSQL source works with besides its settings and its server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from adapters.postgres.events.span_encoder import PostgresSpans
    from adapters.postgres.snapshot.chunk_reader import ChunkReader
    from adapters.postgres.snapshot.initial import SlotTools
    from adapters.postgres.snapshot.slot_snapshot import Held
    from adapters.source.initial import InitialSnapshot
    from engine.clock import Clock


@dataclass(frozen=True, slots=True)
class SourceTools:
    """Encodes spans, reads chunks, takes the initial snapshot at its slot, and knows the time.

    `directory` is the job's own on this machine's disk.
    """

    spans: PostgresSpans
    chunks: ChunkReader
    initial: InitialSnapshot[Held]
    slot: SlotTools
    clock: Clock
    directory: Path
