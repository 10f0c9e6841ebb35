"""The tables of the sinks `delta` and `iceberg` as copies: their rows, and the turns that touched them last.

A row is taken as one event of that turn, as a row of the sink `jdbc` is (`table_copy.py`). But turns wait in
a journal before they are merged, several at once. So a comparison waits until its turn is merged, and takes
the version that the table has then. If that has later turns already, it compares as of the last of these:

    turns of the job        40   41   42   43   44   45
    asked for                     ▲
    merged at once         ─────────────┤ ────────────┤
    compared as of                      42, the first version that has 41

Tasks read the version, digest its rows and sort them into files. The driver gets names of files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import orjson
import pyarrow as pa

from adapters.lake.table_name import CollectionTables
from adapters.lakehouse.batch import convert_columns, key_columns, table_columns
from adapters.lakehouse.digests import digests
from adapters.lakehouse.removal import Removal
from adapters.lakehouse.settings import TableMode
from adapters.lakehouse.tables.schema import Rules, plan_evolution
from adapters.verify.failures import as_source_errors
from adapters.verify.tables.known_tables import KnownTable, KnownTables
from adapters.verify.tables.lake_version import ExtraKeys, HeldVersion, Shape
from adapters.verify.tables.table_comparison import Ends, StaleComparison, TableComparison, Work
from engine.staging.rows import MERGE_KEY
from engine.verify.compared_digests import DIGEST
from engine.verify.copy import TouchedKeys

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from adapters.lake.row_columns import Columns
    from adapters.lake.table_name import TableName
    from adapters.lakehouse.settings import LakeSettings
    from adapters.lakehouse.sink import LakeSink
    from adapters.lakehouse.tables.spark_tables import SparkTables
    from adapters.verify.tables.table_comparison import Keys, Scan
    from engine.model import CollectionId
    from engine.ports.executors import Executors
    from engine.verify.copy import ComparisonRequest, ExtraRow, SeenRows, Span

_EMPTY_DIGESTS: Final = pa.schema([("key", DIGEST), ("row", DIGEST), MERGE_KEY])


@dataclass(slots=True)
class _Table(KnownTable):
    """What is known of a topic's table: what is compared of it, and the keys that only it has, too."""

    shape: Shape | None = None
    extra: ExtraKeys = field(default_factory=ExtraKeys)

    def learn(self, _keys: Keys, scan: Scan) -> None:
        """Keep the scan."""
        self.scans.add(scan)

    def learn_extra(self, extra: ExtraKeys) -> None:
        """Keep the keys of rows that only the table has."""
        self.extra = extra

    def forget(self) -> None:
        """Nothing that was found until now can be compared with what is read from now on."""
        KnownTable.forget(self)
        self.shape = None


class LakeCopy:
    """Implements `Copy` and `HoldsRows` for the tables of a sink. What is compared waits below `work`.

    `tables` reads them, in a session of its own. `place` has the directory, who runs tasks, and the source's
    database, for collections whose names don't have it.
    """

    def __init__(
        self,
        sink: LakeSink,
        tables: SparkTables,
        settings: LakeSettings,
        place: tuple[str, Executors, str],
    ) -> None:
        self._sink, self._reads = sink, tables
        self._history = settings.mode is TableMode.APPEND
        self._rules = Rules(settings.evolution, settings.type_change, tables.widens)
        self._work, self._executors, database = place
        self._tables = KnownTables(CollectionTables(sink.naming, database), sink.touched, _Table)
        self._compared = 0

    def follow(self, topics: Collection[str], turn: int) -> None:  # noqa: ARG002
        """Have the sink note which keys it touches."""
        self._tables.follow(topics)

    def refusal(self) -> str:
        """Only replicas have the rows of their source."""
        return "tables of changes are not replicas of their collections" if self._history else ""

    def learn(self, topic: str, captured: Mapping[str, CollectionId]) -> str:
        """Learn the name of a topic's table. Another topic may have the same one."""
        return self._tables.learn(topic, captured)

    def digested(self, rows: pa.Table) -> pa.Table:
        """Digest the rows as the table would have them."""
        topic = (rows.schema.metadata or {}).get(b"topic", b"").decode()
        found: list[pa.Table] = [_EMPTY_DIGESTS.empty_table()]
        with as_source_errors():
            for batch in rows.to_batches():
                if batch.num_rows:
                    keys, shown = self._digests(topic, batch)
                    arrays = [keys, shown, batch.column(MERGE_KEY.name)]
                    found.append(pa.Table.from_arrays(arrays, schema=_EMPTY_DIGESTS))
        return pa.concat_tables(found)

    def _digests(self, topic: str, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        table, columns = self._tables.read(topic, batch)
        if table.changed:
            # Nothing of it is compared: all will be read again.
            none = pa.repeat(pa.scalar(bytes(DIGEST.byte_width), DIGEST), batch.num_rows)
            return none, none
        if table.columns is None:
            table.columns, table.shape = columns, self._shape(table.name, columns)
        made, count = convert_columns(batch, columns), batch.num_rows
        given = table_columns(columns)
        every = [_given(made.get(field.name), field, count) for field in given]
        key = [every[given.get_field_index(column)] for column in key_columns(columns)]
        return digests(key), digests(every)

    def _shape(self, name: TableName, columns: Columns) -> Shape:
        """The columns under their names in the table, where values of new types may go to other columns."""
        found = self._reads.look(name)
        wanted = {field.name: self._reads.column_type(field.type) for field in table_columns(columns)}
        key = key_columns(columns)
        renamed = plan_evolution({} if found is None else found.columns, wanted, key, self._rules).renamed
        return Shape(
            tuple(renamed.get(column, column) for column in wanted),
            tuple(renamed.get(column, column) for column in key),
        )

    def compare(
        self, topic: str, seen: tuple[SeenRows, int], asked: ComparisonRequest
    ) -> TableComparison | StaleComparison:
        """Wait for the table and compare, in a thread."""
        rows, ticket = seen
        table = self._tables[topic]

        def stale() -> bool:
            emptied = self._sink.touched.last_truncate(topic) > asked.span.since
            if emptied or table.changed:
                table.forget()
                return True
            return False

        if stale():
            return StaleComparison()
        self._compared += 1
        table.scans.begin((ticket, asked.span.since))
        directory = f"{self._work}/{ticket}-{self._compared}"
        work = Work(directory, rows.path(ticket), rows.written(ticket).rows, table.scans.all)
        # A comparison that deletes nothing leaves the keys to the repair that may go on beside it.
        learn = table.learn_extra if asked.mends else _forget
        held = HeldVersion(self._sink, (self._reads, table.name, table.shape), stale, learn)

        def touched(upto: int) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
            for batch in self._sink.touched.since(topic, -1, upto):
                known = batch.filter(batch.column("key").is_valid())
                if known.num_rows:
                    yield known.column("key"), known

        return TableComparison(work, Ends(held, touched, table.learn), self._executors, asked)

    def touched_keys(self, topic: str, span: Span) -> TouchedKeys:
        """The keys that the sink has noted."""
        keys: set[bytes] = set()
        truncated = self._sink.touched.last_truncate(topic) > span.since
        if not truncated:
            for batch in self._sink.touched.since(topic, span.since, span.upto):
                keys.update(batch.column("key").to_pylist())
        return TouchedKeys(frozenset(keys), span.upto, truncated)

    def rows(self, topic: str, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:
        """The keys as JSON; rows are not looked up."""
        keys = self._tables[topic].extra
        return [(orjson.dumps(keys.shown(row.key)).decode(), None) for row in extra]

    def deletes(self, topic: str, extra: Sequence[ExtraRow]) -> pa.RecordBatch:
        """The keys to delete, as the table has them."""
        table = self._tables[topic]
        return Removal(table.name, table.extra.of(row.key for row in extra)).batch


def _forget(_extra: ExtraKeys) -> None:
    """Keep nothing."""


def _given(values: pa.Array | None, field: pa.Field, count: int) -> pa.Array:
    return pa.nulls(count, field.type) if values is None else values
