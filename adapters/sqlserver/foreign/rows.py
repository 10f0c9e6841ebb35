"""Reads tables that somebody else keeps in a SQL Server, as rows of their source.

Each column is cast to the type that it has in the source (`casts.py`), so the target's server writes a value
as the source's would. Then the rows take the same way as those of the source: the codec of their events makes
keys and rows of them. A table may have other types as long as they can be cast, and other columns beside.

    target    SELECT TOP (n) … WHERE key > … ORDER BY key ──► row texts ──► codec ──► digests

Where the database allows snapshot isolation, a scan is one snapshot. Elsewhere each row is read as its
statement finds it, which `engine/verify/settled.py` allows for, but which markers can't.

Pages follow the table's own key, by as many rows as have about so many bytes. A table without a key is one
page, of which rows are fetched while they arrive.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from adapters.sqlserver.foreign.casts import absent, cast_of
from adapters.sqlserver.foreign.statements import ForeignRead
from adapters.sqlserver.server.rows import readable, row_shape
from adapters.sqlserver.server.table import Table
from adapters.sqlserver.server.tsql import READABLE
from adapters.sqlserver.snapshot.eligibility import ReadTable
from adapters.sqlserver.snapshot.keyset import Keyset
from adapters.verify.failures import as_source_errors
from adapters.verify.tables.foreign_tables import keys_found
from adapters.verify.tables.row_reads import DigestedRows
from engine.errors import ConfigError, InvariantError, SourceError
from engine.verify.compared_digests import key_digests
from engine.verify.settled import HeldRows

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from adapters.sqlserver.foreign.questions import ForeignQuestions, PageRows
    from adapters.sqlserver.snapshot.table_reads import RowReads
    from adapters.verify.tables.row_reads import ComparedEvents
    from engine.model import CollectionId, Key
    from engine.verify.settled import HeldPlace

_PAGE_BYTES: Final = 8 << 20
"""How much of a table, with its large values, one statement reads."""
_FETCHED_BYTES: Final = 1 << 20
"""How much of that is in memory at once."""
_MOST_ROWS: Final = 50_000
_LOCK_TIMEOUT_MS: Final = 10_000
_ALLOW: Final = "ALTER DATABASE … SET ALLOW_SNAPSHOT_ISOLATION ON there, or leave out its marker.collection"


class _Scan:
    """Reads a table page by page. `row_bytes` is about how many bytes a row has."""

    def __init__(
        self, questions: ForeignQuestions, foreign: ForeignRead, compared: ComparedEvents, row_bytes: int
    ) -> None:
        self._questions, self._foreign, self._compared = questions, foreign, compared
        row_bytes = max(1, row_bytes)
        self._page_rows = min(max(1, _PAGE_BYTES // row_bytes), _MOST_ROWS)
        self._fetched = min(max(1, _FETCHED_BYTES // row_bytes), self._page_rows)
        self._after: list[Key | None] = [None]

    def pages(self) -> Iterator[Iterator[PageRows]]:
        """All pages, each of which must be read before the next one."""
        number = 0
        while number < len(self._after):
            yield self.page(number)
            number += 1

    def page(self, number: int) -> Generator[PageRows]:
        """The rows of a page that was reached before, or of the one behind."""
        count, last = 0, None
        for found in self._questions.page(self._foreign, self._after[number], self._page_rows, self._fetched):
            count, last = count + len(found.texts), found.last
            yield found
        if last and count == self._page_rows and number == len(self._after) - 1:
            self._after.append(last)

    def digested(self, found: PageRows) -> DigestedRows:
        """The rows' digests and keys. A key that the source can't have stays, without a merge key."""
        keys, rows, shown, merge_keys = self._compared.digested(found.texts)
        if len(found.others):
            unnamed = pc.invert(found.named)
            keys = pc.replace_with_mask(keys, unnamed, key_digests(found.others))
            shown = pc.replace_with_mask(shown, unnamed, found.others)
            merge_keys = pc.if_else(found.named, merge_keys, None)
        return DigestedRows(keys, rows, shown, merge_keys)


class ForeignRows:
    """Implements `ForeignTable`, and `HasMarkers` if there is a table of `markers`.

    `connect` opens a connection, `name` is the table's.
    """

    def __init__(
        self,
        connect: Callable[[], ForeignQuestions],
        name: CollectionId,
        reads: RowReads,
        markers: CollectionId | None = None,
    ) -> None:
        self._connect, self._name, self._reads, self._markers = connect, name, reads, markers
        self._questions: ForeignQuestions | None = None
        self._scan: _Scan | None = None
        self._given_up = Event()

    def has(self, marker: str) -> bool:
        """Whether the table of markers has this one now. Call it before `begin`. Raises SourceError."""
        if self._markers is None:
            raise InvariantError("there is no table of markers")
        return self._asked().has_marker(self._markers, marker)

    def begin(self) -> int:
        """Take the snapshot, if there can be one; returns about how many bytes the table has."""
        questions = self._asked()
        snapshots = questions.catalog.allows_snapshots()
        if self._markers is not None and not snapshots:
            raise SourceError(
                "a target tells by markers how far it is only if its database allows snapshot isolation",
                where=self._name.database,
                hint=_ALLOW,
            )
        foreign, compared = self._chosen(questions)
        size = questions.probes.size(foreign.read)
        if snapshots:
            with as_source_errors(ConfigError):
                questions.take_snapshot(foreign)
        self._scan = _Scan(questions, foreign, compared, size.bytes // max(1, size.rows))
        return size.bytes

    def _asked(self) -> ForeignQuestions:
        if self._questions is None:
            with as_source_errors(ConfigError):
                self._questions = self._connect()
            self._questions.limit_lock_waits(_LOCK_TIMEOUT_MS)
        return self._questions

    def _chosen(self, questions: ForeignQuestions) -> tuple[ForeignRead, ComparedEvents]:
        """The columns of the source as the table has them, and how their texts become events."""
        described = questions.described(self._name)
        if described is None:
            raise SourceError("the target has no such table", where=self._name)
        reads, table = self._reads, described.table
        known = {column.name: column for column in table.columns}
        reads.compared.check(known.keys() | reads.lost, str(self._name))
        casts = tuple(
            absent(column)
            if column.name in reads.lost or column.name not in known
            else cast_of(column, known[column.name])
            for column in readable(reads.table)
        )
        shape = row_shape(Table(reads.table.id, tuple(cast.column for cast in casts)))
        compared = replace(reads.compared, events=replace(reads.compared.events, shape=shape))
        key = tuple(known[name] for name in table.key)
        keyset = Keyset(key if all(column.type in READABLE for column in key) else ())
        read = ReadTable(table, keyset, keyset, hint="", object_id=described.object_id)
        identifying = tuple(column for column in readable(reads.table) if column.name in reads.compared.keys)
        return ForeignRead(read, casts, identifying), compared

    def rows(self) -> Iterator[HeldRows]:
        """The rows, page by page in the order of the key. Raises SourceError."""
        scan = self._begun()
        for number, page in enumerate(scan.pages()):
            for found in self._while_wanted(page):
                digested = scan.digested(found)
                places = pa.repeat(pa.scalar(number, pa.int64()), len(digested.rows))
                yield HeldRows(digested.keys, digested.rows, places, found.faithful, digested.merge_keys)

    def keys(self, places: Sequence[HeldPlace]) -> tuple[str, ...]:
        """The keys of these rows, as JSON; none of a row that is there no more."""
        scan, known = self._begun(), dict[bytes, str]()
        for number in dict.fromkeys(place.number for place in places):
            there = [place for place in places if place.number == number]
            with closing(scan.page(number)) as page:
                digested = map(scan.digested, self._while_wanted(page))
                known |= keys_found(there, ((rows.keys, rows.shown) for rows in digested))
        return tuple(known[place.key] for place in places if place.key in known)

    def _begun(self) -> _Scan:
        if self._scan is None:
            raise InvariantError("the table's scan has not begun")
        return self._scan

    def _while_wanted(self, page: Iterator[PageRows]) -> Iterator[PageRows]:
        for found in page:
            if self._given_up.is_set():
                raise SourceError("the comparison was given up")
            yield found

    def cancel(self) -> None:
        """Read no more. No statement takes long: none reads more than a page, or waits long for a lock."""
        self._given_up.set()

    def close(self) -> None:
        """Close the connection, and with it the snapshot."""
        if self._questions is not None:
            self._questions.close()
