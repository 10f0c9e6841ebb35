"""The tables of a source, their sizes, and where to cut them: the engine's `Tables` on PostgreSQL.

Decides what a table's extent and boundaries are. All questions for them use the key's index.
`eligibility.py` decides whether and how a table can be read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from adapters.postgres.server.failures import table_errors
from adapters.postgres.server.sql import quote_table
from adapters.postgres.snapshot.eligibility import RISK_TAKEN
from adapters.postgres.snapshot.keyset import PLACES, place_of, places
from adapters.postgres.snapshot.older_writers import PublishedTables, Writers, patience
from adapters.postgres.snapshot.partitions import Partitions
from engine.errors import SchemaChanged, SignalError, TableBusy
from engine.snapshot.extent import Extent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.postgres.server.publication import Publication
    from adapters.postgres.server.questions.probes import TableProbes
    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.snapshot.eligibility import CatalogAnswer, Readable, ReadTable
    from engine.clock import Clock
    from engine.model import CollectionId, Key, Target

_WHOLE_BYTES = 1 << 20
_DENSE = 0.2
_PLAN_ANSWER_S, _PLANS_S = 6.0, 10.0
"""Seconds to wait for one condition's plan, and for the plans of all tables measured together."""
_REMEMBERED = 1_000
_INTEGERS = frozenset(quote_table("pg_catalog", name) for name in ("int2", "int4", "int8"))


@dataclass(frozen=True, slots=True)
class _Measuring:
    """What is known of tables that are measured together, and how long to wait for writers."""

    looked: CatalogAnswer
    sizes: Mapping[int, tuple[int, float]]
    until_s: float
    bounded: bool
    plan_until_s: float = math.inf


def _refuse_other_key(read: ReadTable, bound: Key) -> None:
    """Raise SchemaChanged if a bound has more or fewer columns than the table's key has now."""
    if len(bound) != len(read.keyset.columns):
        raise SchemaChanged("its key was changed", place=read.table.id)


class PostgresTables:
    """Asks over one connection, which only the job's thread uses.

    `plan_on` opens other connections, on which conditions are planned; its argument is how many seconds an
    answer may take.
    """

    def __init__(
        self,
        questions: Questions,
        publication: Publication,
        readable: Readable,
        clock: Clock,
        *,
        whole_bytes: int | None = None,
        plan_on: Callable[[float], Questions] | None = None,
    ) -> None:
        self._questions, self._publication, self._readable = questions, publication, readable
        self._clock = clock
        self._plan_on, self._planner = plan_on, questions
        self._too_long: dict[str, None] = {}
        self._whole_bytes = _WHOLE_BYTES if whole_bytes is None else whole_bytes
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
        looked = self._looked_up(targets)
        sizes = self._questions.probes.sizes([table.oid for table in looked.tables.values()])
        measuring = _Measuring(
            looked, sizes, patience(self._clock), bounded, self._clock.monotonic() + _PLANS_S
        )
        try:
            return [self._judged(target, measuring) for target in targets]
        finally:
            self._end_planning()

    def _looked_up(self, targets: Sequence[Target], *, defaults: bool = False) -> CatalogAnswer:
        names = list(dict.fromkeys(target.collection for target in targets))
        looked = self._readable.looked_up(names, defaults=defaults)
        self.ids |= {table.oid: name for name, table in looked.tables.items()}
        self.partitions.note(looked)
        return looked

    def _judged(self, target: Target, measuring: _Measuring) -> Extent | SignalError | TableBusy:
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

    def _measured(self, target: Target, measuring: _Measuring) -> Extent:
        read = self._readable.reading(target, measuring.looked)
        if not target.initial:
            self._readable.check_operations(read.table)
        if not (target.initial and self._readable.held):
            self.await_writers(read, measuring.until_s)
        self._check_condition(read, target, measuring.plan_until_s)
        size, tuples = measuring.sizes.get(read.table.oid, (0, -1.0))
        probes = self._questions.probes
        rows = probes.plan(read.relation).rows if tuples <= 0 and size else int(max(tuples, 0))
        self._row_bytes[target.collection] = size / max(rows, 1)
        key = read.fingerprint
        small = size <= self._whole_bytes and not measuring.bounded
        if small or not self._divisible(read):
            probes.check_readable(read.relation)
            # What can't be cut counts as having 0 rows, so that splitting after a fault ends.
            return Extent(0 if measuring.bounded else rows, size, whole=True, key=key)
        if read.keyset == PLACES:
            return Extent(rows, size, greatest=place_of(probes.pages(read.table.oid)), key=key)
        # Rows from before the log may be visible only in the slot's own snapshot.
        held = self._readable.held_session if target.initial else None
        seen = held.probes if held is not None else probes
        greatest = seen.key(read.keyset.texts, read.relation, read.keyset.reverse_order)
        # A table's size is too small where its rows compress well.
        size = max(size, int(rows * probes.last_rows_bytes(read.relation, read.keyset.reverse_order)))
        self._row_bytes[target.collection] = size / max(rows, 1)
        span = self._span(read, greatest, rows, seen)
        return Extent(rows, size, greatest=greatest, span=span, key=key)

    def _divisible(self, read: ReadTable) -> bool:
        """Whether a table's rows and their places stay the same from one query to the next."""
        if read.statement is not None:
            # With a limit, each query might return other rows.
            return not self._questions.probes.plan(read.relation).limited and read.keyset != PLACES
        return read.keyset != PLACES or self._readable.held

    def await_writers(self, read: ReadTable, until_s: float = 0.0) -> None:
        """Raise TableBusy while a transaction may hold changes from before the table was published."""
        try:
            self._writers.wait(read.table.oid, read.mark, read.table.id, until_s)
        except TableBusy as error:
            accepted = self._readable.accepts_risk(read.table.id)
            said = f"{error.message}; {RISK_TAKEN}, so it is read all the same" if accepted else error.message
            self._readable.warn(read.table.id, said)
            if not accepted:
                raise

    def _check_condition(self, read: ReadTable, target: Target, until_s: float) -> None:
        """Have the server plan the signal's condition, and refuse it now if that fails."""
        if read.condition is None:
            return
        place = target.collection
        if read.condition in self._too_long:
            raise _takes_too_long(place)
        if self._clock.monotonic() > until_s:
            raise TableBusy("planning the conditions of others has taken its time", place=place)
        try:
            refusal = self._planning().probes.refusal(read.relation, read.condition)
        except TimeoutError as error:
            if len(self._too_long) >= _REMEMBERED:
                self._too_long.clear()
            self._too_long[read.condition] = None
            raise _takes_too_long(place) from error
        if refusal is not None:
            raise SignalError(
                f"the condition is refused: {refusal}",
                place=place,
                hint="EXPLAIN a SELECT with this condition says more",
            )

    def _planning(self) -> Questions:
        """The connection that plans conditions."""
        if self._plan_on is not None and (self._planner is self._questions or self._planner.closed):
            self._planner = self._plan_on(_PLAN_ANSWER_S)
        return self._planner

    def _end_planning(self) -> None:
        if self._planner is not self._questions:
            self._planner.close()
            self._planner = self._questions

    def readings(self, targets: Sequence[Target]) -> dict[Target, ReadTable]:
        """How to read each target now. Raises SchemaChanged if one can't be read any more."""
        looked = self._looked_up(targets, defaults=True)
        return {target: self._read(target, looked) for target in targets}

    def _read(self, target: Target, looked: CatalogAnswer) -> ReadTable:
        try:
            return self._readable.reading(target, looked)
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
        if least is None or least[0] is None or greatest[0] is None:
            return None
        low, high = int(least[0]), int(greatest[0])
        return (low, high) if rows >= _DENSE * (high - low + 1) else None

    def boundaries(
        self, target: Target, after: Key | None, upto: Key, step_rows: int, count: int
    ) -> list[Key]:
        """The keys at every `step_rows` rows between `after` and `upto`, each found from the previous one.

        Raises SchemaChanged if the table has another key by now.
        """
        read = self._read(target, self._looked_up([target]))
        _refuse_other_key(read, upto)
        if read.keyset == PLACES:
            return places(after, upto, step_rows * self.row_bytes(target), count)
        found: list[Key] = []
        with table_errors("finding chunk boundaries", target.collection), self._questions.probes.by_index():
            while len(found) < count:
                after = self._step(read, after, upto, step_rows)
                if after is None or after == upto:
                    break
                found.append(after)
        return found

    def _step(self, read: ReadTable, after: Key | None, upto: Key, rows: int) -> Key | None:
        """The key `rows` rows after `after`, or the last one before the NULLs; None after the last."""
        keyset = read.keyset
        key = partial(self._questions.probes.key, keyset.texts, read.relation)
        *before, last = keyset.stretches(after, upto)
        for where in before:
            found = key(keyset.order, where, rows - 1) or key(keyset.reverse_order, where)
            if found is not None:
                return found
        return key(keyset.order, last, rows - 1)


def _takes_too_long(place: CollectionId) -> SignalError:
    return SignalError(
        "the condition is refused: the server takes too long to plan it",
        place=place,
        hint="leave out arithmetic of constants",
    )
