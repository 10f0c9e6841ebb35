"""The judge of rows on PostgreSQL: what no event tells of is followed all the same.

Messages in the log, which the job is told to leave out, say what the log itself does not: that a table is
taken out of the publication or put back, or that two tables change names. Changes of a table that is not
published are silent. Its copy may then lack them, as long as the job says that it is incomplete.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.torture.emitted import texts
from tests.torture.oracle import Oracle, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.torture.emitted import Emitted
    from tests.torture.oracle import Key, Table
    from tests.torture.truth import Entry, Row


@dataclass(slots=True)
class PostgresOracle(Oracle):
    """`unpublished` are the tables whose changes are silent now, `lacking` the keys of those by table.

    `disguised` are tables that the job may set aside, since their log can't be decoded: then it must say so,
    and keep each of their entries; `kept` are those that no event told of.
    """

    unpublished: set[str] = field(default_factory=set)
    lacking: dict[str, set[Key]] = field(default_factory=dict)
    disguised: set[str] = field(default_factory=set)
    kept: Counter[str] = field(default_factory=Counter)

    def precede(self, entries: Iterable[Entry]) -> None:
        """Go on with what was committed before the job's log began."""
        for entry in entries:
            if entry.op == "m":
                self._told(entry)
                self._pass(entry)
            else:
                Oracle.precede(self, [entry])

    def follow(self, entries: Iterable[Entry], emitted: Iterable[Emitted]) -> None:
        """Go on with what has been committed and what has been emitted since the last call."""
        for entry in entries:
            if entry.op == "m":
                self._told(entry)
                self.ahead.append(entry)
                continue
            for one in self.known_tables(entry):
                silent = one.tables[0] in self.unpublished
                self.ahead.append(replace(one, silent=silent))
                if silent:
                    self.unheard.append(one)
        Oracle.follow(self, [], emitted)

    def _told(self, message: Entry) -> None:
        """Note which tables' changes are silent from here on."""
        verb, _, names = message.text.partition(" ")
        known = set(self.tables) if names == "*" else set(names.split(","))
        if verb == "unpublish":
            self.unpublished |= known
        elif verb == "publish":
            self.unpublished -= known

    def left(self) -> list[Entry]:
        """The entries that an event should have told of."""
        self._come_to(None)
        return self.ahead

    def take_in(self, event: Emitted) -> None:
        """Go on with one event."""
        if event.op != "r":
            self._come_to(event)
            Oracle.take_in(self, event)
            return
        while not self._stands(event) and self.ahead and self._is_silent(self.ahead[0], event):
            self._pass(self.ahead.pop(0))
        table = self._table(event.table)
        found = texts(event.after or {}, table.types)
        if table.key_of(found) not in self.lacking.get(table.name, ()) or self._stands(event):
            Oracle.take_in(self, event)
            return
        # It was read before a change that nobody was told of.
        self.events, self.reads = self.events + 1, self.reads + 1
        table.copy[table.key_of(found)] = found

    def _stands(self, event: Emitted) -> bool:
        """Whether a row read is the table's here."""
        table = self._table(event.table)
        found = texts(event.after or {}, table.types)
        stands = table.rows.get(table.key_of(found))
        return stands is not None and stands.get("ver") == found.get("ver")

    def _come_to(self, event: Emitted | None) -> None:
        """Pass what no event tells of, up to the entry of this one."""
        while self.ahead and self._is_silent(self.ahead[0], event):
            self._pass(self.ahead.pop(0))

    def _is_silent(self, entry: Entry, event: Emitted | None) -> bool:
        """Whether an event, None for the end, is not this entry's, and none need be."""
        if entry.silent or entry.op == "m":
            return True
        name = entry.tables[0]
        told = event is not None and (event.table, event.place) == (name, entry.place)
        return name in self.disguised and not told

    def _pass(self, entry: Entry) -> None:
        """Follow an entry that no event tells of."""
        if entry.op == "m":
            if entry.text.startswith("exchange "):
                self._exchange(*entry.text.removeprefix("exchange ").split(","))
            return
        table = self._table(entry.tables[0])
        self.kept[table.name] += not entry.silent
        lacking = self.lacking.setdefault(table.name, set())
        if entry.op == "t":
            lacking |= table.rows.keys()
            table.rows.clear()
            return
        table.types.update(entry.types)
        if entry.op != "c":
            lacking.add(table.key_of({**entry.new, **entry.old}))
        self._apply(table, entry)
        if entry.op != "d":
            lacking.add(table.key_of(entry.new))

    def _exchange(self, one: str, other: str) -> None:
        """Two tables have got each other's name; what a consumer has of either is worth nothing."""
        first, second = self.tables[one], self.tables[other]
        first.rows, second.rows = second.rows, first.rows
        first.types, second.types = second.types, first.types
        for table in (first, second):
            table.copy.clear()
            table.touched.clear()
            table.arrived = set(table.rows)
            table.whole = False
            self.lacking.pop(table.name, None)

    def _changed(self, entry: Entry, first: Emitted, second: Emitted) -> None:
        """As ever; a row whose large value may be an old one stays that under another key."""
        table = self._table(entry.tables[0])
        lacking = self.lacking.get(table.name, set())
        moves = entry.op == "u" and table.key_of({**entry.new, **entry.old}) in lacking
        Oracle._changed(self, entry, first, second)
        if moves:
            lacking.add(table.key_of(entry.new))
        if entry.op == "t":
            lacking.clear()

    def settle(self, name: str, rows: list[Row]) -> None:
        """What a table lacks it may lack as long as the job says so, and no longer."""
        table, lacking = self._table(name), self.lacking.get(name, set())
        self._settle_letters(name)
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
            gap = f" (silent were {len(lacking)} keys, the job says nothing of it)" if lacking else ""
            raise Violation(f"{error}{gap}") from error
        if name not in self.incomplete:
            self.lacking.pop(name, None)

    def _settle_letters(self, name: str) -> None:
        """A table that is set aside has a letter for each entry; one that is whole again has none aside."""
        if name not in self.disguised:
            return
        self.happened["tables set aside"] += bool(self.kept[name])
        if name in self.incomplete:
            if (kept := self.kept[name]) != (said := self.letters.get(name, 0)):
                raise Violation(f"{kept} entries of {name} were not emitted, the job has kept {said}")
            return
        self.happened["tables taken up"] += bool(self.kept.pop(name, 0))
        self.disguised.discard(name)

    @staticmethod
    def _whole_again(table: Table, lacking: set[Key]) -> None:
        """A completed snapshot has read what was silent; what was deleted nobody tells."""
        table.arrived -= lacking
        for key in lacking - table.rows.keys():
            table.copy.pop(key, None)
