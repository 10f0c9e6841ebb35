"""Reads the change rows of a planned span: small ones through the metadata connection, others through Spark.

One Spark job reads all capture instances of a span; each of its tasks reads a stretch of the log. Tables
whose values held the separator are remembered and read in the escaped form from then on, since it is likely
to recur.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from adapters.spark import kept_blocks
from adapters.spark.failures import job_error
from adapters.sqlserver.log.changes import (
    COLUMNS,
    RAW,
    Changes,
    Part,
    StageChanges,
    collided,
    in_order,
    raw_batch,
    unnumbered,
)
from adapters.sqlserver.server import change_statements
from adapters.sqlserver.server.rows import readable
from engine.events.values.row_form import RowMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from adapters.sqlserver.log.span_planner import PlannedSpan, Share
    from adapters.sqlserver.server.change_tables import ChangeTables
    from adapters.sqlserver.server.connection import Jdbc
    from adapters.sqlserver.server.table import Table
    from engine.staging.port import BlockStore

_FETCH_BYTES = 4 << 20
_MOST_FETCHED = 10_000
_FIRST_ROW_BYTES = 8 << 10


class JdbcOf(Protocol):
    """How Spark reaches a database."""

    def __call__(self, database: str, query: str, session: Sequence[str] = ()) -> Jdbc:
        """The driver, its options, and the query in the driver's form.

        The `session` statements apply to it.
        """


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """What was read: parts in log order, the form of each instance's rows, the last commit's time.

    `modes` are by instance index; `unnumbered` are the instances with rows without a command id. `committed`
    is by the server's clock and None without rows; that clock is `clock_minutes` ahead of UTC.
    """

    parts: tuple[Part, ...] = ()
    modes: Mapping[int, RowMode] = field(default_factory=dict)
    committed: str | None = None
    clock_minutes: int = 0
    unnumbered: frozenset[int] = frozenset()

    @property
    def rows(self) -> int:
        """The number of change rows."""
        return sum(part.rows for part in self.parts)


def forget(parts: Sequence[Part]) -> None:
    """Remove what was staged of parts that are no longer needed."""
    for part in parts:
        for staged in part.staged:
            staged.remove()


class ChangeReader:
    """Reads spans of one database. Used by the log's thread alone. `new_id` names what is staged."""

    def __init__(
        self,
        spark: SparkSession,
        jdbc: JdbcOf,
        database: str,
        store: BlockStore,
        new_id: Callable[[], str],
    ) -> None:
        self._spark, self._jdbc = spark, jdbc
        self._database, self._store, self._new_id = database, store, new_id
        self._escaped: set[str] = set()
        self.row_bytes = float(_FIRST_ROW_BYTES)

    def read(self, changes: ChangeTables, planned: PlannedSpan, tables: Mapping[str, Table]) -> ReadSpan:
        """The rows of a span. `tables` has each instance's table by the instance's name.

        Raises SourceError.
        """
        if not planned.shares or planned.rows == 0:
            return ReadSpan()
        while True:
            modes = {share.instance: self._mode(share) for share in planned.shares}
            if planned.rows is not None:
                read, again = self._local(changes, planned, tables, modes)
            else:
                read, again = self._far(planned, tables, modes)
            if not again:
                return read
            forget(read.parts)
            self._escaped |= {share.capture.name for share in planned.shares if share.instance in again}

    def _mode(self, share: Share) -> RowMode:
        return RowMode.ESCAPED if share.capture.name in self._escaped else RowMode.FAST

    def _local(
        self,
        changes: ChangeTables,
        planned: PlannedSpan,
        tables: Mapping[str, Table],
        modes: Mapping[int, RowMode],
    ) -> tuple[ReadSpan, set[int]]:
        found = changes.rows([_share_read(share, 0, tables, modes) for share in planned.shares])
        if not found:
            return ReadSpan(modes=modes), set()
        table = in_order([_raw(found)])
        batches = tuple(table.to_batches())
        self._learn(table.num_rows, table.nbytes)
        committed = max((row[_COMMITTED] for row in found if row[_COMMITTED]), default=None)
        again = collided(batches, _widths(planned.shares, tables, modes))
        read = ReadSpan((Part(len(found), batches=batches),), modes, committed)
        return replace(read, unnumbered=frozenset(unnumbered(batches))), again

    def _far(
        self, planned: PlannedSpan, tables: Mapping[str, Table], modes: Mapping[int, RowMode]
    ) -> tuple[ReadSpan, set[int]]:
        told = [
            _share_read(share, stretch, tables, modes)
            for stretch, asked in enumerate(planned.stretches)
            for share in asked
        ]
        # By instance first, so that each job has work for many tasks.
        told.sort(key=lambda share_read: (share_read.share.instance, share_read.task))
        widths = _widths(planned.shares, tables, modes)
        results = [
            result
            for portion in change_statements.portions(told)
            for result in self._portion(portion, widths)
        ]
        self._learn(
            sum(result.rows for _stretch, result in results),
            sum(result.bytes for _stretch, result in results),
        )
        parts = _parts(results)
        committed = max(
            (changes.committed for _stretch, changes in results if changes.committed), default=None
        )
        read = ReadSpan(
            parts, modes, committed, unnumbered=_union(changes.unnumbered for _stretch, changes in results)
        )
        return read, set(_union(changes.again for _stretch, changes in results))

    def _portion(
        self, told: Sequence[change_statements.ShareRead], widths: Mapping[int, int]
    ) -> Iterator[tuple[int, Changes]]:
        """The results of one job's tasks, each with the number of the stretch that the task read."""
        stretches = sorted({share_read.task for share_read in told})
        numbers = {stretch: task for task, stretch in enumerate(stretches)}
        query = change_statements.change_query(
            [replace(share_read, task=numbers[share_read.task]) for share_read in told]
        )
        stage = StageChanges(self._store, f"changes-{self._new_id()}", widths)
        for changes in self._job(query, len(stretches), stage):
            yield stretches[changes.task], changes

    def _job(self, query: str, tasks: int, stage: StageChanges) -> list[Changes]:
        jdbc = self._jdbc(self._database, query)
        fetched = max(1, min(_MOST_FETCHED, int(_FETCH_BYTES / self.row_bytes)))
        properties = {**jdbc.properties, "driver": jdbc.driver, "fetchsize": str(fetched)}
        predicates = [f"task = {task}" for task in range(tasks)]
        # Spark makes a batch in memory, whatever its bytes are.
        self._spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(fetched))
        try:
            frame = self._spark.read.jdbc(
                jdbc.url, f"({jdbc.query}) AS q", predicates=predicates, properties=properties
            )
            results = kept_blocks.run(frame.select(*COLUMNS), stage, self._store)
            return [result for result in results if result is not None]
        except Exception as error:
            raise job_error(error, "reading change tables", self._database) from error

    def _learn(self, rows: int, size: int) -> None:
        """Update the estimate of a row's size: raised at once, lowered by a factor of four at most."""
        if rows:
            self.row_bytes = max(1.0, size / rows, self.row_bytes / 4)


_COMMITTED = 1 + COLUMNS.index("committed")


def _parts(results: Sequence[tuple[int, Changes]]) -> tuple[Part, ...]:
    """One part per stretch that has rows, in log order, with what all jobs have staged."""
    found: dict[int, list[Changes]] = defaultdict(list)
    for stretch, result in results:
        found[stretch].append(result)
    return tuple(
        Part(sum(changes.rows for changes in group), tuple(changes.batches for changes in group))
        for _stretch, group in sorted(found.items())
    )


def _union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*sets)


def _raw(found: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """A batch from the rows of `ChangeTables.rows`, whose first column is the task."""
    _task, *columns = zip(*found, strict=True)
    kinds = [RAW.field(name).type for name in COLUMNS]
    return raw_batch([pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)])


def _share_read(
    share: Share, task: int, tables: Mapping[str, Table], modes: Mapping[int, RowMode]
) -> change_statements.ShareRead:
    columns = readable(tables[share.capture.name])
    return change_statements.ShareRead(share, columns, modes[share.instance], task)


def _widths(
    shares: Sequence[Share], tables: Mapping[str, Table], modes: Mapping[int, RowMode]
) -> dict[int, int]:
    """The column counts of the instances whose values are read unescaped."""
    return {
        share.instance: len(readable(tables[share.capture.name]))
        for share in shares
        if modes[share.instance] is RowMode.FAST
    }
