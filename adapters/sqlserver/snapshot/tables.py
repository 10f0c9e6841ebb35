"""Which tables can be snapshotted, their size, and where to cut them: the engine's `Tables` on SQL Server.

Owns the queries for a table's extent and chunk bounds. All use the key's index; none scans a table.
`eligibility.py` decides whether and how a table can be read.

Chunk bounds only cut, so keys that are never committed will do: they are read without locks. The greatest key
is where reading ends, and must not miss a row committed before the window's position. So it is read with
locks; if they can't be had soon, the table waits for its turn.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from adapters.source.conditions.checking_time import CheckingTime
from adapters.source.conditions.rendering import render_condition
from adapters.source.conditions.selects import select_condition
from adapters.sqlserver.conditions.grammar import GRAMMAR, finder
from adapters.sqlserver.conditions.trusted_sql import check_trusted, derived
from adapters.sqlserver.server.tsql import quote_ident
from adapters.sqlserver.snapshot.eligibility import KnownTables, reading
from adapters.sqlserver.snapshot.scope import scoped
from engine.config.settings import Conditions
from engine.errors import ConfigError, SchemaChanged, SignalError, TableBusy
from engine.model import CollectionId
from engine.snapshot.extent import WHOLE_BYTES, Extent, dense_span
from engine.snapshot.scope import ScopedCollection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.sqlserver.server.catalog import ListedTable
    from adapters.sqlserver.server.questions import Questions
    from adapters.sqlserver.server.table import Table
    from adapters.sqlserver.server.table_probes import TableProbes
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from engine.model import Key, Range, Target

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})


class Databases(Protocol):
    """The databases of the server, as the job's thread uses them."""

    def questions(self, database: str) -> Questions:
        """The connection for questions."""

    def logged(self, database: str) -> Mapping[CollectionId, Table]:
        """The captured tables as the log describes them at the stream's position."""

    def refusal(self, database: str) -> SignalError | None:
        """Why no table of a database can be snapshotted; None if they can."""

    def adapted(self, read: ReadTable, target: Target) -> ReadTable:
        """How a target is read, if not in the usual way."""

    @property
    def names(self) -> Sequence[str]:
        """All databases."""


@dataclass(frozen=True, slots=True)
class CatalogedTables:
    """What a database's catalog says of tables, as in `KnownTables`."""

    listed: Mapping[CollectionId, ListedTable]
    actual: Mapping[CollectionId, Table]


def cataloged(questions: Questions, names: Sequence[CollectionId]) -> CatalogedTables:
    """Ask a database's catalog about those of the tables that are its own. Any thread may."""
    listed = {table.id: table for table in questions.catalog.listed()}
    wanted = [listed[name] for name in names if name in listed and not listed[name].view]
    return CatalogedTables(listed, {table.id: table for table in questions.catalog.describe(wanted)})


class SqlServerTables:
    """Measures and cuts tables. Used by the job's thread alone.

    `keyless` says whether tables of the initial snapshot can be read without a key, which holds while the log
    waits. `conditions` says what signals may have as conditions.
    """

    def __init__(
        self,
        databases: Databases,
        *,
        whole_bytes: int = WHOLE_BYTES,
        keyless: Callable[[], bool] = lambda: False,
        conditions: Conditions = Conditions.EXPRESSIONS,
        monotonic: Callable[[], float],
    ) -> None:
        self._databases, self._whole_bytes, self._keyless = databases, whole_bytes, keyless
        self._conditions, self._checking = conditions, CheckingTime(monotonic)
        self._row_bytes: dict[CollectionId, float] = {}

    def captured(self) -> Sequence[CollectionId]:
        """The tables whose changes are captured, by name."""
        return sorted(table for name in self._databases.names for table in self._databases.logged(name))

    def groups(self) -> Mapping[CollectionId, Sequence[CollectionId]]:
        """Names without database, where only one database has the table."""
        found: dict[CollectionId, list[CollectionId]] = defaultdict(list)
        for table in self.captured():
            found[CollectionId(table.parts[1:])].append(table)
        return {name: meant for name, meant in found.items() if len(meant) == 1}

    def measure(
        self, targets: Sequence[Target], *, bounded: bool = False
    ) -> list[Extent | SignalError | TableBusy]:
        """The extent of each table, or why it can't be read, now or ever."""
        try:
            known = self._known([target.collection for target in targets])
        except TableBusy as error:  # somebody changes tables, and the catalog waits for their locks
            return [error for _target in targets]
        return [self._judged(target, known, bounded=bounded) for target in targets]

    def _known(
        self, names: Sequence[CollectionId], catalogs: Mapping[str, CatalogedTables] = MappingProxyType({})
    ) -> dict[str, KnownTables]:
        """What the log and the catalogs of the tables' databases say; `catalogs` are asked already."""
        found = {}
        for database in dict.fromkeys(name.parts[0] for name in names):
            if database not in self._databases.names:
                continue
            said = catalogs.get(database) or cataloged(self._databases.questions(database), names)
            found[database] = KnownTables(self._databases.logged(database), said.listed, said.actual)
        return found

    def _judged(
        self, target: Target, known: Mapping[str, KnownTables], *, bounded: bool
    ) -> Extent | SignalError | TableBusy:
        try:
            read = self._reading(target, known)
            return self._measured(read, target, bounded=bounded)
        except (SignalError, TableBusy) as error:
            return error
        except SchemaChanged as error:
            return error.recast(SignalError)

    def _reading(self, target: Target, known: Mapping[str, KnownTables]) -> ReadTable:
        database = target.collection.parts[0]
        if database not in known:
            raise SignalError("'database.names' does not name its database", where=target.collection)
        refusal = None if target.initial else self._databases.refusal(database)
        if refusal is not None:
            raise SignalError(refusal.message, where=target.collection, hint=refusal.hint)
        keyless = target.initial and self._keyless()
        read = self._databases.adapted(reading(target, known[database], keyless=keyless), target)
        if target.condition is None:
            return read
        if target.blocking and self._conditions is Conditions.SQL:
            return replace(read, statement=self._statement(target.condition, target.collection))
        return replace(read, condition=self._condition(target, read))

    @staticmethod
    def _statement(text: str, collection: CollectionId) -> str:
        """A signal's SELECT of any kind as it can stand in brackets. Raises SignalError if it can't."""
        try:
            return derived(text, "the filter of a blocking snapshot")
        except ConfigError as error:
            raise SignalError(error.message, where=collection, hint=error.hint) from error

    def _condition(self, target: Target, read: ReadTable) -> str | None:
        """The signal's condition as sent to the server; None if a SELECT has none. Raises SignalError."""
        text, position = target.condition or "", target.collection
        match self._conditions:
            case Conditions.OFF:
                raise SignalError(
                    "conditions are not taken", where=position, hint="see tidemark.snapshot.conditions"
                )
            case Conditions.SQL:
                check_trusted(text, position)
                return text
            case Conditions.EXPRESSIONS if target.blocking:
                find = finder(read.table.columns, read.table.id.parts[-1])
                known = [quote_ident(column.name) for column in read.columns]
                return select_condition(text, GRAMMAR, find, position, known)
            case Conditions.EXPRESSIONS:
                return render_condition(
                    text, GRAMMAR, finder(read.table.columns, read.table.id.parts[-1]), position
                )

    def row_bytes(self, target: Target) -> float:
        """The estimated size of a row, from the last measurement."""
        return self._row_bytes.get(target.collection, 1000.0)

    def _measured(self, read: ReadTable, target: Target, *, bounded: bool) -> Extent:
        probes = self._databases.questions(target.collection.database).probes
        found = probes.size(read)
        count, size = found.rows, found.bytes
        if target.condition is None and read.condition is None:
            probes.refusal(read, filtered=False)
        else:
            with self._checking.of(target.collection):
                self._check_condition(probes, read)
        self._row_bytes[target.collection] = size / max(count, 1)
        key, schema = read.fingerprint, read.schema
        whole = read.statement is not None or not read.keyset.columns
        if whole or (size <= self._whole_bytes and not bounded and read.scope is None):
            return Extent(0 if bounded else count, size, whole=True, key=key, schema=schema)
        greatest = probes.greatest_key(read)
        span = self._span(probes, read, greatest, count)
        part = None
        if target.scope is not None and read.scope is not None:
            with self._checking.of(target.collection):
                part = scoped(target.scope, read.scope, read, probes, ScopedCollection(count, greatest, span))
        return Extent(count, size, greatest=greatest, span=span, key=key, scoped=part, schema=schema)

    @staticmethod
    def _check_condition(probes: TableProbes, read: ReadTable) -> None:
        """Let the server compile the query with the signal's condition, which it may refuse."""
        refusal = probes.refusal(read, filtered=True)
        if refusal is not None:
            raise SignalError(
                f"the condition is refused: {refusal}",
                where=read.table.id,
                hint="a SELECT TOP 0 with this condition says more",
            )

    @staticmethod
    def _span(
        probes: TableProbes, read: ReadTable, greatest: Key | None, count: int
    ) -> tuple[int, int] | None:
        """The least and greatest value of a single integer key, if the key is dense enough."""
        columns = read.keyset.columns
        if greatest is None or len(columns) != 1 or columns[0].type not in _INTEGERS or columns[0].nullable:
            return None
        least = probes.least_key(read)
        return dense_span(least, greatest, count)

    def boundaries(self, target: Target, left: Range, step_rows: int, count: int) -> list[Key]:
        """Keys of a range at every `step_rows` rows, each found from the previous one."""
        read = self.readings([target])[target]
        probes = self._databases.questions(target.collection.database).probes
        found: list[Key] = []
        while len(found) < count:
            after = probes.key_inside(read, left, step_rows - 1)
            if after is None or after == left.upto:
                break
            found.append(after)
            left = replace(left, after=after, holds_after=False)
        return found

    def readings(
        self, targets: Sequence[Target], catalogs: Mapping[str, CatalogedTables] = MappingProxyType({})
    ) -> dict[Target, ReadTable]:
        """How to read each target now. Raises SchemaChanged if one can't be read any more.

        `catalogs` has by database what `cataloged` was told a moment ago; the others are asked.
        """
        known = self._known([target.collection for target in targets], catalogs)
        found = {}
        for target in targets:
            try:
                found[target] = self._reading(target, known)
            except SignalError as error:
                raise error.recast(SchemaChanged) from error
        return found
