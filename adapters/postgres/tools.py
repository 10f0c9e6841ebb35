"""What a PostgreSQL source works with besides its settings and its server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.postgres.log.stream_opening import open_stream
from adapters.source.opening_window import opening_pool
from adapters.source.window_reader import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from adapters.postgres.events.span_encoder import PostgresSpans
    from adapters.postgres.log.stream_opening import OpenStream
    from adapters.postgres.snapshot.chunk_reader import ChunkReader
    from adapters.postgres.snapshot.initial import SlotTools
    from adapters.postgres.snapshot.slot_snapshot import HeldSnapshot
    from adapters.source.initial import InitialSnapshot
    from engine.clock import Clock
    from engine.model import CollectionId


@dataclass(frozen=True, slots=True)
class SourceTools:
    """Encodes spans, reads chunks, takes the initial snapshot at its slot, and knows the time.

    `directory` is the job's own on this machine's disk. `open_stream` opens the log, and `pool` makes what a
    window's rows are read in. `opening` makes what a window's snapshot is taken in. `admit` is
    `supplied.Places.admit`.
    """

    spans: PostgresSpans
    chunks: ChunkReader
    initial: InitialSnapshot[HeldSnapshot]
    slot: SlotTools
    clock: Clock
    directory: Path
    open_stream: OpenStream = open_stream
    pool: Callable[[], Executor] = one_thread
    opening: Callable[[], Executor] = opening_pool
    admit: Callable[[Sequence[CollectionId]], None] = lambda _tables: None
