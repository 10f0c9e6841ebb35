"""The judge of SQL Server's rows: the same rule as elsewhere, with SQL Server's differences.

Each database has its own log, and the order between databases does not matter. A table for which CDC was
disabled is dark: its changes are in no log until it is captured again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.torture.emitted import texts
from tests.torture.oracle import Oracle, Violation
from tests.torture.sqlserver_tables import LARGES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.torture.emitted import Emitted
    from tests.torture.oracle import Table
    from tests.torture.truth import Entry, Row

DARK, LIGHT, CAME = "dark", "light", "came"
_SILENT = frozenset({DARK, LIGHT, CAME})
"""Entries without events: CDC was disabled, CDC was enabled again, and a row that existed then."""
_SERIALS = {"c": 1, "d": 1, "u": 2}
"""`event_serial_no`. The row before an update has number one."""


@dataclass(slots=True)
class DatabaseOracle(Oracle):
    """Judges one database. `gone` are dropped columns, which rows read have as NULL."""

    gone: set[tuple[str, str]] = field(default_factory=set)
    dark: set[str] = field(default_factory=set)

    def known_tables(self, entry: Entry) -> list[Entry]:
        """Each entry as it is."""
        return [entry]

    def precede(self, entries: Iterable[Entry]) -> None:
        """Apply what was committed before the job's log began."""
        for entry in entries:
            if entry.op in _SILENT:
                self._follow_silently(entry)
            else:
                Oracle.precede(self, [entry])

    def left(self) -> list[Entry]:
        """The entries that should have had an event."""
        self._come_to_an_event()
        return self.ahead

    def take_in(self, event: Emitted) -> None:
        """Process one event."""
        if event.op == "r":
            while not self._stands(event) and self.ahead and self.ahead[0].op in _SILENT:
                self._follow_silently(self.ahead.pop(0))
            if event.table in self.dark:
                return
        else:
            self._come_to_an_event()
        Oracle.take_in(self, event)

    def _stands(self, event: Emitted) -> bool:
        """Whether a row read equals the table's row."""
        if event.table in self.dark:
            return not any(event.table in entry.tables for entry in self.ahead[:1])
        table = self._table(event.table)
        found = texts(event.after or {}, table.types)
        stands = table.rows.get(table.key_of(found))
        return stands is not None and stands.get("ver") == found.get("ver")

    def _come_to_an_event(self) -> None:
        while self.ahead and self.ahead[0].op in _SILENT:
            self._follow_silently(self.ahead.pop(0))

    def _follow_silently(self, entry: Entry) -> None:
        (name,) = entry.tables
        table = self._table(name)
        if entry.op == CAME:
            key = table.key_of(entry.new)
            table.rows[key] = entry.new
            table.arrived.add(key)
            return
        table.rows.clear()
        table.copy.clear()
        table.arrived.clear()
        if entry.op == DARK:
            self.dark.add(name)
        else:
            self.dark.discard(name)

    def _changed(self, entry: Entry, first: Emitted, second: Emitted) -> None:
        moved = first is not second
        self._same(entry, second, "c" if moved else entry.op)
        serials = (first.place, second.place)
        if serials != ((1, 2) if moved else (_SERIALS[entry.op],) * 2):
            raise Violation(f"event_serial_no is {serials} of {entry.op} of {entry.tables[0]}")
        self._before(self._table(entry.tables[0]), entry, first)
        Oracle._changed(self, entry, first, second)

    def _before(self, table: Table, entry: Entry, event: Emitted) -> None:
        """The old image must be the table's row; it may lack unchanged large values.

        Of a dropped column it is what the change table has: NULL, or an empty value if it was NOT NULL.
        """
        if entry.op == "c":
            if event.before is not None:
                raise Violation(f"an insert into {table.name} has a before: {event.before}")
            return
        told = texts(event.before or {}, table.types)
        stood = table.rows.get(table.key_of(entry.old))
        if stood is None:
            raise Violation(
                f"the log tells of a row of {table.name} that is not there: {table.key_of(entry.old)}"
            )
        for name, value in told.items():
            lacks = value == entry.old.get(name) and (value is None or (table.name, name) in self.gone)
            if not lacks and value != stood.get(name, value):
                raise Violation(
                    f"before has {name!r} as {value!r} in {event.op} of {table.name}, was {stood[name]!r}"
                )
        if lacking := {name for name in told if name not in LARGES and told[name] != entry.old.get(name)}:
            raise Violation(
                f"before lacks {lacking} in {event.op} of {table.key_of(entry.old)} of {table.name}"
            )

    def _read(self, event: Emitted) -> None:
        after = {
            name: value for name, value in (event.after or {}).items() if (event.table, name) not in self.gone
        }
        Oracle._read(self, replace(event, after=after))


@dataclass(slots=True)
class SqlServerOracle(Oracle):
    """Judges a server, each database by itself. `logs` has each database's judge by name."""

    logs: dict[str, DatabaseOracle] = field(default_factory=dict)

    def know(self, table: Table) -> None:
        """Add a table."""
        self.tables[table.name] = table
        self._log(table.name).tables[table.name] = table

    def drop_column(self, table: str, column: str) -> None:
        """Note that a column was dropped."""
        self._log(table).gone.add((table, column))

    def known_tables(self, entry: Entry) -> list[Entry]:
        """Each entry as it is."""
        return [entry]

    def precede(self, entries: Iterable[Entry]) -> None:
        """Apply what was committed before the job's log began."""
        for entry in entries:
            self._log(entry.tables[0]).precede([entry])

    def follow(self, entries: Iterable[Entry], emitted: Iterable[Emitted]) -> None:
        """Process what has been committed and emitted since the last call."""
        for entry in entries:
            self._log(entry.tables[0]).ahead.append(entry)
        for event in emitted:
            self.take_in(event)

    def take_in(self, event: Emitted) -> None:
        """Process one event."""
        self.events += 1
        self.reads += event.op == "r"
        if not self.sends_away(event):
            self._log(event.table).take_in(event)

    def left(self) -> list[Entry]:
        """The entries without an event so far."""
        return [entry for log in self.logs.values() for entry in log.left()]

    def settle(self, name: str, rows: list[Row]) -> None:
        """Compare a table at a quiet point. A dark table is not known, and not compared."""
        log = self._log(name)
        if name not in log.dark:
            log.settle(name, rows)

    def _log(self, table: str) -> DatabaseOracle:
        name = table.partition(".")[0]
        if name not in self.logs:
            self.logs[name] = DatabaseOracle(first_words=self.first_words, blocks=self.blocks)
        return self.logs[name]
