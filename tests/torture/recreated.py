"""A topic that somebody deletes and creates again while the job sends to it: the step, and its judge.

What the old topic had is gone, so the judge compares no single entries any more. It keeps a copy as a
consumer of the new topic has it. As long as the job reports the table as incomplete, the copy may lack rows;
otherwise it has all of them. What it has is right in both cases.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.torture.emitted import printed_row, texts
from tests.torture.oracle import Violation
from tests.torture.script import collections
from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from random import Random

    from tests.torture.emitted import Emitted
    from tests.torture.journal import JournalReader
    from tests.torture.oracle import Key, Table
    from tests.torture.play import Play
    from tests.torture.truth import Row

SAYS = "the topic was recreated"
SETTING = "tidemark.sink.topic.recreated"
_NOTICED_S, _NUDGED_EVERY_S = 60.0, 0.5
_SENT_S = 20.0
"""How long to wait for a first topic; a history may send nothing."""
_FRESH = 50_000
"""The first of the numbers that only rows written here have."""


@dataclass(slots=True)
class NewTopic:
    """What a consumer of a recreated topic has of its table."""

    table: Table
    copy: dict[Key, Row] = field(default_factory=dict)
    _left: Row = field(default_factory=dict)

    def take_in(self, event: Emitted) -> None:
        """Apply an event, which may be a repetition."""
        if event.op == "t":
            self.copy.clear()
            return
        types = self.table.types
        after = None if event.after is None else texts(event.after, types)
        before = {} if event.before is None else texts(event.before, types)
        known = {name: value for name, value in before.items() if value is not None}
        kept: Row = {}
        if event.op != "r":
            kept = self.copy.pop(self.table.key_before(known, after or {}), {})
        if after is None:
            # A changed key comes as a deletion and the row under its new key.
            self._left = {**kept, **known}
            return
        kept = {**(self._left if event.op == "c" else {}), **kept, **known}
        self._left = {}
        self.copy[self.table.key_of(after)] = {
            name: kept.get(name, UNCHANGED) if value == UNCHANGED else value for name, value in after.items()
        }

    def settle(self, rows: list[Row], *, incomplete: bool) -> None:
        """Compare the copy with a query at a quiet point."""
        name = self.table.name
        there = {self.table.key_of(row): row for row in (printed_row(row, self.table.types) for row in rows)}
        if extra := self.copy.keys() - there.keys():
            raise Violation(f"the new topic of {name} has row {min(extra, key=str)!r}, which is gone")
        lacking = there.keys() - self.copy.keys()
        if lacking and not incomplete:
            raise Violation(
                f"the new topic of {name} lacks {len(lacking)} of {len(there)} rows, and the job does not say"
                f" so; one is {min(lacking, key=str)!r}"
            )
        for key, row in self.copy.items():
            for column in row.keys() & there[key].keys():
                expected, found = there[key][column], row[column]
                if found != expected and not (incomplete and found == UNCHANGED):
                    raise Violation(
                        f"by the new topic, {column!r} of row {key!r} of {name} is {found!r:.160}, a query"
                        f" gives {expected!r:.160}"
                    )
        self.table.rows = there


def _with_topics(play: Play) -> dict[str, int]:
    """The tables whose topics exist, with their places."""
    assert play.broker is not None
    topics = set(play.broker.topics())
    return {
        name: place
        for place, shape in enumerate(play.script.tables)
        for name in collections(shape, via_root=play.script.via_root)
        if f"{play.prefix}.{name}" in topics
    }


def recreate(play: Play, journal: JournalReader, draw: Random) -> None:
    """Recreate the topic of a table, and write to the table until the job has noticed.

    Raises Violation if it does not notice, and Over if it stops as it was told to.
    """
    assert play.broker is not None
    waited_since = time.monotonic()
    while not (named := _with_topics(play)):
        if time.monotonic() - waited_since > _SENT_S:
            return
        play.watch(journal)
        time.sleep(0.1)
    name = draw.choice(sorted(named))
    seen = len(journal.of("turn"))
    play.topics.recreated(name)
    play.broker.recreate_topic(f"{play.prefix}.{name}")
    begun, nudged_s, fresh = time.monotonic(), 0.0, _FRESH
    while not any(name in note["incomplete"] for note in journal.of("turn")[seen:]):
        play.watch(journal)
        now = time.monotonic()
        if now - begun > _NOTICED_S:
            raise Violation(f"the topic of {name} was recreated, and the job does not say so")
        if now - nudged_s > _NUDGED_EVERY_S:
            nudged_s, fresh = now, fresh + 1
            play.site.fill(named[name], fresh)
        time.sleep(0.02)
    play.figures.kinds["topic recreated"] += 1
