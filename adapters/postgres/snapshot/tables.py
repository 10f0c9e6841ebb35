"""The tables of a source, their sizes, and where to cut them: the engine's `Tables` on PostgreSQL.

Decides what a table's extent and boundaries are. All questions for them use the key's index.
`eligibility.py` decides whether and how a table can be read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from adapters.postgres.conditions.planning import ConditionPlanning
from adapters.postgres.server.failures import table_errors
from adapters.postgres.server.sql import quote_table
from adapters.postgres.server.table import is_bag
from adapters.postgres.snapshot.eligibility import RISK_TAKEN
from adapters.postgres.snapshot.keyset import BY_CTID, page_start, page_starts
from adapters.postgres.snapshot.scope import scoped
from adapters.postgres.snapshot.table_changes.older_writers import PublishedTables, Writers, patience
from adapters.postgres.snapshot.table_changes.partitions import Partitions
from adapters.source.conditions.checking_time import CheckingTime
from engine.errors import InvariantError, SchemaChanged, SignalError, TableBusy
from engine.snapshot.extent import WHOLE_BYTES, Extent, dense_span
from engine.snapshot.scope import ScopedCollection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.postgres.server.publication import Publication
    from adapters.postgres.server.questions.probes import TableProbes
    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.snapshot.blocking import BlockingView, BlockingViews
    from adapters.postgres.snapshot.eligibility import CatalogAnswer, Eligibility, ReadTable
    from engine.clock import Clock
    from engine.model import CollectionId, Key, Range, Target

_INTEGERS = frozenset(quote_table("pg_catalog", name) for name in ("int2", "int4", "int8"))


@dataclass(frozen=True, slots=True)
class _Measurement:
    """What is known of tables that are measured together, and how long to wait for writers."""

    looked: CatalogAnswer
    sizes: Mapping[int, tuple[int, float]]
    until_s: float
    bounded: bool


def _collections(targets: Sequence[Target]) -> list[CollectionId]:
    return list(dict.fromkeys(target.collection for target in targets))


def _refuse_other_key(read: ReadTable, bound: Key) -> None:
    """Raise SchemaChanged if a bound has more or fewer columns than the table's key has now."""
    if len(bound) != len(read.keyset.columns):
        raise SchemaChanged("its key was changed", where=read.table.id)


class PostgresTables:
    """Asks over one connection, which only the job's thread uses.

    `plan_on` opens other connections, on which conditions are planned; its argument is how many seconds an
    answer may take.
    """

    def __init__(  # noqa: PLR0913  the last three are for the assembled source alone
        self,
        questions: Questions,
        publication: Publication,
        eligibility: Eligibility,
        clock: Clock,
        *,
        blocking: BlockingViews | None = None,
        whole_bytes: int | None = None,
        plan_on: Callable[[float], Questions] | None = None,
    ) -> None:
        self._questions, self._publication, self._eligibility = questions, publication, eligibility
        self._clock, self._blocking = clock, blocking
        self._checking = CheckingTime(clock.monotonic)
        self._planning = ConditionPlanning(questions, self._checking, plan_on)
        self._whole_bytes = WHOLE_BYTES if whole_bytes is None else whole_bytes
        self._row_bytes: dict[CollectionId, float] = {}
        self.ids: dict[int, CollectionId] = {}
        """The tables that were looked up, by oid."""
        self._writers = Writers(questions.locks, clock)
        self.partitions = Partitions(questions.layouts)

    def note_published(self, saved: Mapping[str, Any] | None) -> PublishedTables:
        """Record which tables are published now; returns what to save. `saved` is the last record."""
        marks = self._publication.marks(self._questions.publications)
        noted = PublishedTables.now(marks, self._questions.transactions.next_id(), saved)
        self._writers = Writers(self._questions.locks, self._clock, noted)
        return noted

    def captured(self) -> Sequence[CollectionId]:
        """The tables whose changes are captured."""
        return self._publication.captured(self._questions.publications)

    def groups(self) -> Mapping[CollectionId, Sequence[CollectionId]]:
        """Partitioned tables whose partitions are captured under their own names."""
        return self._publication.groups(self._questions.publications)

    def measure(
        self, targets: Sequence[Target], *, bounded: bool = False
    ) -> list[Extent | SignalError | TableBusy]:
        """The extent of each table, or why it can't be read, now or at all."""
        if self._blocking is not None:
            self._blocking.want(target.collection for target in targets if target.blocking)
        looked = self._looked_up(targets)
        sizes = self._questions.probes.sizes([table.oid for table in looked.tables.values()])
        measuring = _Measurement(looked, sizes, patience(self._clock), bounded)
        try:
            return [self._judged(target, measuring) for target in targets]
        finally:
            self._planning.end()

    def _looked_up(
        self, targets: Sequence[Target], *, defaults: bool = False, looked: CatalogAnswer | None = None
    ) -> CatalogAnswer:
        looked = looked or self._eligibility.look_up(_collections(targets), defaults=defaults)
        self.ids |= {table.oid: name for name, table in looked.tables.items()}
        self.partitions.note(looked)
        return looked

    def _judged(self, target: Target, measuring: _Measurement) -> Extent | SignalError | TableBusy:
        try:
            with table_errors("measuring the table", target.collection):
                return self._measured(target, measuring)
        except (SignalError, TableBusy) as error:
            return error
        except SchemaChanged as error:
            return error.recast(SignalError)

    def row_bytes(self, target: Target) -> float:
        """The estimated size of a row, from the last measurement."""
        return self._row_bytes.get(target.collection, 1000.0)

    def _measured(self, target: Target, measuring: _Measurement) -> Extent:
        read = self._eligibility.reading(target, measuring.looked)
        if not target.initial:
            self._eligibility.check_operations(read.table)
        if not (target.initial and self._eligibility.shares_snapshot(target)):
            self.await_writers(read, measuring.until_s)
        if read.condition is not None:
            self._planning.check(read.table.id, read.relation, read.condition)
        if target.blocking and read.keyset == BY_CTID and not self._eligibility.shares_snapshot(target):
            # Places mean nothing outside the snapshot that they are read in.
            self.blocking_view([target])
            read = self._eligibility.reading(target, measuring.looked)
        size, tuples = measuring.sizes.get(read.table.oid, (0, -1.0))
        probes = self._questions.probes
        rows = probes.plan(read.relation).rows if tuples <= 0 and size else int(max(tuples, 0))
        self._row_bytes[target.collection] = size / max(rows, 1)
        key, schema = read.fingerprint, read.schema
        small = size <= self._whole_bytes and not measuring.bounded and read.scope is None
        if small or not self._divisible(read, target):
            probes.check_readable(read.relation)
            # What can't be cut counts as having 0 rows, so that splitting after a fault ends.
            return Extent(0 if measuring.bounded else rows, size, whole=True, key=key, schema=schema)
        if read.keyset == BY_CTID:
            return Extent(
                rows, size, greatest=page_start(probes.pages(read.table.oid)), key=key, schema=schema
            )
        # Rows from before the log may be visible only in the slot's own snapshot.
        held = self._eligibility.held_session(target)
        seen = held.probes if held is not None else probes
        greatest = seen.key(read.keyset.texts, read.relation, read.keyset.reverse_order)
        # A table's size is too small where its rows compress well.
        size = max(size, int(rows * probes.last_rows_bytes(read.relation, read.keyset.reverse_order)))
        self._row_bytes[target.collection] = size / max(rows, 1)
        span = self._span(read, greatest, rows, seen)
        part = None
        if target.scope is not None and read.scope is not None:
            with self._checking.of(target.collection):
                part = scoped(target.scope, read.scope, read, probes, ScopedCollection(rows, greatest, span))
        return Extent(rows, size, greatest=greatest, span=span, key=key, scoped=part, schema=schema)

    def _divisible(self, read: ReadTable, target: Target) -> bool:
        """Whether a table's rows and their places stay the same from one query to the next."""
        if read.statement is not None:
            # With a limit, each query might return other rows.
            return not self._questions.probes.plan(read.relation).limited and read.keyset != BY_CTID
        if read.keyset != BY_CTID:
            return True
        # Equal rows are anywhere. What a blocking snapshot's view lacks takes so many copies from the rows of
        # one run, so one run must have all of them; before the log, nothing takes any.
        return self._eligibility.shares_snapshot(target) and not (target.blocking and is_bag(read.table))

    def await_writers(self, read: ReadTable, until_s: float = 0.0) -> None:
        """Raise TableBusy while a transaction may hold changes from before the table was published."""
        try:
            self._writers.wait(read.table.oid, read.mark, read.table.id, until_s)
        except TableBusy as error:
            accepted = self._eligibility.accepts_risk(read.table.id)
            said = f"{error.message}; {RISK_TAKEN}, so it is read all the same" if accepted else error.message
            self._eligibility.warn(read.table.id, said)
            if not accepted:
                raise

    def blocking_view(self, targets: Sequence[Target]) -> BlockingView:
        """The view of a blocking snapshot with these targets. Raises TableBusy, SchemaChanged."""
        if self._blocking is None:
            raise InvariantError("no blocking snapshot can be read here")
        names = [*(target.collection for target in targets), *self._blocking.wanted]
        looked = self._eligibility.look_up(list(dict.fromkeys(names)))
        return self._blocking.open({name: table.oid for name, table in looked.tables.items()})

    def looked_up_over(self, session: Questions, targets: Sequence[Target]) -> CatalogAnswer:
        """What the catalog says of these targets, for `readings`. It may be asked in another thread."""
        return self._eligibility.look_up(_collections(targets), defaults=True, over=session)

    def readings(
        self, targets: Sequence[Target], looked: CatalogAnswer | None = None
    ) -> dict[Target, ReadTable]:
        """How to read each target, now or when it was looked up.

        Raises SchemaChanged if one can't be read any more.
        """
        looked = self._looked_up(targets, defaults=True, looked=looked)
        return {target: self._read(target, looked) for target in targets}

    def _read(self, target: Target, looked: CatalogAnswer) -> ReadTable:
        try:
            return self._eligibility.reading(target, looked)
        except SignalError as error:
            raise error.recast(SchemaChanged) from error

    def _span(
        self, read: ReadTable, greatest: Key | None, rows: int, probes: TableProbes
    ) -> tuple[int, int] | None:
        """The least and greatest value of a single integer key, if it is dense enough."""
        columns = read.keyset.columns
        if greatest is None or len(columns) != 1 or columns[0].type not in _INTEGERS or columns[0].nullable:
            return None
        least = probes.key(read.keyset.texts, read.relation, read.keyset.order)
        return dense_span(least, greatest, rows)

    def boundaries(self, target: Target, left: Range, step_rows: int, count: int) -> list[Key]:
        """The keys at every `step_rows` rows of a range, each found from the previous one.

        Raises SchemaChanged if the table has another key by now.
        """
        read, upto, after = self._read(target, self._looked_up([target])), left.upto or (), left.after
        _refuse_other_key(read, upto)
        if read.keyset == BY_CTID:
            return page_starts(after, upto, step_rows * self.row_bytes(target), count)
        found: list[Key] = []
        with table_errors("finding chunk boundaries", target.collection), self._questions.probes.by_index():
            while len(found) < count:
                after = self._step(read, replace(left, after=after), step_rows)
                if after is None or after == upto:
                    break
                found.append(after)
        return found

    def _step(self, read: ReadTable, left: Range, rows: int) -> Key | None:
        """The key `rows` rows into a range, or the last one before the NULLs; None after the last."""
        keyset = read.keyset
        key = partial(self._questions.probes.key, keyset.texts, read.relation)
        *before, last = keyset.stretches(left.after, left.upto or (), lacks_upto=left.lacks_upto)
        for where in before:
            found = key(keyset.order, where, rows - 1) or key(keyset.reverse_order, where)
            if found is not None:
                return found
        return key(keyset.order, last, rows - 1)
