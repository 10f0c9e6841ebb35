"""The courses of verifications, and what is noted for them of windows and of the stream.

`verification.py` decides what becomes of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import orjson

from engine.job.verify.course import Course, absent_keys, course_of, seen_rows, with_digests, without_rows
from engine.job.verify.repair import Repair
from engine.job.verify.resumption import can_resume, resume_noted
from engine.snapshot.merge_key import merge_keys_of
from engine.verify.compared_digests import COLUMNS
from engine.verify.seen_row import SeenRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.job.parts import JobParts
    from engine.job.saved.state import State
    from engine.job.snapshots.emission import EmissionResult
    from engine.job.verify.copies import Copies
    from engine.model import CollectionId, Run
    from engine.ports.source import EncodingResult
    from engine.snapshot.merge import NewerKeys
    from engine.snapshot.queue_entry import Table
    from engine.verify.copy import SeenRows, Settled
    from engine.verify.saved_course import SavedCourse

_UP_TO_DATE_S: Final = 1.0
"""How old the beginning of what is not measured yet may be."""


class Courses:
    """The courses of a session, by the tickets of their entries. `seen_rows` keeps what windows have read.

    `settled` makes `ComparisonRequest.settled` of what snapshots of the source show now, `settled_then` makes
    it of its saved text.
    """

    def __init__(
        self,
        copies: Copies,
        seen_rows: SeenRows | None,
        settled: Callable[[], Settled],
        settled_then: Callable[[str], Settled],
    ) -> None:
        self.copies, self.seen_rows = copies, seen_rows
        self.settled, self._settled_then = settled, settled_then
        self._by_ticket: dict[int, Course] = {}
        self._followed: set[str] = set()

    # A session.

    def resume(self, state: State, parts: JobParts) -> State:
        """Resume from the saved state; returns it, with what can't go on at its beginning."""
        self.close()
        tables = resume_noted(self.copies.own, self.seen_rows, state, parts.topic) if self.seen_rows else []
        noted = {table.ticket: table.progress.noted for table in tables if table.progress}
        self._by_ticket = {
            ticket: course_of(known, self._settled_then, parts.clock())
            for ticket, known in noted.items()
            if known is not None
        }
        begun = (table for table in state.snapshot.judged if table.progress is not None)
        anew = [table.ticket for table in begun if table.ticket not in self._by_ticket]
        return state.with_queue(state.snapshot.changed(anew, lambda entry: entry.anew))

    def close(self) -> None:
        """Give up all comparisons. What was noted stays for the next session."""
        for course in self._by_ticket.values():
            if course.comparison is not None:
                course.comparison.close()
        self._by_ticket = {}
        if self.seen_rows is not None:
            self.seen_rows.close()

    # What windows and the stream bring.

    def note(
        self,
        turn: int,
        runs: Sequence[Run],
        results: Sequence[EmissionResult],
        newer: Callable[[CollectionId], NewerKeys],
    ) -> SavedCourse | None:
        """Note what a slice of an entry has seen, in the turn that would have sent its rows.

        Returns all that is noted of the entry, for the state of that turn; None: it can't be saved.
        """
        course = self._by_ticket.get(runs[0].ticket)
        if course is None or self.seen_rows is None:
            return None
        read = [result.compared for result in results if result.compared is not None]
        tables = [with_digests(self.copies.own, rows) for rows in read]
        for table in tables:
            known = (table.schema.metadata or {}).get(COLUMNS)
            if known and (columns := tuple(orjson.loads(known))):
                course.columns[columns] = None
            self.seen_rows.add(runs[0].ticket, seen_rows(table, turn))
        asked = merge_keys_of([key for run in runs for key in run.keys])
        if asked:
            missing = absent_keys(asked, tables, course.looked_at)
            superseded = newer(runs[0].target.collection)
            kinds = [
                SeenRow.SUPERSEDED if superseded.names([key]) else SeenRow.ABSENT for key, _digest in missing
            ]
            self.seen_rows.add(runs[0].ticket, without_rows(missing, kinds, turn))
        if not can_resume(self.copies.own, runs[0].target):
            return None
        return course.saved(self.seen_rows.written(runs[0].ticket))

    def note_unsent_changes(self, state: State, encoded: EncodingResult) -> State:
        """Note collections of which rows changed without an event: what windows have read does not count."""
        changed = encoded.unsent.union(fault.collection for fault in encoded.incomplete)
        outdated = [
            table.ticket
            for table in state.snapshot.judged
            if table.target.collection in changed and table.ticket in self._by_ticket
        ]
        for ticket in outdated:
            self._by_ticket[ticket].outdated = True
        return state.with_queue(state.snapshot.changed(outdated, _unnoted))

    def follow(self, state: State, parts: JobParts) -> None:
        """Tell the copies which topics have a course, and that the newest turn is sent."""
        topics = set[str]()
        for table in state.snapshot.judged:
            if table.ticket in self._by_ticket:
                topics |= {parts.topic(table.target.collection), *self.copies.besides(table.target)}
        if topics or self._followed:
            self.copies.follow(topics, state.turn)
            self._followed = topics

    # Beginnings and ends.

    def retain(self, tables: Sequence[Table]) -> None:
        """Forget the courses of all other entries."""
        for ticket in self._by_ticket.keys() - {table.ticket for table in tables}:
            self.forget(ticket)

    def of(self, ticket: int) -> Course:
        """The course of an entry that is measured."""
        return self._by_ticket[ticket]

    def await_measuring(self, state: State, ticket: int, parts: JobParts) -> None:
        """Keep the course of an entry that is not measured yet up to date, now and then.

        So whatever was sent before it precedes all that windows will see.
        """
        course = self._by_ticket.get(ticket)
        if course is None or course.measured or _is_old(course, parts):
            self.begin_anew(state, ticket, parts)

    def begin_anew(self, state: State, ticket: int, parts: JobParts, looks: int = 1) -> None:
        """Begin the course of an entry that is not measured yet. Raises SourceError."""
        before = self.forget(ticket)
        repair = Repair() if before is None else before.repair.anew()
        turn, settled = state.turn, self.settled()
        course = Course(turn, settled, parts.clock(), looks=looks, look=turn, repair=repair)
        if before is not None:
            course.take_over(before)
        self._by_ticket[ticket] = course

    def forget(self, ticket: int) -> Course | None:
        """Forget what was noted of an entry; returns its course, if there was one."""
        course = self._by_ticket.pop(ticket, None)
        if course is not None and course.comparison is not None:
            course.comparison.close()
        if self.seen_rows is not None:
            self.seen_rows.forget(ticket)
        return course


def _is_old(course: Course, parts: JobParts) -> bool:
    """Whether another course, begun now, has a better chance to end with a verdict."""
    aged = parts.clock() - course.begun_s >= _UP_TO_DATE_S
    return aged or course.outdated or course.hides_sent


def _unnoted(entry: Table) -> Table:
    """The entry, with which the next session can't go on."""
    return replace(entry, progress=replace(entry.progress, noted=None)) if entry.progress else entry
