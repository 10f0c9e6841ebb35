"""The transactions in a part of the log: for each message its transaction, its time, and its place in it.

Keeps two kinds of counters. `sequence` counts the row, truncate and message entries of a transaction;
together with the commit's LSN it is an entry's position. Relation messages do not count, because the server
sends them again in each session. The metadata counters are those of `provide.transaction.metadata`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from adapters.postgres.log.pgoutput import Messages
    from engine.events.values.text import Ints

_EPOCH_US = 946_684_800_000_000
"""2000-01-01, PostgreSQL's epoch, in microseconds since 1970."""
ENTRIES = np.isin(np.arange(256), list(b"IUDTM"))
"""Whether a message of this kind is an entry. For few messages, looking this up is faster than `np.isin`."""


@dataclass(frozen=True, slots=True)
class TransactionContext:
    """What came before a part of the log.

    `xid` is the open transaction's 32-bit id (None between transactions), `commit_lsn` its final LSN and
    `commit_ts_us` its commit time in microseconds since 1970. Between transactions the latter two are those
    of the last transaction (0: none yet). `last_commit_end` is the end of the last commit streamed, or a
    later message outside transactions. `sequence` counts the open transaction's entries so far. `events` and
    `collections` are its metadata counters; collections are in the order of their first event.
    """

    xid: int | None = None
    commit_lsn: int = 0
    commit_ts_us: int = 0
    last_commit_end: int | None = None
    sequence: int = 0
    events: int = 0
    collections: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SpanPart:
    """Messages of the log in order, and what came before them.

    `messages` is a `large_binary` array of CopyData payloads (XLogData, including its header). Within a part
    each relation has one definition.
    """

    messages: pa.Array
    context: TransactionContext


@dataclass(frozen=True, slots=True)
class Timeline:
    """Messages and transactions, by number.

    Per message: the `ordinal` of its transaction (0: the one open at the start), its `sequence` there, and
    `after`, the end of the last commit before it (-1: none). Per transaction: `xids`, `commit_lsns`,
    `times_ms`. `end` is the context after the last message.
    """

    ordinal: Ints
    sequence: Ints
    after: Ints
    xids: Ints
    commit_lsns: Ints
    times_ms: Ints
    end: TransactionContext = field(default_factory=TransactionContext)


def timeline(messages: Messages, context: TransactionContext) -> Timeline:
    """Find the place of each message."""
    begins = np.flatnonzero(messages.kinds == ord("B"))
    at = messages.starts[begins]
    ordinal = np.cumsum(messages.kinds == ord("B"))
    times = np.concatenate([[context.commit_ts_us], messages.int64(at + 9) + _EPOCH_US])
    commits = np.concatenate([[context.commit_lsn], messages.int64(at + 1)])
    xids = np.concatenate([[-1 if context.xid is None else context.xid], messages.int32(at + 17)])
    entries = ENTRIES[messages.kinds]
    before: Ints = np.cumsum(entries) - entries
    base = np.concatenate([[-context.sequence], before[begins]])
    sequence = before - base[ordinal]
    after = _after(messages, context)
    line = Timeline(ordinal, sequence, after, xids, commits, times // 1000)
    return replace(line, end=_end(messages, line, context, int(times[-1])))


def _after(messages: Messages, context: TransactionContext) -> Ints:
    commits = messages.kinds == ord("C")
    loose = (messages.kinds == ord("M")) & (
        messages.data[np.minimum(messages.starts + 1, len(messages.data) - 1)] == 0
    )
    ends = np.where(commits, messages.int64(messages.starts + 10), messages.lsns)
    last = np.maximum.accumulate(np.where(commits | loose, np.arange(len(messages)), -1))
    start = -1 if context.last_commit_end is None else context.last_commit_end
    after: Ints = np.where(last >= 0, ends[last], start) if len(messages) else last
    return after


def _end(messages: Messages, line: Timeline, context: TransactionContext, time_us: int) -> TransactionContext:
    if len(messages) == 0:
        return context
    marks = np.flatnonzero((messages.kinds == ord("B")) | (messages.kinds == ord("C")))
    closed = messages.kinds[marks[-1]] == ord("C") if len(marks) else context.xid is None
    counted = int(line.sequence[-1]) + bool(ENTRIES[messages.kinds[-1]])
    xid = None if closed else int(line.xids[-1])
    after = int(line.after[-1])
    return replace(
        context,
        xid=xid,
        commit_lsn=int(line.commit_lsns[-1]),
        commit_ts_us=time_us,
        last_commit_end=None if after < 0 else after,
        sequence=0 if closed else counted,
        events=0 if closed else context.events,
        collections=() if closed else context.collections,
    )
