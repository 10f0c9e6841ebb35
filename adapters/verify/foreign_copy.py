"""Tables that somebody else keeps as copies: what they hold now, compared once it has settled.

Nothing says how far such a table is. `engine/verify/settled.py` has the rule. What a look has found to differ
is kept in files until the verification ends, and the job's own copy says for which keys the stream has
carried something since.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from adapters.jdbc.connection import Target
from adapters.jdbc.foreign_rows import ForeignRows
from adapters.lake.table_name import CollectionTables, TableNaming
from adapters.verify.copied_events import SortSeen
from adapters.verify.failures import as_source_errors
from adapters.verify.foreign_partition import JudgePartition, SortedRows
from adapters.verify.partitions import partitions_of, write_files, write_partitions
from adapters.verify.threaded_comparison import ThreadedComparison
from engine.errors import InvariantError, SinkError
from engine.staging.files import sink_errors
from engine.verify.compared_digests import DIGEST
from engine.verify.copy import FIRST_KEYS, Findings, Span
from engine.verify.settled import HELD, SEVERAL, TOUCHED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from adapters.jdbc.foreign_rows import ReadRows
    from adapters.verify.row_reads import RowReads
    from engine.config.sinks.settings import JdbcSettings
    from engine.model import CollectionId
    from engine.ports.executors import Executors
    from engine.verify.copy import ComparisonRequest, Copy, ExtraRow, SeenRows, TouchedKeys

_LONGEST: Final = 63
"""Bytes of a name; PostgreSQL cuts longer ones."""
_MOST_AGAIN: Final = 50_000
"""How many rows are looked at again by their keys; if there are more, all are read again."""


@dataclass(frozen=True, slots=True)
class Look:
    """The differences that a look has found, in files by partition, and the turn before it began."""

    began: int
    paths: tuple[str, ...]


@dataclass(slots=True)
class _LastLook:
    """The last look of a verification, by its ticket."""

    partitions: int
    last: Look | None = None


@dataclass(frozen=True, slots=True)
class ForeignCopyTools:
    """What all foreign copies of a job work with.

    `own` is what the job's sink holds. `reads` says how a collection's rows are read. `database` is the
    source's, for collections whose names don't have it.
    """

    own: Copy
    executors: Executors
    reads: Callable[[CollectionId], RowReads]
    database: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """The directory for sorting, the topic, the file of the rows seen, and their number."""

    directory: str
    topic: str
    seen: str
    rows: int


class ForeignCopy:
    """Implements `Copy` and `Settles` for the tables of one database. Sorted rows wait below `work`.

    The table lags less than `settle_s`.
    """

    def __init__(self, settings: JdbcSettings, settle_s: float, work: str, ground: ForeignCopyTools) -> None:
        self._settings, self.settle_s, self._work, self._ground = settings, settle_s, work, ground
        naming = TableNaming(settings.table_format, "its collection.name.format", _LONGEST)
        self._names = CollectionTables(naming, ground.database)
        self._looks: dict[tuple[str, int], _LastLook] = {}
        self._collections: dict[str, CollectionId] = {}

    def follow(self, topics: Collection[str], turn: int) -> None:  # noqa: ARG002  the own copy knows turns
        """Forget what is known of topics that are no longer compared."""
        for topic, ticket in [known for known in self._looks if known[0] not in topics]:
            del self._looks[topic, ticket]
            shutil.rmtree(self._directory(ticket), ignore_errors=True)

    def refusal(self) -> str:
        """None: a table can be compared if its server can be reached."""
        return ""

    def learn(self, topic: str, collection: CollectionId) -> str:
        """Learn of which collection a topic is. Returns why it can't be compared, else nothing."""
        self._collections[topic] = collection
        try:
            self._names.of(topic, collection)
        except SinkError as error:
            return str(error)
        return ""

    def _directory(self, ticket: int) -> str:
        return f"{self._work}/{ticket}"

    def compare(self, topic: str, seen: tuple[SeenRows, int], asked: ComparisonRequest) -> ForeignComparison:
        """Scan the table and compare, in a thread."""
        rows, ticket = seen
        collection = self._collections[topic]
        with as_source_errors():
            name = self._names.of(topic, collection)
        target = Target(self._settings, f"tidemark verify {ticket}")
        held = ForeignRows(target, name, self._ground.reads(collection))
        known = self._looks.get((topic, ticket))
        work = Work(self._directory(ticket), topic, rows.path(ticket), rows.written(ticket).rows)

        def learn(looks: _LastLook) -> None:
            self._looks[topic, ticket] = looks

        return ForeignComparison(held, work, asked, self._ground, (known, learn))

    def touched(self, topic: str, span: Span) -> TouchedKeys:  # noqa: ARG002
        """Never called: somebody else's table can't be repaired."""
        raise InvariantError("tables of others are not repaired")

    def rows(self, topic: str, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:  # noqa: ARG002
        """Never called: somebody else's table can't be repaired."""
        raise InvariantError("tables of others are not repaired")


class ForeignComparison(ThreadedComparison):
    """A comparison in a thread, with a snapshot of the table. `learns`: the last look, and who keeps it."""

    def __init__(
        self,
        held: ForeignRows,
        work: Work,
        asked: ComparisonRequest,
        ground: ForeignCopyTools,
        learns: tuple[_LastLook | None, Callable[[_LastLook], None]],
    ) -> None:
        self._held, self._work, self._asked, self._ground = held, work, asked, ground
        self._known, self._learn = learns
        super().__init__(held)

    def _run(self) -> Findings:
        try:
            with as_source_errors(), sink_errors(self._work.directory):
                Path(self._work.directory).mkdir(parents=True, exist_ok=True)
                return self._compared()
        finally:
            self._held.close()

    def _compared(self) -> Findings:
        work, asked = self._work, self._asked
        size = self._held.begin()
        looks = self._known or _LastLook(partitions_of(work.rows, size))
        before = looks.last
        held = self._sorted_rows(looks.partitions)
        seen = SortSeen(work.directory, looks.partitions)(work.seen)
        touched, emptied = self._touched(asked.look if before is None else before.began, looks.partitions)
        task = JudgePartition(
            SortedRows(
                tuple(sorted_file.path for sorted_file in seen),
                tuple(held),
                touched,
                () if before is None else before.paths,
            ),
            f"{work.directory}/differ-{asked.span.upto}",
            emptied=emptied,
            visible=asked.known >= 0,
        )
        judged = self._ground.executors.map(task, range(looks.partitions))
        found = reduce(or_, (result.findings for result in judged), Findings(settled=True))
        places = [place for result in judged for place in result.extra][:FIRST_KEYS]
        found = replace(found, first=found.first | {"extra": self._held.keys(places)})
        for path in (
            *held,
            touched,
            *(sorted_file.path for sorted_file in seen),
            *(before.paths if before else ()),
        ):
            Path(path).unlink(missing_ok=True)
        looks.last = Look(asked.look, tuple(result.path for result in judged))
        if not self._given_up.is_set():
            self._learn(looks)
        return _bounded(found)

    def _sorted_rows(self, partitions: int) -> list[str]:
        """Files of the table's rows."""
        held = map(_as_held, self._while_wanted(self._held.rows()))
        return write_files(held, f"{self._work.directory}/held", HELD, partitions)

    def _touched(self, since: int, partitions: int) -> tuple[str, bool]:
        """A file of the keys for which the stream has carried something, and whether it was a truncate."""
        upto, emptied = since, False
        tables = [TOUCHED.empty_table()]
        while upto < self._asked.span.upto:
            touched = self._ground.own.touched(self._work.topic, Span(upto, self._asked.span.upto))
            upto, emptied = touched.upto, emptied or touched.all
            tables.append(pa.table([pa.array(touched.keys, DIGEST)], schema=TOUCHED))
        path = f"{self._work.directory}/touched.arrow"
        write_partitions(path, pa.concat_tables(tables), partitions)
        return path, emptied


def _as_held(read: ReadRows) -> pa.Table:
    rows = pc.if_else(read.faithful, read.rows, pa.scalar(SEVERAL, DIGEST))
    return pa.Table.from_arrays([read.keys, rows, read.places], schema=HELD)


def _bounded(found: Findings) -> Findings:
    """The findings; with very many rows to look at again, all are to be read again."""
    if len(found.undecided) <= _MOST_AGAIN:
        return found
    return replace(found, undecided=(), unsettled=found.unsettled + len(found.undecided))
