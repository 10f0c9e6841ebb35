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
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from engine.errors import InvariantError, SourceError, TidemarkError
from engine.isolation import incomplete
from engine.job.verify.copies import Copies
from engine.job.verify.course import Course, always_settled, hides_sent, holding_rows
from engine.job.verify.courses import Courses
from engine.job.verify.repair import Deletes, Repair
from engine.model import Purpose
from engine.snapshot.merge_key import key_of
from engine.verify.copy import ComparisonRequest, Findings, Settles, Span
from engine.verify.verdict import RepairCounts, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.job.parts import JobParts
    from engine.job.saved.state import State
    from engine.model import CollectionId
    from engine.snapshot.queue_entry import Table
    from engine.verify.copy import SeenRows, Settled
    from engine.verify.deletes import DeleteEvents

_log = logging.getLogger("engine")
_LOOKS: Final = 6
"""How often keys are looked at before it is said that they can't be decided."""


class Verification:
    """The verifications of a job. Without a copy there are none.

    `deletes` says how the delete events of a collection are written; None: nothing can be repaired. `due` are
    those that the next turn must send, and nothing else. `courses` takes the rest.
    """

    def __init__(
        self,
        copies: Copies | None = None,
        seen_rows: SeenRows | None = None,
        deletes: Callable[[CollectionId], DeleteEvents] | None = None,
        settled: Callable[[], Settled] = lambda: always_settled,
        settled_then: Callable[[str], Settled] = lambda _saved: always_settled,
    ) -> None:
        self.copies, self._deletes = copies or Copies(), deletes
        self.courses = Courses(self.copies, seen_rows, settled, settled_then)
        self.due: list[Deletes] = []

    def close(self) -> None:
        """Give up all comparisons and repairs. What was noted stays for the next session."""
        self.due = []
        self.courses.close()

    def poll(self, state: State, parts: JobParts) -> State:
        """Begin what is due, and answer what is decided. Called between turns, when all of them are sent.

        What is `due` after that must be sent before anything else is.
        """
        self.due = []
        waiting = state.snapshot.judged
        self.courses.follow(state, parts)
        self.courses.retain(waiting)
        for table in waiting:
            if table.progress is None:
                self.courses.await_measuring(state, table.ticket, parts)
                continue
            self.courses.of(table.ticket).measured = True
            if table.progress.done and not table.paused:
                state = self._advance(state, table, self.courses.of(table.ticket), parts)
        self.courses.follow(state, parts)
        return state

    def _advance(self, state: State, table: Table, course: Course, parts: JobParts) -> State:
        try:
            if (refusal := self.copies.refusal(state, table.target, parts)) is not None:
                raise refusal
            found = None if course.repair.sends else self._poll_comparison(state, table, course, parts)
        except TidemarkError as error:
            return self._finish(state, table, partial(parts.listener.failed, table, error))
        if course.repair.sends:
            return self._send_next(state, table, course.repair, parts)
        if found is None:
            return state
        if table.target.against and course.looks == _LOOKS and (not found.unsettled or course.known >= 0):
            found = found.without_unsettled
        if _decides(table, course, found) and not _lags(course, found):
            return self._use_findings(state, table, course, found, parts)
        if course.looks < _LOOKS:
            return self._look_again(state, table, found, parts)
        restless = _undecided_error(table, course, found)
        return self._finish(state, table, partial(parts.listener.failed, table, restless))

    def _poll_comparison(
        self, state: State, table: Table, course: Course, parts: JobParts
    ) -> Findings | None:
        """What a comparison has found, which is begun if it is not going on yet; None until then."""
        if course.comparison is None and course.outdated:
            return Findings(stale=True)
        if course.comparison is None:
            copy = self.copies.of(table.target)
            if isinstance(copy, Settles):
                now_s = parts.clock()
                course.begin_waiting(now_s)
                if not course.has_waited(copy.settle_s, now_s):
                    return None
            self._begin(state, table, course, parts)
            return None
        return course.comparison.poll()

    def _begin(self, state: State, table: Table, course: Course, parts: JobParts) -> None:
        if self.courses.seen_rows is None:
            return
        course.span = Span(course.since, state.turn)
        course.position = parts.show(state.position) if state.position else ""
        topic = parts.topic(table.target.collection)
        seen = self.courses.seen_rows, table.ticket
        mends = table.target.purpose is Purpose.REPAIR
        earlier = 0 if state.recovery is None else state.recovery.turn
        asked = ComparisonRequest(
            course.span,
            tuple(course.columns),
            course.settled,
            mends,
            course.look,
            earlier,
            course.known,
            course.hidden,
        )
        course.comparison = self.copies.of(table.target).compare(topic, seen, asked)
        _log.info("%s is compared with its copy as of turn %d", table.target.collection, state.turn)

    def _use_findings(
        self, state: State, table: Table, course: Course, found: Findings, parts: JobParts
    ) -> State:
        repair, mended = course.repair, None
        if table.target.purpose is Purpose.REPAIR:
            if repair.begin(found, course.span):
                _log.info("%d rows of %s are repaired", found.differences, table.target.collection)
                return state
            mended = RepairCounts(repair.reads, repair.deletes)
        verdict = Verdict(found, course.span, course.position, mended, table.target.against)
        return self._give_verdict(state, table, verdict, parts)

    def _send_next(self, state: State, table: Table, repair: Repair, parts: JobParts) -> State:
        """The next step of sending what differs: deletes, then rows, then everything is compared again."""
        if table.target.purpose is Purpose.MEND and table.progress is not None:
            repair.reads += table.progress.emitted
        if repair.extra:
            self._note_due(state, table.target.collection, repair, parts)
            return state
        if keys := repair.next_keys():
            sends = state.snapshot.changed((table.ticket,), lambda entry: entry.mending(keys))
            return replace(state, snapshot=sends)
        repair.end()
        return self._read_anew(state, table, parts)

    def _note_due(self, state: State, collection: CollectionId, repair: Repair, parts: JobParts) -> None:
        """Note the deletes that can go out in the next turn, if the copy is known up to the newest one."""
        if self.copies.own is None or self._deletes is None:
            raise InvariantError("a repair was begun that can't send deletes")
        if any(deletes.collection == collection for deletes in self.due):
            return  # another repair of it sends first; this one then leaves out what that has deleted
        topic = parts.topic(collection)
        repair.follow(self.copies.own.touched_keys(topic, Span(repair.known, state.turn)))
        if repair.known == state.turn and (extra := repair.next_extra()):
            if (rows := holding_rows(self.copies.own)) is not None:
                events = rows.deletes(topic, extra)
            else:
                events = self._deletes(collection).batch(self.copies.own.rows(topic, extra))
            self.due.append(Deletes(collection, events, partial(repair.note_deleted, len(extra))))

    def _give_verdict(self, state: State, table: Table, verdict: Verdict, parts: JobParts) -> State:
        if parts.certificates is not None:
            state = parts.certificates.issue_verdict(state, table, verdict, parts.notices.collections)
        if verdict.accepts and not table.target.against:
            # Whatever the log has left out, the copy has what it should.
            state = replace(state, incomplete=incomplete.without_completed(state.incomplete, table))
        return self._finish(state, table, partial(parts.listener.verified, table, verdict))

    def _finish(self, state: State, table: Table, answer: Callable[[], None]) -> State:
        answer()
        self.courses.forget(table.ticket)
        return replace(state, snapshot=state.snapshot.without([table]))

    def _look_again(self, state: State, table: Table, found: Findings, parts: JobParts) -> State:
        course = self.courses.of(table.ticket)
        if course.comparison is not None:
            course.comparison.close()
        course.comparison, course.looks, course.look = None, course.looks + 1, state.turn
        course.waits_s = None
        if found.more or _lags(course, found):
            # Their keys are unknown to the source, so all is read again, by windows that see more.
            _log.info("%s is read again: %s", table.target.collection, _why_anew(found))
            return self._read_anew(state, table, parts, course.looks)
        course.looks_again_at(found.undecided)
        course.hidden = bool(table.target.against) and hides_sent(self.courses.settled())
        keys = tuple(key_of(key) for key in dict.fromkeys(key for key, _digest in found.undecided))
        _log.info("%d rows of %s are looked at again", len(keys), table.target.collection)
        again = state.snapshot.changed((table.ticket,), lambda entry: entry.looking_again(keys))
        return replace(state, snapshot=again)

    def _read_anew(self, state: State, table: Table, parts: JobParts, looks: int = 1) -> State:
        self.courses.begin_anew(state, table.ticket, parts, looks)
        return state.with_queue(state.snapshot.changed((table.ticket,), lambda entry: entry.anew))


def _decides(table: Table, course: Course, found: Findings) -> bool:
    """Whether there can be a verdict, as far as rows are concerned that are never at rest.

    At last they change nothing about those that differ. Nor do they where somebody else's table has equal
    rows: such rows may be written all the time.
    """
    if not found.undecided_rows:
        return True
    last = course.looks == _LOOKS
    return last and (found.differences > 0 or (bool(table.target.against) and found.equal > 0))


def _lags(course: Course, found: Findings) -> bool:
    """Whether windows or the copy don't show yet what they must, so that all must be read again.

    A repair that has something to send sends that first: it reads all again anyway.
    """
    decides = course.looks == _LOOKS and found.differences > 0
    hidden = course.hides_sent and not decides
    lacking = found.lacking and not (decides or found.wrong or found.extra)
    many = found.more and course.looks < _LOOKS
    return bool(hidden or found.unsettled or found.stale or lacking or many)


def _why_anew(found: Findings) -> str:
    if found.stale:
        return "it or its copy was truncated or altered"
    return "too many rows differ" if found.more else "not all that was sent was visible, or whole"


def _undecided_error(table: Table, course: Course, found: Findings) -> SourceError:
    """The error for rows that can't be decided, time and again."""
    if found.stale:
        why = "it or its copy was truncated or altered each time they were compared"
        return SourceError(why, where=table.target.collection, hint="ask again when it is quieter")
    if found.unsettled or course.hides_sent:
        sent = f"{found.unsettled} rows were" if found.unsettled else "rows may have been"
        why = f"{sent} sent by transactions that no snapshot of the server shows"
        hint = "the server's synchronous standby may be missing, or it was restored or replaced within a day"
        return SourceError(why, where=table.target.collection, hint=hint)
    left = found.undecided_rows + found.lacking
    why = f"{left} rows could not be compared, since they changed each time"
    return SourceError(why, where=table.target.collection, hint="ask again when it is quieter")
