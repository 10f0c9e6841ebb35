"""What a MongoDB source works with besides its settings and its questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.mongodb.snapshot.chunk_reader import ChunkReader
    from adapters.mongodb.snapshot.initial import Held
    from adapters.source.initial import InitialSnapshot
    from adapters.source.log.span_encoder import SpanEncoder
    from engine.clock import Clock


@dataclass(frozen=True, slots=True)
class SourceTools:
    """Encodes spans, reads chunks, takes the initial snapshot, knows the time."""

    encoder: SpanEncoder
    chunks: ChunkReader
    initial: InitialSnapshot[Held]
    clock: Clock
