"""Reads windows in memory: the adapter's conditions run on the rows that the adopted snapshot shows."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adapters.spark.windows.chunk_job import staged_runs
from adapters.spark.windows.jdbc_job import JdbcJob, read_fast
from engine.errors import SourceError
from engine.events.values.row_form import RowMode
from tests.simulation.faults import ERRORS, fallible
from tests.simulation.postgres.questions import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from adapters.postgres.server.questions.snapshots import Exported
    from adapters.postgres.snapshot.chunk_reader import RunRead
    from adapters.spark.windows.chunk_job import RunResult
    from engine.events.values.row_form import RowShape
    from engine.model import Staged
    from engine.staging.rows import StagingArea
    from tests.simulation.postgres.server import Process, SimServer
    from tests.simulation.world import Life

_SEPARATOR = "\x1f"
_TEXT = pa.large_string()


class SimPool(Executor):
    """Runs a window's reading once it was asked for often enough whether it is done.

    That it is done is told `lingers` questions later.
    """

    def __init__(self, polls: int, lingers: int = 0) -> None:
        self._polls, self._lingers = polls, lingers

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Begin the reading; what comes behind it (the removal of its rows) is done at once."""
        if self._polls < 0:
            function(*arguments, **named)
            return Future()
        reading = _Reading(lambda: function(*arguments, **named), self._polls, self._lingers)
        self._polls = -1
        return reading

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  the port's
        """Nothing is left."""


class _Reading(Future[Any]):
    """A reading that ends when it is asked about often enough."""

    def __init__(self, read: Callable[[], Any], polls: int, lingers: int) -> None:
        super().__init__()
        self._read, self._polls, self._begun = read, polls, False
        self._lingers = lingers

    def done(self) -> bool:
        """Whether the rows are read; the last question before reads them."""
        self._polls -= 1
        if not super().done() and self._polls < 0 and not self._begun:
            self._begun = True
            try:
                self.set_result(self._read())
            except Exception as error:  # noqa: BLE001  as a thread does
                self.set_exception(error)
        return super().done() and self._polls < -self._lingers

    def result(self, timeout: float | None = None) -> Any:
        """The result; whoever waits for it has it read."""
        self._lingers = 0
        while not self.done():
            pass
        return super().result(timeout)


class SimChunks:
    """What reads windows, in the place of Spark."""

    def __init__(self, server: SimServer, life: Life, area: StagingArea) -> None:
        self._server, self._life, self._area = server, life, area
        self._cancelled: set[str] = set()

    def reach(self) -> None:
        """There is no Spark."""

    def area(self, window_id: str) -> StagingArea:
        """Where a window's rows are staged."""
        return self._area.within(window_id)

    def cancel(self, window_id: str) -> None:
        """Stop reading a window."""
        self._cancelled.add(window_id)

    def read(
        self,
        window_id: str,
        reads: Sequence[RunRead],
        exported: Exported,
        *,
        most_tasks: int = 0,  # noqa: ARG002  one reads
    ) -> list[Staged]:
        """Read and stage all runs."""
        for fault in ("failed", "busy", "login", "room"):
            if self._life.fault(fault):
                raise ERRORS[fault]()  # noqa: RSE102  it makes the error
        process = self._server.process(self._life)
        try:
            process.held = self._server.exported(exported.id)
            results = read_fast(
                dict(enumerate(reads)),
                self.area(window_id),
                RowMode.EXACT,
                lambda some, mode, area: self._job(process, window_id, some, mode, area),
            )
        finally:
            process.close()
        return staged_runs(results, [read.run for read in reads])

    def _job(
        self,
        process: Process,
        window_id: str,
        reads: Mapping[int, RunRead],
        mode: RowMode,
        area: StagingArea,
    ) -> list[RunResult]:
        task = JdbcJob(reads, mode, area, 1).task()
        return task(self._batches(process, window_id, reads))

    def _batches(
        self, process: Process, window_id: str, reads: Mapping[int, RunRead]
    ) -> Iterator[pa.RecordBatch]:
        """Each run's rows. Its table is locked only when its query begins."""
        for index, read in reads.items():
            with fallible(self._life, "reading"):
                if window_id in self._cancelled:
                    raise SourceError("the window was cancelled")
                table = process.cluster.named(read.read.table.id)
                if table in self._server.waiting:
                    raise SourceError("canceling statement due to lock timeout")
                process.cluster.locks.setdefault(process.pid, set()).add(table.oid)
                rows = rows_of(table, process.snapshot(), read._where())
            if any((table.id, row.get("id", row.get("n"))) in self._life.world.poisoned for row in rows):
                raise SourceError("a row can't be read", place=table.id)
            texts = [_text(row, read.events.shape) for row in rows]
            yield pa.RecordBatch.from_arrays(
                [pa.array(texts, _TEXT), pa.array([index] * len(texts), pa.int32())], names=["r", "run"]
            )


def _text(row: Mapping[str, Any], shape: RowShape) -> str:
    """A row as the expression of `adapters/postgres/events/rows.py` writes it, in the fast form."""
    values = [row[name] for name in shape.columns]
    if None not in values:
        return _SEPARATOR.join(["f" * len(shape.flagged), *map(str, values)])
    flags = "".join("t" if values[at] is None else "f" for at in shape.flagged)
    return flags + "".join(_SEPARATOR + ("" if value is None else str(value)) for value in values)
