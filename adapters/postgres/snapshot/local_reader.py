"""Small windows, read by the driver itself: a Spark job takes longer than all of their rows.

The same queries under the same snapshot, and the same task; only who runs them differs.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adapters.postgres.server.connection import source_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    import psycopg

    from adapters.spark.chunk_job import ReadTask

_FIRST_ROWS = 100
_FETCH_ROWS = 2_000
_FETCH_BYTES = 4 << 20
_MOST_BYTES = 8 << 20
_CANCELLED_WITHIN_S = 5.0
_LOCK_TIMEOUT = "SET lock_timeout = '2s'"
"""Longer than a window waits before it gives way to whoever waits for a table."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What counts as small: so many rows at most, in chunks of `chunk_rows`; 0 rows: nothing does."""

    rows: int
    chunk_rows: int


@dataclass(frozen=True, slots=True)
class Query:
    """A query that gives `run` and `r`, the statement that its session begins with, its widest row."""

    session: str
    text: str
    row_bytes: float


class LocalReader:
    """Reads windows through a connection of their own each."""

    def __init__(self, connect: Callable[[], psycopg.Connection], bounds: Bounds) -> None:
        self._connect, self._bounds = connect, bounds
        self._open: dict[str, psycopg.Connection] = {}

    def takes(self, runs: Iterable[tuple[int, float]]) -> bool:
        """Whether a window is small, as far as was estimated: of each run its chunks and a row's bytes."""
        rows = [(chunks * self._bounds.chunk_rows, row_bytes) for chunks, row_bytes in runs]
        size = sum(count * row_bytes for count, row_bytes in rows)
        return sum(count for count, _row_bytes in rows) <= self._bounds.rows and size <= _MOST_BYTES

    def read(self, window_id: str, query: Query, task: ReadTask) -> list[dict[str, Any]]:
        """Run the task on the rows of a query; its results. Raises SourceError."""
        with source_errors("reading rows"), closing(self._connect()) as connection:
            self._open[window_id] = connection
            try:
                connection.execute(_LOCK_TIMEOUT)
                connection.execute(query.session.encode())
                # Closed here whatever happens: a cursor that is left to the collector warns when it goes.
                with closing(_batches(connection, query)) as fetched:
                    return [row for batch in task.staged(fetched) for row in batch.to_pylist()]
            finally:
                self._open.pop(window_id, None)

    def cancel(self, window_id: str) -> None:
        """Stop a window's query, if it is running."""
        connection = self._open.get(window_id)
        if connection is not None:
            connection.cancel_safe(timeout=_CANCELLED_WITHIN_S)


def _batches(connection: psycopg.Connection, query: Query) -> Generator[pa.RecordBatch]:
    """The rows as Spark would hand them to a task; never many bytes at once, however wrong the estimate."""
    fetched = _at_once(query.row_bytes, _FIRST_ROWS)
    with connection.cursor("tidemark") as cursor:
        cursor.execute(f"SELECT run, r FROM ({query.text}) AS q".encode())
        while rows := cursor.fetchmany(fetched):
            runs, texts = zip(*rows, strict=True)
            batch = pa.RecordBatch.from_arrays(
                [pa.array(texts, pa.string()), pa.array(runs, pa.int32())], names=["r", "run"]
            )
            yield batch
            fetched = _at_once(batch.nbytes / len(rows), _FETCH_ROWS)


def _at_once(row_bytes: float, most: int) -> int:
    return max(1, min(most, int(_FETCH_BYTES / max(row_bytes, 1.0))))
