"""Verifications: what windows have seen of a collection, and what its copy holds.

A verifying entry of the queue is read in windows as any other. Its surviving rows are noted instead of
being sent. Once all are noted, the copy is compared with them in the background. The entry rests meanwhile:

    turn            since    …         …          upto       …        …
    the entry       queued   window    window     all read   rests    verdict
    the log         ─────────────── streamed and sent, as always ───────────►

Some keys can't be decided in one look (`comparison.py`). Windows look at them again by themselves, and the
copy is compared once more. A repair sends what differs and begins from the beginning (`repair.py`).

After a failure or a restart the entry goes on where it was, or is read from its beginning:
`resumption.py` has the rule.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson

from engine.errors import InvariantError, SignalError, SourceError, TidemarkError
from engine.isolation import incomplete
from engine.job.verify.course import (
    Course,
    absent,
    always_settled,
    course_of,
    digested,
    holding_rows,
    noted,
    without_rows,
)
from engine.job.verify.repair import Deletes, Repair
from engine.job.verify.resumption import goes_on, resumed
from engine.model import Purpose
from engine.snapshot.merge_key import key_of, merge_keys_of
from engine.staging.compared_rows import COLUMNS
from engine.verify.copy import ComparisonRequest, Settles, Span
from engine.verify.seen_row import SeenRow
from engine.verify.verdict import RepairCounts, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from engine.job.parts import JobParts
    from engine.job.saved.state import State
    from engine.job.snapshots.emission import EmissionResult
    from engine.model import CollectionId, Run, Target
    from engine.snapshot.merge import NewerKeys
    from engine.snapshot.queue_entry import Table
    from engine.verify.copy import Copy, Findings, SeenRows, Settled
    from engine.verify.deletes import DeleteEvents
    from engine.verify.noted import Noted

_log = logging.getLogger("engine")
_UP_TO_DATE_S: Final = 1.0
"""How old the beginning of what is not measured yet may be."""
_LOOKS: Final = 6
"""How often keys are looked at before it is said that they can't be decided."""


@dataclass(slots=True)
class Verification:
    """The verifications of a job. Without a copy there are none, and `why` says why.

    `deletes` says how the delete events of a collection are written; None: nothing can be repaired. `due` are
    those that the next turn must send, and nothing else. `settled` makes `ComparisonRequest.settled` of what
    snapshots of the source show now, `settled_then` makes it of its saved text. `others` are copies that
    somebody else keeps, by the names that targets give them, or say why nothing is compared with them.
    """

    copy: Copy | None = None
    seen_rows: SeenRows | None = None
    why: str = "this job has nothing to compare rows with"
    deletes: Callable[[CollectionId], DeleteEvents] | None = None
    due: list[Deletes] = field(default_factory=list)
    settled: Callable[[], Settled] = lambda: always_settled
    settled_then: Callable[[str], Settled] = lambda _saved: always_settled
    others: Mapping[str, Copy | str] = field(default_factory=dict)
    _courses: dict[int, Course] = field(default_factory=dict)
    _followed: set[str] = field(default_factory=set)

    def refusal(self, state: State, target: Target, parts: JobParts) -> SignalError | None:
        """Why a collection can't be verified, if it can't be."""
        collection = target.collection
        if self.copy is None or self.seen_rows is None:
            return _unsupported(self.why, collection)
        if why := _unknown(target.against, self.others) or self.copy.refusal():
            return _unsupported(why, collection)
        if any(fault.collection == collection and not fault.streamed for fault in state.incomplete):
            return _unsupported("it is set aside, as the log says", collection)
        topic, captured = parts.topic(collection), parts.source.tables().captured()
        if [parts.topic(other) for other in captured].count(topic) > 1:
            return _unsupported(f"its topic {topic!r} has the events of other collections, too", collection)
        known = {parts.topic(other): other for other in (*captured, collection)}
        why = _learnt(_copy_of(self, target), topic, known)
        return _unsupported(why, collection) if why else None

    def resumed(self, state: State, parts: JobParts) -> State:
        """The saved state, with which a session begins. What can't go on in it begins anew."""
        self.close()
        tables = resumed(self.copy, self.seen_rows, state, parts.topic) if self.seen_rows else []
        noted = {table.ticket: table.progress.noted for table in tables if table.progress}
        self._courses = {
            ticket: course_of(known, self.settled_then, parts.clock())
            for ticket, known in noted.items()
            if known is not None
        }
        for table in tables:
            if table.progress is not None and table.progress.done:
                self._courses[table.ticket].ended = state.turn, _shown(state, parts)
        begun = (table for table in state.snapshot.judged if table.progress is not None)
        anew = [table.ticket for table in begun if table.ticket not in self._courses]
        return state.queued(state.snapshot.changed(anew, _anew)) if anew else state

    def close(self) -> None:
        """Give up all comparisons and repairs. What was noted stays for the next session."""
        self.due = []
        for course in self._courses.values():
            if course.comparison is not None:
                course.comparison.close()
        self._courses = {}
        if self.seen_rows is not None:
            self.seen_rows.close()

    def note(
        self,
        turn: int,
        runs: Sequence[Run],
        results: Sequence[EmissionResult],
        newer: Callable[[CollectionId], NewerKeys],
    ) -> Noted | None:
        """Note what a slice of an entry has seen, in the turn that would have sent its rows.

        Returns all that is noted of the entry, for the state of that turn; None: it can't be saved.
        """
        course = self._courses.get(runs[0].ticket)
        if course is None or self.seen_rows is None:
            return None
        tables = [digested(self.copy, result.compared) for result in results if result.compared is not None]
        for table in tables:
            known = (table.schema.metadata or {}).get(COLUMNS)
            if known and (columns := tuple(orjson.loads(known))):
                course.columns[columns] = None
            self.seen_rows.add(runs[0].ticket, noted(table, turn))
        asked = merge_keys_of([key for run in runs for key in run.keys])
        if asked:
            missing = absent(asked, tables, course.looked_at)
            superseded = newer(runs[0].target.collection)
            kinds = [SeenRow.SUPERSEDED if superseded.names([key]) else SeenRow.ABSENT for key in missing]
            self.seen_rows.add(runs[0].ticket, without_rows(missing, kinds, course.looked_at, turn))
        if not goes_on(self.copy, runs[0].target):
            return None
        return course.saved(self.seen_rows.written(runs[0].ticket))

    def poll(self, state: State, parts: JobParts) -> State:
        """Begin what is due, and answer what is decided. Called between turns, when all of them are sent.

        What is `due` after that must be sent before anything else is.
        """
        self.due = []
        waiting = state.snapshot.judged
        self._follow(state, parts)
        for ticket in self._courses.keys() - {table.ticket for table in waiting}:
            self._forget(ticket)
        for table in waiting:
            if table.progress is None:
                self._await_measuring(state, table.ticket, parts)
                continue
            self._courses[table.ticket].measured = True
            if table.progress.done and not table.progress.chunks:
                # It was empty. Only a window tells when the stream has passed what emptied it.
                whole = state.snapshot.changed((table.ticket,), lambda entry: entry.unbounded)
                state = replace(state, snapshot=whole)
            elif table.progress.done and not table.paused:
                state = self._considered(state, table, self._courses[table.ticket], parts)
        self._follow(state, parts)
        return state

    def _follow(self, state: State, parts: JobParts) -> None:
        """Tell the copy which topics have a course, and that the newest turn is sent."""
        if self.copy is None:
            return
        topics = {
            parts.topic(table.target.collection)
            for table in state.snapshot.judged
            if table.ticket in self._courses
        }
        for table in state.snapshot.judged:
            if table.ticket in self._courses:
                topics |= set(_besides(_copy_of(self, table.target)))
        if topics or self._followed:
            for copy in (self.copy, *self.others.values()):
                if not isinstance(copy, str):
                    copy.follow(topics, state.turn)
            self._followed = topics

    def _await_measuring(self, state: State, ticket: int, parts: JobParts) -> None:
        """Keep the course of an entry that is not measured yet up to date, now and then.

        So whatever was sent before it precedes all that windows will see.
        """
        course = self._courses.get(ticket)
        if course is None or course.measured or parts.clock() - course.begun_s >= _UP_TO_DATE_S:
            self._begin_anew(state, ticket, parts)

    def _begin_anew(self, state: State, ticket: int, parts: JobParts, looks: int = 1) -> None:
        """Begin the course of an entry that is not measured yet. Raises SourceError."""
        before = self._forget(ticket)
        repair = Repair() if before is None else before.repair.anew()
        turn, settled = state.turn, self.settled()
        course = Course(turn, settled, parts.clock(), looks=looks, look=turn, repair=repair)
        if before is not None:
            course.follows(before)
        self._courses[ticket] = course

    def _considered(self, state: State, table: Table, course: Course, parts: JobParts) -> State:
        try:
            if (refusal := self.refusal(state, table.target, parts)) is not None:
                raise refusal
            found = None if course.repair.sends else self._found(state, table, course, parts)
        except TidemarkError as error:
            return self._over(state, table, partial(parts.listener.failed, table, error))
        if course.repair.sends:
            return self._mended(state, table, course.repair, parts)
        if found is None:
            return state
        if table.target.against and course.looks == _LOOKS and (not found.unsettled or course.known >= 0):
            # A key that is never at rest there decides nothing about the others.
            found = found.given_up
        # At last, rows that are never at rest change nothing about those that differ.
        enough = not found.undecided or (course.looks == _LOOKS and found.differences > 0)
        if enough and not _lags(course, found):
            return self._compared(state, table, course, found, parts)
        if course.looks < _LOOKS:
            return self._looking_again(state, table, found, parts)
        return self._over(
            state, table, partial(parts.listener.failed, table, _restless(table, course, found))
        )

    def _found(self, state: State, table: Table, course: Course, parts: JobParts) -> Findings | None:
        """What a comparison has found, which is begun if it is not going on yet; None until then."""
        if course.comparison is None:
            copy = _copy_of(self, table.target)
            if not isinstance(copy, Settles) or course.has_waited(copy.settle_s, parts.clock()):
                self._begin(state, table, course, parts)
            return None
        return course.comparison.poll()

    def _begin(self, state: State, table: Table, course: Course, parts: JobParts) -> None:
        if self.seen_rows is None:
            return
        upto, course.position = course.ended or (state.turn, _shown(state, parts))
        course.span = Span(course.since, upto)
        topic = parts.topic(table.target.collection)
        seen = self.seen_rows, table.ticket
        mends = table.target.purpose is Purpose.REPAIR
        earlier = 0 if state.recovery is None else state.recovery.turn
        asked = ComparisonRequest(
            course.span, tuple(course.columns), course.settled, mends, course.look, earlier, course.known
        )
        course.comparison = _copy_of(self, table.target).compare(topic, seen, asked)
        _log.info("%s is compared with its copy as of turn %d", table.target.collection, upto)

    def _compared(
        self, state: State, table: Table, course: Course, found: Findings, parts: JobParts
    ) -> State:
        repair, mended = course.repair, None
        if table.target.purpose is Purpose.REPAIR:
            if repair.begins(found, course.span):
                _log.info("%d rows of %s are repaired", found.differences, table.target.collection)
                return state
            mended = RepairCounts(repair.reads, repair.deletes)
        verdict = Verdict(found, course.span, course.position, mended, table.target.against)
        return self._decided(state, table, verdict, parts)

    def _mended(self, state: State, table: Table, repair: Repair, parts: JobParts) -> State:
        """The next step of sending what differs: deletes, then rows, then everything is compared again."""
        if table.target.purpose is Purpose.MEND and table.progress is not None:
            repair.reads += table.progress.emitted
        if repair.extra:
            self._note_due(state, table.target.collection, repair, parts)
            return state
        if keys := repair.next_keys():
            sends = state.snapshot.changed((table.ticket,), lambda entry: entry.mending(keys))
            return replace(state, snapshot=sends)
        repair.ends()
        self._begin_anew(state, table.ticket, parts)
        return replace(state, snapshot=state.snapshot.changed((table.ticket,), _anew))

    def _note_due(self, state: State, collection: CollectionId, repair: Repair, parts: JobParts) -> None:
        """Note the deletes that can go out in the next turn, if the copy is known up to the newest one."""
        if self.copy is None or self.deletes is None:
            raise InvariantError("a repair was begun that can't send deletes")
        topic = parts.topic(collection)
        repair.follow(self.copy.touched(topic, Span(repair.known, state.turn)))
        if repair.known == state.turn and (extra := repair.next_extra()):
            if (rows := holding_rows(self.copy)) is not None:
                events = rows.deletes(topic, extra)
            else:
                events = self.deletes(collection).batch(self.copy.rows(topic, extra))
            self.due.append(Deletes(events, partial(repair.deleted, len(extra))))

    def _decided(self, state: State, table: Table, verdict: Verdict, parts: JobParts) -> State:
        if parts.certificates is not None:
            state = parts.certificates.verified(state, table, verdict, parts.notices.collections)
        if verdict.accepts and not table.target.against:
            # Whatever the log has left out, the copy has what it should.
            state = replace(state, incomplete=incomplete.completed(state.incomplete, table))
        return self._over(state, table, partial(parts.listener.verified, table, verdict))

    def _over(self, state: State, table: Table, answer: Callable[[], None]) -> State:
        answer()
        self._forget(table.ticket)
        return replace(state, snapshot=state.snapshot.without([table]))

    def _looking_again(self, state: State, table: Table, found: Findings, parts: JobParts) -> State:
        course = self._courses[table.ticket]
        if course.comparison is not None:
            course.comparison.close()
        course.comparison, course.looks, course.look = None, course.looks + 1, state.turn
        course.waits_s = course.ended = None
        if _lags(course, found):
            # Their keys are unknown to the source, so all is read again, by windows that see more.
            why = "the copy was truncated or altered" if found.stale else "not all that was sent was visible"
            _log.info("%s is read again: %s", table.target.collection, why)
            self._begin_anew(state, table.ticket, parts, course.looks)
            return replace(state, snapshot=state.snapshot.changed((table.ticket,), _anew))
        course.looked_at |= dict(found.undecided)
        keys = tuple(key_of(merge_key) for merge_key, _digest in found.undecided)
        _log.info("%d rows of %s are looked at again", len(keys), table.target.collection)
        again = state.snapshot.changed((table.ticket,), lambda entry: entry.looking_again(keys))
        return replace(state, snapshot=again)

    def _forget(self, ticket: int) -> Course | None:
        course = self._courses.pop(ticket, None)
        if course is not None and course.comparison is not None:
            course.comparison.close()
        if self.seen_rows is not None:
            self.seen_rows.forget(ticket)
        return course


def _shown(state: State, parts: JobParts) -> str:
    return parts.show(state.position) if state.position else ""


def _copy_of(verification: Verification, target: Target) -> Copy:
    """What the rows of a target are compared with."""
    copy = verification.others[target.against] if target.against else verification.copy
    if copy is None or isinstance(copy, str):
        raise InvariantError("rows are compared with no copy")
    return copy


def _besides(copy: object) -> Collection[str]:
    return copy.besides if isinstance(copy, Settles) else ()


def _unknown(against: str, others: Mapping[str, Copy | str]) -> str:
    """Why nothing can be compared with what has this name; empty if something can."""
    if not against:
        return ""
    if against in others:
        found = others[against]
        return found if isinstance(found, str) else ""
    if not others:
        return "the settings have no targets: see tidemark.verify.against"
    return f"the settings have no target {against!r}; known: {', '.join(sorted(others))}"


def _learnt(copy: Copy, topic: str, known: Mapping[str, CollectionId]) -> str:
    """Tell a copy which collections topics are of. Returns why it can't compare this one; empty if it can."""
    if isinstance(copy, Settles):
        return copy.learn(topic, known[topic])
    rows = holding_rows(copy)
    return "" if rows is None else rows.learn(topic, known)


def _anew(table: Table) -> Table:
    return table.anew


def _lags(course: Course, found: Findings) -> bool:
    """Whether windows or the copy don't show yet what they must, so that all must be read again."""
    hidden = course.hides_sent and not (course.looks == _LOOKS and found.differences)
    return hidden or bool(found.unsettled) or found.stale


def _restless(table: Table, course: Course, found: Findings) -> SourceError:
    """The error for rows that can't be decided, time and again."""
    if found.stale:
        why = "the copy was truncated or altered each time it was compared"
        return SourceError(why, where=table.target.collection, hint="ask again when it is quieter")
    if found.unsettled or course.hides_sent:
        sent = f"{found.unsettled} rows were" if found.unsettled else "rows may have been"
        why = f"{sent} sent by transactions that no snapshot of the server shows"
        hint = "the server's synchronous standby may be missing, or it was restored or replaced within a day"
        return SourceError(why, where=table.target.collection, hint=hint)
    why = f"{len(found.undecided)} rows could not be compared, since they changed each time"
    return SourceError(why, where=table.target.collection, hint="ask again when it is quieter")


def _unsupported(why: str, collection: CollectionId) -> SignalError:
    return SignalError(f"it can't be verified: {why}", where=collection)
