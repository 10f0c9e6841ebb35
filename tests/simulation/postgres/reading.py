"""Reads windows in memory: the adapter's conditions run on the rows that the adopted snapshot shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adapters.postgres.snapshot.chunk_reader import rows_wanted
from adapters.spark.windows.chunk_job import staged_runs
from adapters.spark.windows.jdbc_job import JdbcJob, read_fast
from engine.errors import SourceError
from engine.events.values.row_form import RowMode
from tests.simulation.fallible_calls import fallible
from tests.simulation.postgres.questions import rows_of
from tests.simulation.window_chunks import WindowChunks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adapters.postgres.server.questions.snapshots import SnapshotExport
    from adapters.postgres.snapshot.eligibility import ReadTable
    from adapters.spark.windows.chunk_job import RunResult
    from adapters.spark.windows.jdbc_job import RunRead
    from engine.events.values.row_form import RowShape
    from engine.model import StagedRun
    from engine.staging.rows import StagingArea
    from tests.simulation.postgres.server import Process, SimServer
    from tests.simulation.world import Life

_SEPARATOR = "\x1f"
_TEXT = pa.large_string()


class SimChunks(WindowChunks):
    """What reads windows, in the place of Spark."""

    def __init__(self, server: SimServer, life: Life, area: StagingArea) -> None:
        super().__init__(life, area)
        self._server = server

    def read(
        self,
        window_id: str,
        reads: Sequence[RunRead[ReadTable]],
        exported: SnapshotExport,
        *,
        most_tasks: int = 0,  # noqa: ARG002  one reads
    ) -> list[StagedRun]:
        """Read and stage all runs."""
        self.fail_by("failed", "busy", "login", "room")
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
        reads: Mapping[int, RunRead[ReadTable]],
        mode: RowMode,
        area: StagingArea,
    ) -> list[RunResult]:
        task = JdbcJob(reads, mode, area, 1).task()
        return task(self._batches(process, window_id, reads))

    def _batches(
        self, process: Process, window_id: str, reads: Mapping[int, RunRead[ReadTable]]
    ) -> Iterator[pa.RecordBatch]:
        """Each run's rows. Its table is locked only when its query begins."""
        for index, read in reads.items():
            with fallible(self._life, "reading"):
                self.refuse_cancelled(window_id)
                if process.closed:
                    raise SourceError("the server closed the connection unexpectedly")
                table = process.cluster.named(read.read.table.id)
                if table in self._server.waiting:
                    raise SourceError("canceling statement due to lock timeout")
                process.cluster.locks.setdefault(process.pid, set()).add(table.oid)
                rows = rows_of(table, process.snapshot(), rows_wanted(read))
            if any((table.id, row.get("id", row.get("n"))) in self._life.world.poisoned for row in rows):
                raise SourceError("a row can't be read", where=table.id)
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
