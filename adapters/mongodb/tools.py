"""What a MongoDB source works with besides its settings and its questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from adapters.mongodb.log.reader import MongoLog
from adapters.source.opening_window import opening_pool
from adapters.source.window_reader import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from adapters.mongodb.log.reader import LogBounds, Polls
    from adapters.mongodb.log.stream import ChangeStream
    from adapters.mongodb.snapshot.chunk_reader import ChunkReader
    from adapters.mongodb.snapshot.initial import HeldSnapshot
    from adapters.source.initial import InitialSnapshot
    from adapters.source.log.span_encoder import SpanEncoder
    from engine.clock import Clock
    from engine.model import Position

OpenLog: TypeAlias = "Callable[[ChangeStream, Position, Callable[[], float], LogBounds, Polls], MongoLog]"
"""`MongoLog`, or what takes its place."""


@dataclass(frozen=True, slots=True)
class SourceTools:
    """Encodes spans, reads chunks, takes the initial snapshot, knows the time.

    `open_log` reads an open stream, and `pool` makes what a window's rows are read in.
    `opening` makes what a window's questions are asked in.
    """

    encoder: SpanEncoder
    chunks: ChunkReader
    initial: InitialSnapshot[HeldSnapshot]
    clock: Clock
    open_log: OpenLog = MongoLog
    pool: Callable[[], Executor] = one_thread
    opening: Callable[[], Executor] = opening_pool
