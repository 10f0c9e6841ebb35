"""Verifies the copies of a history: sends signals at rest, spoils the sink's files, and judges verdicts."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from tests.torture.answers import Asked
from tests.torture.emitted import Events
from tests.torture.faults import Faults, Rows, put
from tests.torture.oracle import Violation
from tests.torture.truth import UnexpectedWrite
from tests.torture.verified import COMPARES, judge, other_keys, signal, steady, verifiable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from tests.torture.faults import Event
    from tests.torture.files_tables import FilesTables
    from tests.torture.journal import JournalReader
    from tests.torture.oracle import Key
    from tests.torture.play import Play
    from tests.torture.script import Round


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verifies the copies of one history."""

    play: Play
    journal: JournalReader

    def right_for(self, one: Round, events: Any) -> frozenset[str]:
        """The collections whose copies are right, and that no step of a round makes wrong for a while."""
        if not (isinstance(events, Events) and any(sent.kind in COMPARES for sent in one.signals)):
            return frozenset()
        names = steady(self.play.script, one).intersection(self.play.trusted)
        return frozenset(names - self._left_behind(names, events.parts).kinds.keys())

    def verify(self, label: str, count: int, events: Events, heard: int) -> int:
        """Verify what is right, put faults into it, and have them found and repaired."""
        play, names = self.play, self.play.trusted
        if not names:
            return heard

        def asked(what: str, kind: str, faults: Faults) -> int:
            sent = self._sent(f"{label}{what}", kind, names)
            now = play.judge(events, self.journal, heard)
            judge(sent, faults)
            return now

        left = self._left_behind(names, events.parts)
        heard = asked("right", "verify", left)
        play.figures.kinds["rows left behind found"] += len(left.extra)
        faults = left + self._spoil(label, names, events.parts, count, self._is_row)
        heard = asked("wrong", "verify", faults)
        self._count(faults)
        play.oracle.strangers = {self._row_of(event) for event in faults.extra}
        heard = asked("mend", "repair", Faults())
        if play.oracle.strangers:
            raise Violation(f"a repair has not deleted {sorted(play.oracle.strangers, key=str)}")
        return heard

    def verify_copy(self, label: str, count: int, copy: FilesTables, heard: int) -> int:
        """Verify a copy that was found right, put faults into it, and have them found and repaired."""
        play, tables = self.play, self.play.oracle.tables
        known = [name for name in verifiable(play.script) if name in tables]
        if left := [name for name in known if name in play.oracle.incomplete]:
            raise Violation(f"the recovery has ended, and left {left} incomplete")
        names = [name for name in known if not copy.lacking(name, tables[name].types)]
        if not names:
            return heard

        def asked(what: str, kind: str, faults: Faults) -> int:
            sent = self._sent(f"{label}{what}", kind, names)
            now = play.hear(self.journal, heard)
            judge(sent, faults)
            return now

        heard = asked("right", "verify", Faults())
        if count:
            faults = self._spoil(label, names, copy.parts, count)
            heard = asked("wrong", "verify", faults)
            self._count(faults)
            heard = asked("mend", "repair", Faults())
        return play.judge_tables(copy, self.journal, heard)

    def _sent(self, label: str, kind: str, names: Sequence[str]) -> Asked:
        """Send a signal, and wait until all is done."""
        sent = signal(label, kind, names)
        self.play.site.send(sent, threading.Event())
        asked = self.play.answers.asked[sent.id] = Asked(sent)
        self.play.come_to_rest(self.journal)
        return asked

    # What is in the files.

    def _spoil(
        self,
        label: str,
        names: Collection[str],
        parts: Sequence[Path],
        count: int,
        is_row: Callable[[Event], bool] = lambda _event: True,
    ) -> Faults:
        """Put faults into them."""
        draw = Random(f"{self.play.script.seed}/{label}")
        return put(parts, self._topics(names), other_keys(self.play.script), draw, count, is_row)

    def _left_behind(self, names: Collection[str], parts: Sequence[Path]) -> Faults:
        """The rows of collections that consumers still have, and the source does not."""
        topics = self._topics(names)
        return Rows.of(parts, topics).left_behind(topics, self._is_row)

    def _is_row(self, event: Event) -> bool:
        name, key = self._row_of(event)
        return key in self.play.oracle.tables[name].rows

    def _row_of(self, event: Event) -> tuple[str, Key]:
        """The table and the key of an event's row."""
        row = self.play.site.emitted(0, event["topic"], event["key"], event["value"])
        if row is None:
            raise UnexpectedWrite(f"an event of {event['topic']} has no row")
        return row.table, self.play.oracle.tables[row.table].key_of_event(row.after or {})

    def _topics(self, names: Collection[str]) -> dict[str, str]:
        return {f"{self.play.prefix}.{name}": name for name in names}

    def _count(self, faults: Faults) -> None:
        for kinds in faults.kinds.values():
            found = {f"faults found, {kind}": number for kind, number in kinds.items()}
            self.play.figures.kinds.update(found)
