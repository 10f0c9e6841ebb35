"""The judge: compares what was emitted with the database, key by key. Knows nothing of the engine.

It follows the log through `truth.py`, and so knows each table at every place in the log. The events must be
exactly these entries, each once and in order, with READ events in between. A READ event must show the row
exactly as it was at the place that the stream had reached. This one rule covers both halves of the merge
rule: an older row would follow a newer change, and a newer row would precede a change that it already
contains.

It also keeps a consumer's copy, made from the events alone. Until a table has been read completely, its copy
may lack rows and large values from before the log began.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from tests.torture.aside import Aside
from tests.torture.emitted import printed_row, texts
from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tests.torture.emitted import Emitted
    from tests.torture.truth import Entry, Row

Key: TypeAlias = "tuple[str | None, ...]"
_SHOWN = 160
_ADDED = re.compile(r"c\d+")
"""The names of columns that histories add."""
_FIRST_WORDS = {"true", "first", "last", "first_in_data_collection", "last_in_data_collection"}
"""Values of the source block's `snapshot` for rows of the initial snapshot."""


class Violation(Exception):
    """An invariant was violated. The message says which, where, and shows both sides."""


@dataclass(slots=True)
class Table:
    """A table at the place in the log that has been reached, and a consumer's copy of it.

    `key` names the columns that identify rows. `whole` says whether the table was read completely since the
    log began. `touched` are the keys with log entries, `read_in` the turns that read each key because of a
    signal, `first_reads` how often the initial snapshot read it, `arrived` the keys that appeared without a
    change. `lacking` are keys whose values have been in no event since that turn. `finished` has the first
    and last turn of snapshots that read all of the table. `exchanged_in` is the turn in which it swapped
    names with another table. `ordinals` are the ordinals of rows that signals had read, each with its turn.
    """

    name: str
    key: tuple[str, ...]
    types: dict[str, str]
    rows: dict[Key, Row] = field(default_factory=dict)
    copy: dict[Key, Row] = field(default_factory=dict)
    touched: set[Key] = field(default_factory=set)
    whole: bool = False
    read_in: dict[Key, list[int]] = field(default_factory=dict)
    first_reads: Counter[Key] = field(default_factory=Counter)
    arrived: set[Key] = field(default_factory=set)
    lacking: dict[Key, int] = field(default_factory=dict)
    finished: set[tuple[int, int]] = field(default_factory=set)
    exchanged_in: int = 0
    ordinals: set[tuple[int, int]] = field(default_factory=set)

    @property
    def steady(self) -> set[Key]:
        """The keys of rows that always existed and never changed."""
        return self.rows.keys() - self.touched - self.arrived

    def start(self, rows: Iterable[Row]) -> None:
        """Set the rows as they were before the log began."""
        for row in rows:
            shown = printed_row(row, self.types)
            self.rows[self.key_of(shown)] = shown

    def key_of(self, row: Mapping[str, str | None]) -> Key:
        """The key of a row."""
        return tuple(row[name] for name in self.key)

    @staticmethod
    def ordinal_of(row: Mapping[str, str | None]) -> int:
        """The ordinal by which writers know the row, -1 if it has none."""
        ordinal = row.get("n")
        return -1 if ordinal is None else int(ordinal)

    def key_before(self, old: Mapping[str, str | None], new: Mapping[str, str | None]) -> Key:
        """The key that a changed row had, from what is known of the old row and from the new one."""
        return self.key_of({**new, **old})

    def check_reads(self, spans: Collection[tuple[int, int]]) -> None:
        """Judge how often rows were read. `spans` are the turns of signals that requested the table."""

    def key_of_event(self, image: Mapping[str, object]) -> Key:
        """The key of an event's row."""
        return self.key_of(texts({name: image[name] for name in self.key}, self.types))


@dataclass(slots=True)
class Oracle:
    """Judges one history. Raises Violation at the first error.

    `published` maps tables to the names under which their rows are published, if different. `moved_op` is the
    operation of the second of the two events for a changed key. `unheard` are entries that the job can't have
    seen. `incomplete` are the tables that the job reports as incomplete, `letters` how many of their entries
    it reports as kept, `aside` when it set tables aside. `happened` counts rare events. `blocks`: rows
    that are marked as those of an initial snapshot are read by blocking signals. `strangers` are rows that
    only the sink has and that a repair has to delete: table and key.
    """

    tables: dict[str, Table] = field(default_factory=dict)
    published: dict[str, str] = field(default_factory=dict)
    ahead: list[Entry] = field(default_factory=list)
    events: int = 0
    reads: int = 0
    first_words: list[tuple[str, str]] = field(default_factory=list)
    blocks: bool = False
    half: Emitted | None = None
    unheard: list[Entry] = field(default_factory=list)
    moved_op: str = "c"
    incomplete: frozenset[str] = frozenset()
    letters: dict[str, int] = field(default_factory=dict)
    aside: Aside = field(default_factory=Aside)
    happened: Counter[str] = field(default_factory=Counter)
    strangers: set[tuple[str, Key]] = field(default_factory=set)

    def precede(self, entries: Iterable[Entry]) -> None:
        """Apply what was committed before the job's log began, none of which is emitted."""
        for entry in (known_table for found in entries for known_table in self.known_tables(found)):
            table = self._table(entry.tables[0])
            if entry.op == "t":
                table.rows.clear()
                continue
            table.types.update(entry.types)
            touched = set(table.touched)
            self._apply(table, entry)
            table.touched = touched

    def follow(self, entries: Iterable[Entry], emitted: Iterable[Emitted]) -> None:
        """Process what has been committed and emitted since the last call."""
        for entry in entries:
            self.ahead += self.known_tables(entry)
        for event in emitted:
            self.take_in(event)

    def take_in(self, event: Emitted) -> None:
        """Process one event."""
        self.events += 1
        if event.op == "r":
            self._read(event)
        elif self.half is None and event.op == "d" and self.ahead and self.ahead[0].op == "u":
            # A changed key comes as two events.
            self.half = event
        else:
            self._changed(self._next(event), self.half or event, event)
            self.half = None

    def sends_away(self, event: Emitted) -> bool:
        """Whether an event deletes a row that only the sink had, which it then does no more."""
        if event.op != "d" or not any(name == event.table for name, _key in self.strangers):
            return False
        stranger = event.table, self._table(event.table).key_of_event(event.before or {})
        if stranger not in self.strangers:
            return False
        self.strangers.discard(stranger)
        self.happened["strangers deleted by repairs"] += 1
        return True

    def left(self) -> list[Entry]:
        """The entries without an event so far."""
        return self.ahead

    def known_tables(self, entry: Entry) -> list[Entry]:
        """An entry under the published name. A truncate becomes one entry per table that consumers know."""
        names = dict.fromkeys(self.published.get(name, name) for name in entry.tables)
        return [replace(entry, tables=(name,)) for name in names if entry.op != "t" or name in self.tables]

    def _next(self, event: Emitted) -> Entry:
        if not self.ahead:
            raise Violation(f"emitted, but not in the log: {_shown_event(event)}")
        return self.ahead.pop(0)

    # Changes.

    def _changed(self, entry: Entry, first: Emitted, second: Emitted) -> None:
        """Compare an entry with its event, or with the two events of a changed key."""
        moved = first is not second
        self._same(entry, second, self.moved_op if moved else entry.op)
        if moved:
            self._same(entry, first, "d")
        table = self._table(entry.tables[0])
        if entry.op == "t":
            table.rows.clear()
            table.copy.clear()
            return
        table.types.update(entry.types)
        self._apply(table, entry)
        self._copy(table, entry, first, second)

    @staticmethod
    def _same(entry: Entry, event: Emitted, op: str) -> None:
        if (event.op, event.table, event.transaction) != (op, entry.tables[0], entry.transaction):
            raise Violation(f"the log goes on with {_shown_entry(entry)}, emitted was {_shown_event(event)}")

    @staticmethod
    def _apply(table: Table, entry: Entry) -> None:
        """Apply an entry to the table."""
        old, new = printed_row(entry.old, table.types), printed_row(entry.new, table.types)
        before: Row = {}
        if entry.op != "c":
            key = table.key_before(old, new)
            table.touched.add(key)
            table.arrived.discard(key)
            before = table.rows.pop(key, {})
        if entry.op == "d":
            return
        for name, value in new.items():
            if value == UNCHANGED:
                new[name] = old.get(name) or before.get(name, UNCHANGED)
        table.rows[table.key_of(new)] = new
        table.touched.add(table.key_of(new))

    def _copy(self, table: Table, entry: Entry, first: Emitted, second: Emitted, /) -> None:
        """Apply the event to the consumer's copy, after checking that it equals the entry."""
        after = None if second.after is None else texts(second.after, table.types)
        if after is not None:
            self._equal(table, entry, after, second)
        before = {} if first.before is None else texts(first.before, table.types)
        kept: Row = {}
        if entry.op != "c":
            known = {name: value for name, value in before.items() if value is not None}
            kept = table.copy.pop(table.key_before(known, after or {}), {})
        if after is not None:
            filled = {name: self._filled(name, value, before, kept) for name, value in after.items()}
            table.copy[table.key_of(filled)] = filled

    @staticmethod
    def _filled(name: str, value: str | None, before: Row, kept: Row) -> str | None:
        """The value or, if the event omits it, the one that the row had."""
        if value != UNCHANGED:
            return value
        was = before.get(name)
        return was if was not in {None, UNCHANGED} else kept.get(name, UNCHANGED)

    @staticmethod
    def _equal(table: Table, entry: Entry, found: Row, event: Emitted) -> None:
        """Compare the event with the table's values, column by column.

        It may lack only what the entry lacks.
        """
        stands = table.rows[table.key_of(printed_row(entry.new, table.types))]
        for name in sorted(entry.new.keys() | found.keys()):
            expected, told = stands.get(name, "no column"), found.get(name, "no column")
            if expected != told and not (told == UNCHANGED == entry.new.get(name)):
                raise Violation(
                    f"column {name!r} of {table.name}: the log has {_cut(expected)},"
                    f" emitted was {_cut(told)} in {_shown_event(event)}"
                )

    # Rows read.

    def _read(self, event: Emitted) -> None:
        """Check that a row read equals the table's row at this place in the log."""
        self.reads += 1
        table = self._table(event.table)
        found = texts(event.after or {}, table.types)
        key = table.key_of(found)
        if event.snapshot in _FIRST_WORDS and not self.blocks:
            table.first_reads[key] += 1
            self.first_words.append((table.name, event.snapshot))
        else:
            table.read_in.setdefault(key, []).append(event.turn)
            table.ordinals.add((event.turn, table.ordinal_of(found)))
        stands = table.rows.get(key)
        if stands is None:
            what = (
                "a change of its key was streamed before"
                if key in table.touched
                else "nothing was streamed of it"
            )
            raise Violation(
                f"{table.name} has no row {key!r} here ({what}), turn {event.turn} reads {_cut_row(found)}"
            )
        for name in found.keys() & stands.keys():
            if UNCHANGED not in {found[name], stands[name]} and found[name] != stands[name]:
                raise Violation(
                    f"{table.name} row {key!r} column {name!r} is {_cut(stands[name])} here, in"
                    f" {stands.get('ver')}; turn {event.turn} reads {_cut(found[name])}, {found.get('ver')}"
                )
        if UNCHANGED in found.values():
            raise Violation(f"a row read of {table.name}, {key!r}, lacks a value")
        table.copy[key] = found

    # Quiet points.

    def settle(self, name: str, rows: list[Row]) -> None:
        """Compare a table with a query at a quiet point, when all of the log has been emitted."""
        table = self._table(name)
        there = {table.key_of(row): row for row in (printed_row(row, table.types) for row in rows)}
        self._settled(table, "the log", table.rows, there)
        known = self._known(table)
        copied = {key: row for key, row in table.copy.items() if key in there}
        if extra := table.copy.keys() - there.keys():
            raise Violation(
                f"the events leave {name} {len(extra)} rows that are gone, one is {min(extra, key=str)!r}"
            )
        if lost := known - table.copy.keys():
            raise Violation(f"the events leave out {len(lost)} rows of {name}, one is {min(lost, key=str)!r}")
        self._settled(table, "the events", copied, {key: there[key] for key in copied})
        if table.whole:
            for key, row in copied.items():
                lacking = [column for column, value in row.items() if value == UNCHANGED]
                if lacking and not self._may_lack(table, key):
                    raise Violation(f"nobody has sent {lacking[0]!r} of row {key!r} of {name}")
        # New columns have values that no entry shows.
        table.rows = there

    def check_columns(self, name: str, rows: list[Row]) -> None:
        """Check that consumers have the values of columns that were added, also in rows that nobody changed.

        `rows` are a query's. Columns without a value in a row need no event.
        """
        table = self._table(name)
        if not table.whole or name in self.incomplete:
            return
        for row in (printed_row(row, table.types) for row in rows):
            copied = table.copy.get(table.key_of(row), row)
            lacking = [column for column, value in row.items() if value is not None and column not in copied]
            if lacking:
                raise Violation(f"nobody has sent {lacking[0]!r} of row {table.key_of(row)!r} of {name}")
            self.happened["rows with a column that was added"] += any(map(_ADDED.fullmatch, row))

    def _may_lack(self, table: Table, key: Key) -> bool:  # noqa: ARG002  subclasses know better
        """Whether a row may lack values even though the table was read completely."""
        return False

    def _known(self, table: Table) -> set[Key]:
        """The rows that the copy must have: all once the table was read, before that those in the log."""
        known = set(table.rows) if table.whole else set(table.rows) & table.touched
        return known - table.arrived

    @staticmethod
    def _settled(table: Table, whose: str, found: dict[Key, Row], there: dict[Key, Row]) -> None:
        if found.keys() != there.keys():
            wrong = min(found.keys() ^ there.keys(), key=str)
            raise Violation(
                f"by {whose}, {table.name} has {len(found)} rows, a query gives {len(there)}; row {wrong!r}"
            )
        for key, row in found.items():
            for name in row.keys() & there[key].keys():
                if row[name] not in {UNCHANGED, there[key][name]}:
                    raise Violation(
                        f"by {whose}, {name!r} of row {key!r} of {table.name} is {_cut(row[name])},"
                        f" a query gives {_cut(there[key][name])}"
                    )

    def _table(self, name: str) -> Table:
        if name not in self.tables:
            raise Violation(f"{name} is none of the history's tables")
        return self.tables[name]


def _cut(value: str | None) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _cut_row(row: Row) -> str:
    return "{" + ", ".join(f"{name}: {_cut(value)[:40]}" for name, value in row.items()) + "}"


def _shown_entry(entry: Entry) -> str:
    return (
        f"{entry.op} of {', '.join(entry.tables)} in {entry.transaction}: {_cut_row(entry.new or entry.old)}"
    )


def _shown_event(event: Emitted) -> str:
    image = event.after or event.before or {}
    shown: Row = {name: str(value) for name, value in image.items()}
    return f"{event.op} of {event.table} in {event.transaction}, turn {event.turn}: {_cut_row(shown)}"
