"""The judge of an initial snapshot: it reads every table completely, and no row twice without a reason.

The oracle checks that a row read equals the row at its place in the log. A row that the log mentions may be
read again, since its large values may be missing. So may all rows of a table without a key, or of one whose
columns were changed meanwhile: such a table is read from scratch. What is left when locks are lost is read
beside the log, where SQL Server's tables without a key are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.torture.oracle import Violation
from tests.torture.script import collections

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tests.torture.journal import JournalReader
    from tests.torture.oracle import Oracle, Table
    from tests.torture.script import Script


_ANEW = frozenset(
    {
        *("sql", "truncate", "empty", "drop", "exile", "replace", "succeed", "publish", "exchange"),
        *("away", "out", "wipe", "rewrite"),
    }
)
"""Steps after which a table may be read from its beginning again."""


@dataclass(frozen=True, slots=True)
class Initial:
    """Judges a history at a quiet point. With `exact` every event comes exactly once.

    `altered` are tables whose columns were changed outside the script.
    """

    script: Script
    oracle: Oracle
    altered: Collection[str]
    exact: bool

    def settle(self, tables: Mapping[str, Table], journal: JournalReader) -> None:
        """Check that every table is complete. Raises Violation for rows missing or read too often."""
        if not self.script.initial:
            if self.oracle.first_words:
                raise Violation(f"nobody asked for an initial snapshot: {self.oracle.first_words[0]}")
            return
        most = 1 if self.exact else 1 + len(journal.of("crash", "killed", "unsent"))
        anew, refused = self._read_anew(), self._refused(journal)
        for name, table in tables.items():
            if name in refused | self.oracle.aside.ever:
                continue
            table.whole = True
            table.finished |= self._finished(name, journal)
            for key in table.steady:
                times = table.first_reads[key]
                if not times:
                    raise Violation(f"the initial snapshot has left out row {key!r} of {name}")
                if times > most and name not in anew:
                    raise Violation(f"the initial snapshot has read row {key!r} of {name} {times} times")
        if self.exact:
            self._words(anew)

    @staticmethod
    def _finished(name: str, journal: JournalReader) -> set[tuple[int, int]]:
        """The turns of a completion that answers no signal: all of the table was read by then."""
        notes = [
            note for note in journal.of("answer") if not note["id"] and note.get("outcome") == "finished"
        ]
        return {(0, note["turn"]) for note in notes if note["text"].startswith(f"{name} completed")}

    def _read_anew(self) -> set[str]:
        strikes = [strike.step for round_ in self.script.rounds for strike in round_.strikes]
        steps = [*self.script.steps, *strikes]
        changed = {step[1] for step in steps if step[0] in _ANEW}
        changed |= {step[2] for step in steps if step[0] in {"succeed", "exchange"}}
        if any(step[0] in {"republish", "wipe", "relabel"} for step in steps):
            changed = set(range(len(self.script.tables)))
        return {
            name
            for place, shape in enumerate(self.script.tables)
            if place in changed or not shape.keyed or shape.name in self.altered
            for name in collections(shape, via_root=self.script.via_root)
        }

    def _refused(self, journal: JournalReader) -> set[str]:
        """SQL Server's tables without a key that were left over when the locks ended, and were answered."""
        ended = journal.of("crash", "killed") or any(round_.restarts for round_ in self.script.rounds)
        said = [note["text"] for note in journal.of("answer") if ended and not note["id"]]
        keyless = [shape for shape in self.script.tables if shape.database and not shape.keyed]
        names = [name for shape in keyless for name in collections(shape)]
        return {name for name in names if any(text.startswith(f"{name} not read: ") for text in said)}

    def _words(self, anew: Collection[str]) -> None:
        """The first and last row of each database are marked as such, unless rows of the log replaced them.

        A table that is read from scratch may have two of either.
        """
        words = [first_word for first_word in self.oracle.first_words if first_word[0] not in anew]
        for at, (name, word) in enumerate(words):
            before, after = _alike(words[:at], name, word), _alike(words[at + 1 :], name, word)
            if (word.startswith("first") and before) or (word.startswith("last") and after):
                raise Violation(
                    f"row {at + 1} of {len(words)} of the initial snapshot is {word!r}, of {name}"
                )


def _alike(words: Sequence[tuple[str, str]], name: str, word: str) -> list[str]:
    """The tables among which a row's marker is unique: its own, or its database's."""
    tables = [table for table, _word in words]
    if "_in_" in word:
        return [table for table in tables if table == name]
    return [table for table in tables if table.partition(".")[0] == name.partition(".")[0]]
