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

from adapters.verify.events.copied_events import SortSeen
from adapters.verify.failures import as_source_errors
from adapters.verify.partitions import partitions_of, write_files, write_partitions
from adapters.verify.tables.foreign_partition import JudgePartition, SortedRows
from adapters.verify.tables.foreign_tables import HasMarkers
from adapters.verify.threaded_comparison import ThreadedComparison
from engine.errors import InvariantError, SinkError
from engine.staging.files import sink_errors
from engine.verify.compared_digests import DIGEST
from engine.verify.copy import FIRST_KEYS, Findings, Span
from engine.verify.settled import DIFFERENCES, HELD, SEVERAL, TOUCHED, Since

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from adapters.verify.tables.foreign_tables import ForeignTable, ForeignTables
    from adapters.verify.tables.marker import Marker
    from engine.model import CollectionId
    from engine.ports.executors import Executors
    from engine.verify.copy import ComparisonRequest, Copy, ExtraRow, SeenRows, TouchedKeys
    from engine.verify.settled import HeldRows

_MOST_AGAIN: Final = 50_000
"""How many rows are looked at again by their keys; if there are more, all are read again."""
_MOST_NEW: Final = 10_000
"""How many of these may be rows that only the table has, and whose keys the stream has carried."""


@dataclass(frozen=True, slots=True)
class Look:
    """The differences that a look has found, in files by partition, and the turn before it began."""

    began: int
    paths: tuple[str, ...]


@dataclass(slots=True)
class _LastLook:
    """The last look of a verification, by its ticket.

    `touched` are the files of the keys that the stream has carried up to the turn `upto`. `emptied` is the
    last turn by which it has carried a truncate; -1: none.
    """

    partitions: int
    upto: int
    last: Look | None = None
    touched: tuple[str, ...] = ()
    emptied: int = -1


@dataclass(frozen=True, slots=True)
class ForeignCopyTools:
    """What all foreign copies of a job work with.

    `own` is what the job's sink holds.
    """

    own: Copy
    executors: Executors


@dataclass(frozen=True, slots=True)
class Work:
    """The directory for sorting, the topic, the file of the rows seen, and their number."""

    directory: str
    topic: str
    seen: str
    rows: int


class ForeignCopy:
    """Implements `Copy` and `Settles` for the tables of one target. Sorted rows wait below `work`.

    A table lags less than `settle_s`, or tells by a `marker` how far it is.
    """

    def __init__(
        self,
        tables: ForeignTables,
        settle_s: float,
        work: str,
        ground: ForeignCopyTools,
        marker: Marker | None = None,
    ) -> None:
        self._tables, self._work, self._ground, self._marker = tables, work, ground, marker
        self.settle_s = settle_s if marker is None else 0.0
        self._newest = 0
        self._looks: dict[tuple[str, int], _LastLook] = {}
        self._collections: dict[str, CollectionId] = {}

    @property
    def besides(self) -> Collection[str]:
        """The topic of the markers."""
        return () if self._marker is None else (self._marker.topic,)

    def follow(self, topics: Collection[str], turn: int) -> None:
        """Forget what is known of topics that are no longer compared."""
        self._newest = turn
        for topic, ticket in [known for known in self._looks if known[0] not in topics]:
            del self._looks[topic, ticket]
            shutil.rmtree(self._directory(ticket), ignore_errors=True)

    def refusal(self) -> str:
        """None: a table can be compared if its server can be reached."""
        return ""

    def learn(self, topic: str, collection: CollectionId) -> str:
        """Learn of which collection a topic is. Returns why it can't be compared, else nothing."""
        self._collections[topic] = collection
        if self._marker is not None and self._marker.why:
            return self._marker.why
        try:
            self._tables.check(topic, collection)
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
            held = self._tables.table(topic, collection, f"tidemark verify {ticket}")
        known = self._looks.get((topic, ticket))
        work = Work(self._directory(ticket), topic, rows.path(ticket), rows.written(ticket).rows)

        def learn(looks: _LastLook) -> None:
            self._looks[topic, ticket] = looks

        return ForeignComparison(held, work, asked, self._ground, (known, learn), self._marked(held))

    def _marked(self, held: object) -> Marked | None:
        """What tells the position of the target, whose rows these are."""
        if self._marker is None or not isinstance(held, HasMarkers):
            return None
        return Marked(self._marker, held.has, lambda: self._newest)

    def touched_keys(self, topic: str, span: Span) -> TouchedKeys:  # noqa: ARG002
        """Never called: somebody else's table can't be repaired."""
        raise InvariantError("tables of others are not repaired")

    def rows(self, topic: str, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:  # noqa: ARG002
        """Never called: somebody else's table can't be repaired."""
        raise InvariantError("tables of others are not repaired")


@dataclass(frozen=True, slots=True)
class Marked:
    """A marker, whether the target has one by its id, and the newest turn that the own copy has."""

    marker: Marker
    has: Callable[[str], bool]
    newest: Callable[[], int]


class ForeignComparison(ThreadedComparison):
    """A comparison in a thread, with a snapshot of the table. `learns`: the last look, and who keeps it."""

    def __init__(
        self,
        held: ForeignTable,
        work: Work,
        asked: ComparisonRequest,
        ground: ForeignCopyTools,
        learns: tuple[_LastLook | None, Callable[[_LastLook], None]],
        marked: Marked | None = None,
    ) -> None:
        self._marked = marked
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
        marked = self._marked
        if marked is not None:
            marked.marker.await_there(marked.has, self._moments)
        size = self._held.begin()
        behind = marked.marker.insert() if marked is not None else ""
        looks = self._known or _LastLook(partitions_of(work.rows, size), asked.span.since)
        before = looks.last
        held = self._sorted_rows(looks.partitions)
        seen = SortSeen(work.directory, looks.partitions)(work.seen)
        upto = asked.span.upto
        if marked is not None:
            upto = marked.marker.turn(behind, self._ground.own, upto, marked.newest, self._moments)
        looks = self._touched(looks, upto)
        whole = asked.look == asked.span.since
        task = JudgePartition(
            SortedRows(
                tuple(sorted_file.path for sorted_file in seen),
                tuple(held),
                looks.touched,
                () if before is None else before.paths,
            ),
            f"{work.directory}/differ-{asked.span.upto}",
            Since(
                DIFFERENCES.empty_table(),
                TOUCHED.empty_table(),
                look=asked.look if before is None else before.began,
                whole=asked.span.since,
                emptied=looks.emptied,
                visible=asked.known >= 0,
                hidden=asked.hidden,
                marked=marked is not None,
                most_new=_MOST_NEW // looks.partitions if whole else 0,
            ),
            most_again=_MOST_AGAIN // looks.partitions,
        )
        judged = self._ground.executors.map(task, range(looks.partitions))
        found = reduce(or_, (result.findings for result in judged), Findings(settled=marked is None))
        places = [place for result in judged for place in result.extra][:FIRST_KEYS]
        found = replace(found, first=found.first | {"extra": self._held.keys(places)})
        for path in (
            *held,
            *(sorted_file.path for sorted_file in seen),
            *(before.paths if before else ()),
        ):
            Path(path).unlink(missing_ok=True)
        looks.last = Look(asked.look, tuple(result.path for result in judged))
        if not self._given_up.is_set():
            self._learn(looks)
        return found

    def _sorted_rows(self, partitions: int) -> list[str]:
        """Files of the table's rows."""
        held = map(_as_held, self._while_wanted(self._held.rows()))
        return write_files(held, f"{self._work.directory}/held", HELD, partitions)

    def _touched(self, looks: _LastLook, upto: int) -> _LastLook:
        """The looks, with the keys for which the stream has carried something up to this turn."""
        emptied, tables, at = looks.emptied, [TOUCHED.empty_table()], looks.upto
        for end in (min(self._asked.look, upto), upto):
            while at < end:
                touched = self._ground.own.touched_keys(self._work.topic, Span(at, end))
                at = touched.upto
                emptied = at if touched.all else emptied
                keys = pa.array(touched.keys, DIGEST)
                turns = pa.repeat(pa.scalar(at, pa.int64()), len(keys))
                tables.append(pa.table([keys, turns], schema=TOUCHED))
        path = f"{self._work.directory}/touched-{upto}.arrow"
        write_partitions(path, pa.concat_tables(tables), looks.partitions)
        return replace(looks, upto=at, touched=(*looks.touched, path), emptied=emptied)


def _as_held(read: HeldRows) -> pa.Table:
    rows = pc.if_else(read.faithful, read.rows, pa.scalar(SEVERAL, DIGEST))
    return pa.Table.from_arrays([read.keys, rows, read.places, read.merge_keys], schema=HELD)
