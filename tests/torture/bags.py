"""Tables without a key whose rows may be identical: their statements, and their judge, which counts copies.

A change removes one copy and adds one. A window reads as many copies of a row as its snapshot shows, minus
those removed by changes that it does not contain. Copies that the stream adds are emitted by the stream. So a
snapshot reads, for each row, the least number of copies between the window's place in the log and the place
where its rows are emitted. The judge knows neither place. It requires at least the minimum between the
signal's turn and the answer's, and at most the number at the place of emission.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.torture.emitted import printed_row, texts
from tests.torture.oracle import Table, Violation
from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from tests.torture.emitted import Emitted
    from tests.torture.oracle import Key
    from tests.torture.tables import TableShape
    from tests.torture.truth import Entry, Row

_COPIES = 3
_LARGE = "repeat('large ' || n, 500)"
_HIDDEN_TURNS = 3
"""An entry streamed this many turns before a signal may still have been invisible when the window opened."""
_SHOWN = 60


def create_bag(shape: TableShape) -> list[str]:
    """The statements that create the table and its first rows. Some have NULL for a surrogate key."""
    return [
        f"CREATE TABLE {shape.name} (n int, v text, big text)",
        f"ALTER TABLE {shape.name} ALTER big SET STORAGE EXTERNAL",
        f"CREATE INDEX ON {shape.name} (n)",
        f"ALTER TABLE {shape.name} REPLICA IDENTITY FULL",
        _insert(shape.name, f"(SELECT nullif(g / {_COPIES}, 5) FROM generate_series(0, {shape.rows - 1}) g)"),
    ]


def bag_statements(  # noqa: PLR0911  one case for each verb
    table: str, verb: str, rest: Sequence[Any]
) -> list[str]:
    """The SQL of a step that changes rows; none for a step that is the same for every table."""
    match verb, rest:
        case "put", [ordinals]:
            return [_insert(table, f"unnest(ARRAY{ordinals})")]
        case "fill", [first, count]:
            return [_insert(table, f"(SELECT g / 2 FROM generate_series({first}, {first + count - 1}) g)")]
        case "touch", [ordinals]:
            return [_update_one(table, _TOGGLED, ordinal) for ordinal in ordinals]
        case "fatten" | "renew", [ordinals]:
            return [_update_one(table, "big = repeat('fat ', 900)", ordinal) for ordinal in ordinals]
        case "bulk", [modulus, remainder]:
            return [f"UPDATE {table} SET {_TOGGLED} WHERE n % {modulus} = {remainder} OR n IS NULL"]
        case "remove", [ordinals]:
            return [f"DELETE FROM {table} WHERE {_one(table, ordinal)}" for ordinal in ordinals]
        case "move" | "slide" | "rekey", [old, new]:
            return [_update_one(table, f"n = {new}", old)]
        case "swap", [one, other]:
            return [_update_one(table, f"n = {other}", one), _update_one(table, f"n = {one}", other)]
    return []


_TOGGLED = "v = CASE v WHEN 'same' THEN 'other' ELSE 'same' END"


def _insert(table: str, source: str) -> str:
    source = source if source.startswith("(") else f"(SELECT * FROM {source})"
    return f"INSERT INTO {table} (n, v, big) SELECT n, 'same', {_LARGE} FROM {source} AS made (n)"


def _update_one(table: str, change: str, ordinal: int) -> str:
    return f"UPDATE {table} SET {change} WHERE {_one(table, ordinal)}"


def _one(table: str, ordinal: int) -> str:
    """A condition for one copy of those rows."""
    return f"ctid = (SELECT ctid FROM {table} WHERE n = {ordinal} ORDER BY random() LIMIT 1)"


@dataclass(slots=True)
class Bag(Table):
    """A table of this kind at a place in the log: the number of copies of each row.

    `past` has the changes of counts by turn, `reads` how often each turn read a row, `most` how many copies
    there were then. While `blind`, because some change was not emitted, it does not judge reads.
    """

    copies: Counter[Key] = field(default_factory=Counter)
    past: list[tuple[int, Key, int]] = field(default_factory=list)
    reads: dict[tuple[int, Key], int] = field(default_factory=dict)
    most: dict[tuple[int, Key], int] = field(default_factory=dict)
    judged: set[tuple[int, int]] = field(default_factory=set)
    blind: bool = False

    def start(self, rows: Iterable[Row]) -> None:
        """Set the rows as they were before the log began."""
        self.copies.update(self.key_of(printed_row(row, self.types)) for row in rows)

    def key_of(self, row: Mapping[str, str | None]) -> Key:
        """The whole row as a key. The other decoder omits NULLs from a row before a change."""
        return tuple(row.get(name) for name in self.key)

    # Changes.

    def change(self, entry: Entry, turn: int, event: Emitted | None = None) -> None:
        """Apply an entry, after checking that the event says the same."""
        if entry.op == "t":
            for key, count in list(self.copies.items()):
                self._count(turn, key, -count)
            return
        old = printed_row(entry.old, self.types)
        new = printed_row(entry.new, self.types)
        new = {name: old.get(name) if value == UNCHANGED else value for name, value in new.items()}
        if event is not None:
            for row, image in ((old, event.before), (new, event.after)):
                if self.key_of(row) != self.key_of(texts(image or {}, self.types)):
                    raise Violation(
                        f"{self.name}: the log has {_shown(row)}, emitted was {_shown(image or {})}"
                    )
        if entry.op != "c":
            self._count(turn, self.key_of(old), -1)
        if entry.op != "d":
            self._count(turn, self.key_of(new), 1)

    def _count(self, turn: int, key: Key, by: int) -> None:
        self.copies[key] += by
        self.past.append((turn, key, by))
        if self.copies[key] < 0:
            raise Violation(f"the log of {self.name} takes away what is not there: {_shown_key(key)}")

    # Rows read.

    def stands(self, event: Emitted) -> bool:
        """Whether another such row may be read here."""
        key = self.key_of(texts(event.after or {}, self.types))
        return self.blind or self.reads.get((event.turn, key), 0) < self.copies[key]

    def read(self, event: Emitted, *, first: bool) -> None:
        """Note that a row was read here."""
        key = self.key_of(texts(event.after or {}, self.types))
        at = (event.turn, key)
        self.reads[at] = self.reads.get(at, 0) + 1
        self.most[at] = self.copies[key]
        if not self.copies[key] and not self.blind:
            raise Violation(f"{self.name} has no such row here, turn {event.turn} reads {_shown_key(key)}")
        if not first:
            self.read_in.setdefault(key, []).append(event.turn)

    def check_reads(self, spans: Collection[tuple[int, int]]) -> None:
        """No row is read more often than it exists, and none less often than it existed all the time."""
        if self.blind:
            return
        for (turn, key), times in self.reads.items():
            asked = max(1, sum(first <= turn <= last for first, last in spans))
            if times > asked * self.most[turn, key]:
                raise Violation(
                    f"{self.name} has {self.most[turn, key]} copies of a row where turn {turn} reads {times}:"
                    f" {_shown_key(key)}"
                )
        for first, last in self.finished - self.judged:
            read: Counter[Key] = Counter()
            for (turn, key), times in self.reads.items():
                read[key] += times if first <= turn <= last else 0
            for key, least in self._least(first - _HIDDEN_TURNS, last).items():
                if read[key] < least:
                    raise Violation(
                        f"{self.name} had at least {least} copies of a row in turns {first} to {last}, of"
                        f" which a snapshot has read {read[key]}: {_shown_key(key)}"
                    )

    def _least(self, first: int, last: int) -> dict[Key, int]:
        """The fewest copies of each row during these turns."""
        now = Counter(self.copies)
        least: dict[Key, int] = {}
        for turn, key, by in reversed(self.past):
            if turn < first:
                break
            if turn <= last:
                least[key] = min(least.get(key, now[key]), now[key], now[key] - by)
            now[key] -= by
        return {key: least.get(key, count) for key, count in now.items()}

    def settle(self, rows: Iterable[Row]) -> None:
        """Compare with a query at a quiet point, when nothing is being read."""
        there = Counter(self.key_of(printed_row(row, self.types)) for row in rows)
        if there != +self.copies:
            wrong = next(iter((there - self.copies) + (self.copies - there)))
            raise Violation(
                f"by the log, {self.name} has {self.copies[wrong]} copies of a row, a query gives"
                f" {there[wrong]}: {_shown_key(wrong)}"
            )
        self.copies, self.past, self.reads, self.most = there, [], {}, {}
        self.judged |= self.finished
        self.blind = False


def _shown(row: Any) -> str:
    return _shown_key(tuple(row.values()))


def _shown_key(key: Sequence[Any]) -> str:
    return "(" + ", ".join(repr(value)[:_SHOWN] for value in key) + ")"
