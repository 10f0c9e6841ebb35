"""The judge of SQL Server's rows: the same sentence as elsewhere, and what is otherwise there.

Each database has a log of its own, and nothing is said of the order between them. A table that CDC was
told not to capture is dark: of what becomes of its rows no log tells, until it is captured again.
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
"""What no event tells of: CDC was disabled, was enabled again, and what rows there were then."""
_SERIALS = {"c": 1, "d": 1, "u": 2}
"""`event_serial_no`; the row before an update is number one of it."""


@dataclass(slots=True)
class DatabaseOracle(Oracle):
    """Judges one database; `gone` are columns that were dropped, which rows read have as NULL."""

    gone: set[tuple[str, str]] = field(default_factory=set)
    dark: set[str] = field(default_factory=set)

    def known_tables(self, entry: Entry) -> list[Entry]:
        """Each entry as it is."""
        return [entry]

    def precede(self, entries: Iterable[Entry]) -> None:
        """Go on with what was committed before the job's log began."""
        for entry in entries:
            if entry.op in _SILENT:
                self._follow_silently(entry)
            else:
                Oracle.precede(self, [entry])

    def left(self) -> list[Entry]:
        """The entries that an event should have told of."""
        self._come_to_an_event()
        return self.ahead

    def take_in(self, event: Emitted) -> None:
        """Go on with one event."""
        if event.op == "r":
            while not self._stands(event) and self.ahead and self.ahead[0].op in _SILENT:
                self._follow_silently(self.ahead.pop(0))
            if event.table in self.dark:
                return
        else:
            self._come_to_an_event()
        Oracle.take_in(self, event)

    def _stands(self, event: Emitted) -> bool:
        """Whether a row that was read is what stands in its table."""
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

    @staticmethod
    def _before(table: Table, entry: Entry, event: Emitted) -> None:
        """The image before is what stood in the table; a large value may be lacking that was left alone."""
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
            lacks = value is None and entry.old.get(name) is None
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
    """Judges a server: every database by itself. `logs` has the judge of each, by its name."""

    logs: dict[str, DatabaseOracle] = field(default_factory=dict)

    def know(self, table: Table) -> None:
        """One more table."""
        self.tables[table.name] = table
        self._log(table.name).tables[table.name] = table

    def drop_column(self, table: str, column: str) -> None:
        """A column is no more."""
        self._log(table).gone.add((table, column))

    def known_tables(self, entry: Entry) -> list[Entry]:
        """Each entry as it is."""
        return [entry]

    def precede(self, entries: Iterable[Entry]) -> None:
        """Go on with what was committed before the job's log began."""
        for entry in entries:
            self._log(entry.tables[0]).precede([entry])

    def follow(self, entries: Iterable[Entry], emitted: Iterable[Emitted]) -> None:
        """Go on with what has been committed and what has been emitted since the last call."""
        for entry in entries:
            self._log(entry.tables[0]).ahead.append(entry)
        for event in emitted:
            self.take_in(event)

    def take_in(self, event: Emitted) -> None:
        """Go on with one event."""
        self.events += 1
        self.reads += event.op == "r"
        self._log(event.table).take_in(event)

    def left(self) -> list[Entry]:
        """The entries that no event has told of."""
        return [entry for log in self.logs.values() for entry in log.left()]

    def settle(self, name: str, rows: list[Row]) -> None:
        """Compare a table at a quiet point; of a dark one nothing is known."""
        log = self._log(name)
        if name not in log.dark:
            log.settle(name, rows)

    def _log(self, table: str) -> DatabaseOracle:
        name = table.partition(".")[0]
        if name not in self.logs:
            self.logs[name] = DatabaseOracle(first_words=self.first_words)
        return self.logs[name]
