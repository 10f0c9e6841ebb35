"""The judge of SQL Server's world: the sink's events held against the log and the rows at each place.

It follows the log entry by entry as the events come out of the sink. Every entry must come once, in the order
of commits and command ids, with what the log has of it. A READ must show the row exactly as it stands at
that place. Entries that no change table has any more, or never had, may be missing, if the job says so. A
consumer's copy is made from the events alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.differences import differences
from tests.simulation.record_sink import shown
from tests.simulation.source import in_scope
from tests.simulation.sqlserver.tables import SIGNALS, TABLES, B, T, U, lsn
from tests.simulation.turns import Turns
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.model import CollectionId, Scope
    from tests.simulation.copies import Finished
    from tests.simulation.record_sink import Record
    from tests.simulation.sqlserver.database import Database, Entry
    from tests.simulation.sqlserver.tables import Values

_SOMETIMES = "extra"
"""A column that comes and goes, and that each capture instance has or not."""


class SqlServerOracle(Turns):
    """Judges one history. `position` is how many entries of the log were passed.

    `lacking` are the tables of which the stream lacked entries, `told` those of which the job has said so.
    """

    def __init__(self, database: Database, *, knows: bool) -> None:
        super().__init__(knows=knows)
        self.database = database
        self.rows: dict[CollectionId, dict[Any, Values]] = {table: {} for table in TABLES}
        self.consumer: dict[CollectionId, dict[Any, Values]] = {table: {} for table in TABLES}
        self.whole: set[CollectionId] = set()
        self.lacking: set[CollectionId] = set()
        self.told: set[CollectionId] = set()
        self.reads = self.begun_at = 0
        self.started = False
        self.asked_for: Callable[[CollectionId, Any], bool] = lambda _collection, _key: True

    def begin(self, at: int) -> None:
        """The log begins here: what precedes it is known to snapshots alone."""
        self._replay(at)
        self.begun_at = at
        for copy in self.consumer.values():
            copy.clear()

    def begin_anew(self, at: int) -> None:
        """A new log begins here. Consumers keep what they have, and repairs make up for what they lack."""
        self.lacking.clear()
        self.whole.clear()
        self._replay(at)
        self.begun_at = at

    def follow(self, database: Database) -> None:
        """Judge by an older copy of the database, which goes on in its place."""
        self.database = database

    @property
    def unjudged(self) -> set[CollectionId]:
        """The tables of which it can't be said what consumers should have."""
        return self.lacking

    def rows_of(self, collection: CollectionId) -> Mapping[Any, Values]:
        """The rows of a table at the place that the stream has reached."""
        return self.rows[collection]

    def differences(self) -> dict[CollectionId, dict[str, int]]:
        """How many rows consumers lack, have otherwise, and have alone, for each table that is judged.

        A row whose column comes and goes may differ by it or not, so its table is left out.
        """
        found = {}
        for collection in (T, U):
            copy, rows = self.consumer[collection], self.rows[collection]
            same = {key: rows[key] for key in rows.keys() & copy.keys() if _same(copy[key], rows[key])}
            sure = all(copy[key].get(_SOMETIMES) == row.get(_SOMETIMES) for key, row in same.items())
            if collection not in self.lacking and sure:
                found[collection] = differences(rows, copy | same)
        return found

    @property
    def untold(self) -> set[CollectionId]:
        """The tables that lack something, and nobody was told so."""
        return self.lacking - self.told - {SIGNALS}

    # Events.

    def turn(self, number: int, events: Sequence[Record]) -> None:
        """Take in the events of a turn, or of an attempt at one."""
        again = self.starts(number)
        if again is not None:
            self._replay(again)
        for event in events:
            if event.op == "r":
                self._read(event, number)
            else:
                self._change(event, number)

    def pass_over(self, commit: str) -> None:
        """Lost entries were passed up to a commit."""
        log = self.database.log
        while (
            self.position < len(log)
            and self.position in self.database.lost
            and lsn(log[self.position].commit) <= commit
        ):
            self._lose()

    def _lose(self) -> None:
        entry = self.database.log[self.position]
        self.lacking.add(entry.collection)
        self._apply(entry)
        self.position += 1

    def _replay(self, upto: int) -> None:
        self.rows = {table: {} for table in TABLES}
        for entry in self.database.log[:upto]:
            self._apply(entry)
        self.position = upto

    def _apply(self, entry: Entry) -> None:
        rows = self.rows.get(entry.collection)
        if rows is None:
            return
        if entry.op == "d":
            rows.pop(entry.key, None)
        elif entry.after is not None:
            rows[entry.key] = entry.after

    def _change(self, event: Record, turn: int) -> None:
        log, said = self.database.log, shown(event)
        source = event.value["source"]
        position = (source["commit_lsn"], source["change_lsn"], event.collection, event.op)
        while self.position < len(log) and position != _place(log[self.position]):
            if self.position not in self.database.lost:
                entry = log[self.position]
                raise Violation(
                    f"turn {turn}: the log goes on with entry {entry.at} ({entry.op} of {entry.key!r} in"
                    f" {entry.collection.parts[-1]} at {lsn(entry.commit)}), sent was {said} at {position[0]}"
                )
            self._lose()
        if self.position >= len(log):
            raise Violation(f"turn {turn}: the log ends, sent was {said}")
        entry = log[self.position]
        what = f"turn {turn}: entry {entry.at}"
        _check(event.value["after"], entry.after, what)
        # In a column that can't be NULL, the value that the log leaves out is the new row's.
        _check(event.value["before"], entry.before if entry.collection == U else entry.old, f"{what}, before")
        self._apply(entry)
        self.position += 1
        copy = self.consumer.get(entry.collection)
        if copy is not None:
            if event.op == "d":
                copy.pop(entry.key, None)
            else:
                copy[_key(entry.collection, event.value["after"])] = event.value["after"]

    def _read(self, event: Record, turn: int) -> None:
        self.reads += 1
        collection, after = event.collection, event.value["after"]
        if collection == SIGNALS:
            return
        key = _key(collection, after)
        if not self.asked_for(collection, key):
            raise Violation(f"turn {turn}: no signal asked for {shown(event)}")
        row = self.rows[collection].get(key)
        if collection not in self.lacking and (row is None or not _same(after, row)):
            raise Violation(f"turn {turn}: {shown(event)}, and the row is {row} here (entry {self.position})")
        self.consumer[collection][key] = after

    # Answers.

    def finished(self, collection: CollectionId, _finished: Finished, scope: Scope | None = None) -> None:
        """A snapshot was answered as finished."""
        if collection in self.lacking:
            return
        if scope is None:
            self.whole.add(collection)
        self._check_copy(collection, scope)

    def _check_copy(self, collection: CollectionId, scope: Scope | None = None) -> None:
        copy, rows = self.consumer[collection], self.rows[collection]
        for key in sorted(copy.keys() | rows.keys()):
            have, row = copy.get(key), rows.get(key)
            same = have is row if have is None or row is None else _same(have, row)
            if not same and in_scope(scope, key):
                raise Violation(
                    f"the snapshot of {collection.parts[-1]} is finished; row {key} is {row},"
                    f" consumers have {have} (entry {self.position})"
                )

    def end(self) -> None:
        """The history is over: everything was streamed, and what was finished is complete."""
        self.pass_over("g")
        if self.position != len(self.database.log):
            raise Violation(f"the stream ended at entry {self.position} of {len(self.database.log)}")
        if self.untold:
            raise Violation(f"{min(self.untold)} lacks changes, and nobody was told")
        for collection in self.whole - self.lacking:
            self._check_copy(collection)


def _place(entry: Entry) -> tuple[str, str, CollectionId, str]:
    return (lsn(entry.commit), lsn(entry.change), entry.collection, entry.op)


def _key(collection: CollectionId, row: Mapping[str, Any]) -> Any:
    return row["n" if collection == B else "id"]


def _same(found: Values, row: Values) -> bool:
    return all(found.get(name) == value for name, value in row.items() if name != _SOMETIMES)


def _check(found: Values | None, wanted: Values | None, what: str) -> None:
    if (found is None) is not (wanted is None):
        raise Violation(f"{what} is {wanted}, sent was {found}")
    if found is not None and wanted is not None and not _same(found, wanted):
        raise Violation(f"{what} is {wanted}, sent was {found}")
    if found and wanted and found.get(_SOMETIMES) not in (None, wanted.get(_SOMETIMES)):
        raise Violation(f"{what} is {wanted}, sent was {found}")
