"""Goes on with verifications after a failure or a restart. The rule, and why it holds:

A row that a window has seen in turn W is compared with what the copy held after W. So it stays comparable as
long as the copy can tell what it held then (`Resumes`). Windows of the next session read what is left, and
are compared as of their own turns:

    turn            since   W1        W2   ╷ restart            W3           upto
    windows         ─────── rows ──── rows ╵ (rows: not saved)  the same ─── compared
    saved           since, what was visible then, the file up to W2

- Rows of a turn that was not saved are in the file and don't count: their ranges are read again.
- Extra rows are judged by what was visible before the first window, which is saved. What is visible when the
  session begins is later, and hides that a window could not see a transaction yet.
- Whatever makes a snapshot begin anew drops the entry's progress, and what was noted with it: another log, a
  table that was rewritten.
- A change of which no event tells drops what was noted, too: a TRUNCATE that is not sent, for instance. What
  was read before it can't be compared as of a later turn.

Rows under keys that were looked at again are in the file, too. But it is not saved for which keys that was
done. So the copy is compared once more, and tells.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from engine.verify.copy import Resumes, Span
from engine.verify.saved_course import FORM

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.job.saved.state import State
    from engine.model import CollectionId, Target
    from engine.snapshot.queue_entry import Table
    from engine.verify.copy import SeenRows

_log = logging.getLogger("engine")


def can_resume(copy: object, target: Target) -> bool:
    """Whether the next session can go on with a comparison of this target with the job's copy.

    The keys under which a table was touched are known to its session alone, and so are the looks at a table
    that somebody else keeps.
    """
    return isinstance(copy, Resumes) and not target.against and target.compared


def resume_noted(
    copy: object, rows: SeenRows, state: State, topic: Callable[[CollectionId], str]
) -> list[Table]:
    """Resume what was noted; returns the entries that go on. What was noted of all others is forgotten."""
    noted = [
        (table, table.progress.noted)
        for table in state.snapshot.judged
        if table.progress is not None and table.progress.noted is not None
    ]
    comparable = {
        table.ticket: known.written
        for table, known in noted
        if known.form == FORM
        and isinstance(copy, Resumes)
        and can_resume(copy, table.target)
        and copy.resume(topic(table.target.collection), Span(known.since, state.turn))
    }
    kept = rows.resume(comparable)
    for table, known in noted:
        if table.ticket in kept:
            count = known.written.rows
            _log.info("%s: %d rows were read to be compared, and it goes on", table.target.collection, count)
        else:
            _log.warning("%s is read from its beginning: what was read is lost", table.target.collection)
    return [table for table, _known in noted if table.ticket in kept]
