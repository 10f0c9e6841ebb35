"""Reads small windows in the driver, where a Spark job would take longer than reading all their rows.

It runs the same queries under the same snapshot, and the same task.
"""

from __future__ import annotations

from collections import deque
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa

from adapters.postgres.server.failures import source_errors
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    import psycopg

    from adapters.spark.windows.chunk_job import ReadTask, RunResult

_FIRST_ROWS = 100
_FETCH_ROWS = 2_000
_FETCH_BYTES = 4 << 20
_MOST_BYTES = 8 << 20
_CANCELLED_WITHIN_S = 5.0
_CANCELLED_KEPT = 1_000
"""Far more windows than are ever open at once; the ids of windows that have ended are forgotten."""
_LOCK_TIMEOUT = "SET lock_timeout = '2s'"
"""Longer than a window waits before it gives way to a session that waits for a table."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What counts as small: at most `rows` rows, counted in chunks of `chunk_rows`; 0: nothing does."""

    rows: int
    chunk_rows: int


@dataclass(frozen=True, slots=True)
class Query:
    """A query that returns `run` and `r`, its session's first statement, and the size of its widest row."""

    session: str
    text: str
    row_bytes: float


class LocalReader:
    """Reads each window through a connection of its own; any thread may cancel one."""

    def __init__(self, connect: Callable[[], psycopg.Connection], bounds: Bounds) -> None:
        self._connect, self._bounds = connect, bounds
        self._open: dict[str, psycopg.Connection] = {}
        self._cancelled: deque[str] = deque(maxlen=_CANCELLED_KEPT)
        self._lock = Lock()

    def takes(self, runs: Iterable[tuple[int, float]]) -> bool:
        """Whether a window is estimated to be small; `runs` has the chunks and the row bytes of each run."""
        rows = [(chunks * self._bounds.chunk_rows, row_bytes) for chunks, row_bytes in runs]
        size = sum(count * row_bytes for count, row_bytes in rows)
        return sum(count for count, _row_bytes in rows) <= self._bounds.rows and size <= _MOST_BYTES

    def read(self, window_id: str, query: Query, task: ReadTask) -> list[RunResult]:
        """Run the task on a query's rows and return its results. Raises SourceError, also once cancelled."""
        self._check(window_id)
        with source_errors("reading rows"), closing(self._connect()) as connection:
            self._open[window_id] = connection
            try:
                # The server ignores a cancel request between two statements, so each is preceded by a check.
                self._check(window_id)
                connection.execute(_LOCK_TIMEOUT)
                self._check(window_id)
                connection.execute(query.session.encode())
                # Closed here in every case: a cursor that the garbage collector closes logs a warning.
                with closing(_batches(connection, query, partial(self._check, window_id))) as fetched:
                    return task(fetched)
            finally:
                self._open.pop(window_id, None)

    def cancel(self, window_id: str) -> None:
        """Cancel a window's query if it is running, and refuse to read the window from now on."""
        with self._lock:
            self._cancelled.append(window_id)
        connection = self._open.get(window_id)
        if connection is not None:
            # A server that can't be reached does not answer the query, either.
            with suppress(SourceError), source_errors("cancelling the query of a window"):
                connection.cancel_safe(timeout=_CANCELLED_WITHIN_S)

    def _check(self, window_id: str) -> None:
        """Raise SourceError if the window has been cancelled."""
        with self._lock:
            cancelled = window_id in self._cancelled
        if cancelled:
            raise SourceError("the window was cancelled while its rows were read", where="postgresql")


def _batches(
    connection: psycopg.Connection, query: Query, check: Callable[[], None]
) -> Generator[pa.RecordBatch]:
    """The rows as Spark would hand them to a task; bounded in bytes even if the estimate is wrong.

    `check` raises SourceError if no more rows are wanted.
    """
    fetched = _at_once(query.row_bytes, _FIRST_ROWS)
    with closing(connection.cursor("tidemark")) as cursor, cursor:
        # Closing it twice: if the server is lost while it is closed, psycopg calls it open until asked again.
        check()
        cursor.execute(f"SELECT run, r FROM ({query.text}) AS q".encode())
        while rows := cursor.fetchmany(fetched):
            runs, texts = zip(*rows, strict=True)
            batch = pa.RecordBatch.from_arrays(
                [pa.array(texts, pa.string()), pa.array(runs, pa.int32())], names=["r", "run"]
            )
            yield batch
            check()
            fetched = _at_once(batch.nbytes / len(rows), _FETCH_ROWS)


def _at_once(row_bytes: float, most: int) -> int:
    return max(1, min(most, int(_FETCH_BYTES / max(row_bytes, 1.0))))
