"""The judge of rows on PostgreSQL, which also follows changes without events.

Messages in the log, which the job is configured to ignore, add what the log does not say: that a table was
removed from the publication or put back, or that two tables swapped names. Changes of an unpublished table
are silent. Its copy may lack them as long as the job reports it as incomplete. TRUNCATE of a partition that
is published under its root is silent, too: consumers keep the rows that it removed.

A row that a change brings into a row filter comes as an insert that lacks unchanged large values. A snapshot
that is running then, or comes later, must read them. An enum label counts as the same under all its names,
but no row read shows a name that was already gone at the last quiet point.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.torture.bags import Bag
from tests.torture.emitted import printed_row, texts
from tests.torture.oracle import Oracle, Table, Violation
from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.torture.emitted import Emitted
    from tests.torture.oracle import Key
    from tests.torture.row_filters import RowFilter
    from tests.torture.truth import Entry, Row

_EMPTIED = "emptied "
_LABEL = "e"


@dataclass(slots=True)
class Untold(Table):
    """A partitioned table whose partitions log different keys.

    No snapshot may read it, and no copy can be right. Both keys follow from the same ordinal.
    """

    def key_of(self, row: Mapping[str, str | None]) -> Key:
        """The key of a row with only one of its two keys known."""
        known = row.get("k")
        return ((row["alt"] or "").removeprefix("alt ") if known is None else known,)

    def key_before(self, old: Mapping[str, str | None], new: Mapping[str, str | None]) -> Key:
        """The key that a changed row had."""
        return self.key_of(old or new)


@dataclass(slots=True)
class PostgresOracle(Oracle):
    """The judge of rows.

    `unpublished` are tables with silent changes, `lacking` the keys of those changes by table. `filters` are
    the tables' row filters. `odd` are tables published with partitions of different identities. `renamed`
    says how often each enum label had been renamed at the last quiet point. `disguised` are tables that the
    job may set aside, since their log can't be decoded. It must then report that and keep each of their
    entries; `kept` counts those without an event.
    """

    unpublished: set[str] = field(default_factory=set)
    lacking: dict[str, set[Key]] = field(default_factory=dict)
    filters: dict[str, RowFilter] = field(default_factory=dict)
    odd: set[str] = field(default_factory=set)
    renamed: dict[str, int] = field(default_factory=dict)
    _turn: int = 0
    disguised: set[str] = field(default_factory=set)
    kept: Counter[str] = field(default_factory=Counter)

    def precede(self, entries: Iterable[Entry]) -> None:
        """Apply what was committed before the job's log began."""
        for entry in entries:
            if entry.op == "m":
                self._told(entry)
                self._pass(entry)
            for known_table in self.known_tables(entry) if entry.op != "m" else ():
                table = self._table(known_table.tables[0])
                if isinstance(table, Bag):
                    table.change(known_table, 0)
                elif known_table.text:
                    self._empty(table, known_table)
                else:
                    Oracle.precede(self, [known_table])

    def follow(self, entries: Iterable[Entry], emitted: Iterable[Emitted]) -> None:
        """Process what has been committed and emitted since the last call."""
        for entry in entries:
            if entry.op == "m":
                self._told(entry)
                self.ahead.append(entry)
                continue
            for known_table in self.known_tables(entry):
                silent = known_table.tables[0] in self.unpublished
                self.ahead.append(replace(known_table, silent=silent or bool(known_table.text)))
                if silent:
                    self.unheard.append(known_table)
        Oracle.follow(self, [], emitted)

    def known_tables(self, entry: Entry) -> list[Entry]:
        """The entries of one as they are published; none if a row filter excludes it."""
        if entry.op == "t" and not entry.text:
            # A root's own TRUNCATE also names the root.
            emptied = [name for name in entry.tables if self.published.get(name, name) not in entry.tables]
            entry = replace(entry, tables=tuple(name for name in entry.tables if name not in emptied))
            silent = [
                replace(entry, tables=(self.published[name],), text=f"{_EMPTIED}{name}") for name in emptied
            ]
            return [*silent, *Oracle.known_tables(self, entry)]
        found = []
        for known_table in Oracle.known_tables(self, entry):
            filtered = self.filters.get(known_table.tables[0])
            shown = filtered.published(known_table) if filtered else known_table
            if shown is not None:
                found.append(shown)
        return found

    def _told(self, message: Entry) -> None:
        """Note which tables' changes are silent from here on."""
        verb, _, names = message.text.partition(" ")
        known = set(self.tables) if names == "*" else set(names.split(","))
        if verb == "unpublish":
            self.unpublished |= known
        elif verb == "publish":
            self.unpublished -= known

    def left(self) -> list[Entry]:
        """The entries that should have had an event."""
        self._come_to(None)
        return self.ahead

    def take_in(self, event: Emitted) -> None:
        """Process one event."""
        self._turn = event.turn
        if self.sends_away(event):
            self.events += 1
            return
        if event.op != "r":
            self._come_to(event)
            Oracle.take_in(self, event)
            return
        self._check_label(event)
        if event.table in self.odd:
            self.happened["rows read of partitions with other identities"] += 1
        while not self._stands(event) and self.ahead and self._is_silent(self.ahead[0], event):
            self._pass(self.ahead.pop(0))
        table = self._table(event.table)
        if isinstance(table, Untold):
            raise Violation(
                f"{table.name} was read in turn {event.turn}, and its log does not tell of its rows"
            )
        if isinstance(table, Bag):
            self._read_copy(table, event)
            return
        found = texts(event.after or {}, table.types)
        table.lacking.pop(table.key_of(found), None)
        if table.key_of(found) not in self.lacking.get(table.name, ()) or self._stands(event):
            Oracle.take_in(self, event)
            return
        # It was read before a change without an event.
        self.events, self.reads = self.events + 1, self.reads + 1
        table.copy[table.key_of(found)] = found

    def _read_copy(self, table: Bag, event: Emitted) -> None:
        """Count a row of which there may be several copies."""
        self.events, self.reads = self.events + 1, self.reads + 1
        self.happened["rows read that may be alike"] += 1
        first = event.snapshot != "incremental" and not self.blocks
        table.read(event, first=first)
        if first:
            self.first_words.append((table.name, event.snapshot))

    def _check_label(self, event: Emitted) -> None:
        """A label's name must not have been gone at the last quiet point, when nothing was being read."""
        label, _, times = str((event.after or {}).get(_LABEL, "")).partition("_")
        if times and int(times) < self.renamed.get(label, 0):
            raise Violation(
                f"a row read of {event.table} in turn {event.turn} has label {label}_{times} of before"
            )

    def _stands(self, event: Emitted) -> bool:
        """Whether a row read equals the table's row here."""
        table = self._table(event.table)
        if isinstance(table, Bag):
            return table.stands(event)
        found = texts(event.after or {}, table.types)
        stands = table.rows.get(table.key_of(found))
        return stands is not None and stands.get("ver") == found.get("ver")

    def _come_to(self, event: Emitted | None) -> None:
        """Apply entries without events, up to this event's entry."""
        while self.ahead and self._is_silent(self.ahead[0], event):
            self._pass(self.ahead.pop(0))

    def _is_silent(self, entry: Entry, event: Emitted | None) -> bool:
        """Whether an entry needs no event, and this event (None: the end) is not its own."""
        if entry.silent or entry.op == "m":
            return True
        name = entry.tables[0]
        told = event is not None and (event.table, event.place) == (name, entry.place)
        return name in self.disguised and not told

    def _pass(self, entry: Entry) -> None:
        """Apply an entry without an event."""
        if entry.op == "m":
            if entry.text.startswith("exchange "):
                self._exchange(*entry.text.removeprefix("exchange ").split(","))
            return
        table = self._table(entry.tables[0])
        self.kept[table.name] += not entry.silent
        if isinstance(table, Bag):
            table.blind = True
            table.change(entry, self._turn)
            return
        lacking = self.lacking.setdefault(table.name, set())
        if entry.text:
            lacking |= self._empty(table, entry)
            return
        if entry.op == "t":
            lacking.update(table.rows)
            table.rows.clear()
            return
        table.types.update(entry.types)
        lacking |= _keys(table, entry)
        self._apply(table, entry)

    def _empty(self, table: Table, entry: Entry) -> set[Key]:
        """Apply a TRUNCATE of a partition that is published under its root. Returns the keys of its rows."""
        part = entry.text.rpartition("_")[2]
        gone = {key for key, row in table.rows.items() if row["p"] == part}
        for key in gone:
            del table.rows[key]
        self.happened["partitions truncated under their root"] += 1
        return gone

    def _exchange(self, one: str, other: str) -> None:
        """Two tables have swapped names. A consumer's copies of both are worthless."""
        first, second = self.tables[one], self.tables[other]
        first.rows, second.rows = second.rows, first.rows
        first.types, second.types = second.types, first.types
        if isinstance(first, Bag) and isinstance(second, Bag):
            first.copies, second.copies = second.copies, first.copies
            first.blind = second.blind = True
        for table in (first, second):
            table.copy.clear()
            table.touched.clear()
            table.arrived = set(table.rows)
            table.whole, table.exchanged_in = False, self._turn
            self.lacking.pop(table.name, None)

    def _changed(self, entry: Entry, first: Emitted, second: Emitted) -> None:
        """As for rows. A row whose large value may be outdated stays so under another key."""
        table = self._table(entry.tables[0])
        if isinstance(table, Bag):
            self._same(entry, second, entry.op)
            table.change(entry, second.turn, second)
            self.happened["changes of rows that may be alike"] += 1
            return
        lacking = self.lacking.get(table.name, set())
        keys = _keys(table, entry) if entry.op == "u" else set()
        Oracle._changed(self, entry, first, second)
        if keys & lacking:
            lacking |= keys
        if entry.op == "t":
            lacking.clear()
            table.lacking.clear()
        else:
            self._note_lacking(table, entry, second.turn)

    def _note_lacking(self, table: Table, entry: Entry, turn: int) -> None:
        """Note rows that came into a filter, of which no event has had all values."""
        old, new = printed_row(entry.old, table.types), printed_row(entry.new, table.types)
        since = None if entry.op == "c" else table.lacking.pop(table.key_before(old, new), None)
        if entry.op == "c" and UNCHANGED in new.values():
            since = turn
            self.happened["rows that came into a filter without a value"] += 1
        if since is not None and entry.op != "d":
            table.lacking[table.key_of(new)] = since

    def _may_lack(self, table: Table, key: Key) -> bool:
        """Whether no snapshot was running when the row came, and none came later."""
        since = table.lacking.get(key)
        return since is not None and all(since >= last for _first, last in table.finished)

    def _copy(self, table: Table, entry: Entry, first: Emitted, second: Emitted, /) -> None:
        """As for rows, where a consumer's copy can be right."""
        if isinstance(table, Untold):
            self.happened["changes of partitions that no snapshot reads"] += 1
        else:
            Oracle._copy(self, table, entry, first, second)

    def settle(self, name: str, rows: list[Row]) -> None:
        """A table may lack entries as long as the job reports it as incomplete, and no longer."""
        table, lacking = self._table(name), self.lacking.get(name, set())
        self._settle_letters(name)
        self._note_labels(rows)
        if isinstance(table, Bag):
            table.settle(rows)
            return
        if isinstance(table, Untold):
            if table.finished:
                raise Violation(f"a snapshot of {name} is finished, and its log does not tell of its rows")
            table.touched.clear()
        if name in self.incomplete:
            table.whole = False
            table.arrived |= lacking
            for key in lacking:
                table.copy.pop(key, None)
        elif lacking:
            self._whole_again(table, lacking)
        try:
            Oracle.settle(self, name, rows)
        except Violation as error:
            says = "says so" if name in self.incomplete else "says nothing of it"
            gap = f" (silent were {len(lacking)} keys, the job {says})" if lacking else ""
            raise Violation(f"{error}{gap}") from error
        if name not in self.incomplete:
            self.lacking.pop(name, None)

    def _note_labels(self, rows: list[Row]) -> None:
        for shown in {row.get(_LABEL) or "" for row in rows}:
            label, _, times = shown.partition("_")
            if times and int(times) > self.renamed.get(label, 0):
                self.renamed[label] = int(times)
                self.happened["labels renamed"] += 1

    def _settle_letters(self, name: str) -> None:
        """A table that is set aside has a dead letter per entry. Once it is complete, its count restarts."""
        if name not in self.disguised:
            return
        if name in self.incomplete:
            if (kept := self.kept[name]) != (said := self.letters.get(name, 0)):
                raise Violation(f"{kept} entries of {name} were not emitted, the job has kept {said}")
            return
        del self.kept[name]
        self.disguised.discard(name)

    @staticmethod
    def _whole_again(table: Table, lacking: set[Key]) -> None:
        """A completed snapshot has read what was silent, but nothing reports deletes."""
        table.arrived -= lacking
        for key in lacking - table.rows.keys():
            table.copy.pop(key, None)


def _keys(table: Table, entry: Entry) -> set[Key]:
    """The keys that a change of one row concerns, as the judge knows them."""
    old, new = printed_row(entry.old, table.types), printed_row(entry.new, table.types)
    before = set() if entry.op == "c" else {table.key_before(old, new)}
    return before if entry.op == "d" else before | {table.key_of(new)}
