"""Decodes a part of the log into events: the first stage on executors. Pure, bytes in and Arrow out.

Parts are decoded independently, except with transaction metadata: then each part needs the context returned
by the part before it.

Unlike Debezium 2.1.4, this loses and garbles nothing: names and columns that are not ASCII keep their letters
(Debezium garbles them and loses the key), and with REPLICA IDENTITY FULL unchanged arrays are filled from the
old tuple like any other value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.postgres.events import transactions
from adapters.postgres.events.logical_messages import message_events
from adapters.postgres.events.source_block import CONNECTOR, source_end
from adapters.postgres.log.entries import Entries, row_groups
from adapters.postgres.log.pgoutput import Messages, parse_truncate, read_messages
from adapters.postgres.log.timeline import ENTRIES, SpanPart, Timeline, TransactionContext, timeline
from adapters.postgres.log.touched_keys import (
    NO_COUNTED,
    NO_LACKING,
    Watch,
    concat_in_log_order,
    concat_tables,
    copies,
    incomplete,
    keys_touched,
)
from adapters.postgres.server.visibility import format_lsn
from adapters.source.log.table_faults import noting_faults
from adapters.source.signals.signal_rows import signal_rows
from engine.events.counts import NO_EVENTS, EventCounts, count_events
from engine.events.record.drafts import Change, Draft, drafts
from engine.events.record.envelope import source_head
from engine.events.record.finish import Events
from engine.events.record.transactions import number_events
from engine.events.values.text import Ints, Piece, Text, digits, join, scalar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.postgres.events.source_block import Moment
    from engine.events.codec import TableCodec
    from engine.events.record.assemble import EventGroup
    from engine.events.settings import EventSettings
    from engine.model import Part, SignalRow


_NO_XIDS: Final = pa.array([], pa.int64())


@dataclass(frozen=True, slots=True)
class DecodedPart:
    """What a part contains: its events in log order, and what the driver needs to know.

    `events` are the rendered ones, `columns` those of a sink that takes columns. `signals` are the rows
    inserted into the signal table, `signals_deleted` the ids of those deleted from it.
    `touched` has the schema `TOUCHED`, `incomplete` has `LACKING`, `copies` has `COUNTED`. `truncated` are
    all truncated relations, captured or not, each with the 32-bit id of the transaction. `entries` counts
    row, truncate and message entries. `part` is the written part, once the events are written. `faults` are
    the relations whose entries can't be decoded, and why. `counts` are the events by operation. `xids` are
    the 32-bit ids of all its transactions.
    """

    events: pa.RecordBatch
    signals: tuple[SignalRow, ...]
    touched: pa.Table
    incomplete: pa.Table
    truncated: frozenset[tuple[int, int]]
    context: TransactionContext
    entries: int
    copies: pa.Table = field(default_factory=lambda: NO_COUNTED)
    signals_deleted: tuple[str | None, ...] = ()
    part: Part | None = None
    faults: Mapping[int, str] = field(default_factory=dict)
    columns: tuple[pa.RecordBatch, ...] = ()
    counts: EventCounts = NO_EVENTS
    xids: pa.Array = field(default_factory=lambda: _NO_XIDS)


def decode(
    part: SpanPart,
    codecs: Mapping[int, TableCodec],
    settings: EventSettings,
    watch: Watch,
    moment: Moment,
) -> DecodedPart:
    """Decode and encode one part.

    A relation without a codec is not captured: its entries are only counted.
    """
    messages = read_messages(part.messages)
    line = timeline(messages, part.context)
    rows = _Rows(line, watch, settings)
    faults: dict[int, str] = {}
    for group in row_groups(messages, codecs):
        with noting_faults(faults, group.oid):
            rows.add(group.read(), group.codec)
    emptied, truncated = _truncates(messages, line, codecs, settings)
    made = [*rows.drafts, *emptied]
    events = Events(moment.now_ms)
    blocks, boundaries, context = _metadata(messages, line, made, part.context, settings)
    for draft, block in zip(made, blocks, strict=True):
        events.add(draft, source_pieces(messages, line, draft, settings, moment.xmin), block)
    events.groups.extend([*boundaries, *message_events(messages, line, settings, moment)])
    return DecodedPart(
        events.records(),
        tuple(row for _position, row in sorted(rows.signals, key=itemgetter(0))),
        concat_tables(rows.keys),
        concat_tables(rows.lacking, NO_LACKING),
        truncated,
        context,
        int(ENTRIES[messages.kinds].sum()),
        copies=concat_in_log_order(rows.counted),
        signals_deleted=tuple(rows.deleted),
        faults=faults,
        columns=events.columns(),
        counts=_counts(messages, line, events),
        xids=pa.array(line.xids[line.xids >= 0]),
    )


def _counts(messages: Messages, line: Timeline, events: Events) -> EventCounts:
    """The part's events by operation, and the transactions whose commits are in it."""
    commits = np.flatnonzero(messages.kinds == ord("C"))
    last = int(line.xids[line.ordinal[commits[-1]]]) if len(commits) else None
    return count_events(events.operations, len(commits), last)


@dataclass(slots=True)
class _Rows:
    """What the row entries of a part say: their drafts, the keys that windows need, and signals."""

    line: Timeline
    watch: Watch
    settings: EventSettings
    drafts: list[Draft] = field(default_factory=list)
    keys: list[pa.Table] = field(default_factory=list)
    lacking: list[pa.Table] = field(default_factory=list)
    counted: list[pa.Table] = field(default_factory=list)
    signals: list[tuple[tuple[int, int], SignalRow]] = field(default_factory=list)
    deleted: list[str | None] = field(default_factory=list)

    def add(self, entries: Entries, codec: TableCodec) -> None:
        """Add entries of one relation and operation."""
        self.keys += keys_touched(entries, codec, self.line, self.watch)
        self.lacking += incomplete(entries, codec, self.line, self.watch)
        self.counted += copies(entries, codec, self.line, self.watch)
        if codec.signal and entries.op == "c":
            self.signals += _signals(entries, codec, self.line)
        if codec.signal and entries.op == "d":
            self.deleted += (row.id for _position, row in _signals(entries, codec, self.line))
        if codec.emit:
            self.drafts += drafts(_change(entries, codec), codec, self.settings)


def _change(entries: Entries, codec: TableCodec) -> Change:
    """The entries with their rows encoded."""
    new = codec.row(entries.new.columns, entries.new.unchanged) if entries.new else None
    old = codec.row(entries.old.columns, entries.old.unchanged) if entries.old else None
    return Change(entries.op, entries.messages, old, new)


def _metadata(
    messages: Messages,
    line: Timeline,
    made: Sequence[Draft],
    context: TransactionContext,
    settings: EventSettings,
) -> tuple[Sequence[Text | None], list[EventGroup], TransactionContext]:
    """Transaction metadata: the drafts' blocks, BEGIN and END events, and the context after the part."""
    if not settings.transaction_metadata:
        return [None] * len(made), [], line.end
    orders, counts = number_events(made, line.ordinal, len(line.xids), context.collections)
    blocks = []
    for draft, (total, own) in zip(made, orders, strict=True):
        xids = line.xids[line.ordinal[draft.messages]]
        blocks.append(transactions.blocks(xids, messages.lsns[draft.messages], total, own))
    boundaries = transactions.boundaries(messages, line, counts, settings)
    return blocks, boundaries, transactions.with_counts(line.end, counts)


def source_pieces(
    messages: Messages, line: Timeline, draft: Draft, settings: EventSettings, xmin: int | None = None
) -> list[Piece]:
    """The source blocks of a draft's events."""
    numbers = draft.messages
    ordinals = line.ordinal[numbers]
    snapshot, table = draft.codec.source
    lsns = digits(pa.array(messages.lsns[numbers]))
    times = _constant_or(line.times_ms[ordinals])
    head: list[Piece] = [
        source_head(CONNECTOR, settings),
        times,
        snapshot,
        '"[',
        _commits(line.after[numbers]),
    ]
    xids = _constant_or(line.xids[ordinals])
    return [*head, ',\\"', lsns, '\\"]"', table, xids, ',"lsn":', lsns, source_end(xmin)]


def _commits(ends: Ints) -> Piece:
    if len(ends) and (ends == ends[0]).all():
        return "null" if ends[0] < 0 else f'\\"{ends[0]}\\"'
    shown = join(['\\"', digits(pa.array(ends)), '\\"'], len(ends))
    return pc.if_else(pa.array(ends < 0), scalar("null"), shown)


def _constant_or(numbers: Ints) -> Piece:
    return str(numbers[0]) if len(numbers) and (numbers == numbers[0]).all() else digits(pa.array(numbers))


def _truncates(
    messages: Messages, line: Timeline, codecs: Mapping[int, TableCodec], settings: EventSettings
) -> tuple[list[Draft], frozenset[tuple[int, int]]]:
    made = []
    emptied: set[tuple[int, int]] = set()
    for number in np.flatnonzero(messages.kinds == ord("T")):
        oids = parse_truncate(bytes(messages.data[messages.starts[number] : messages.ends[number]]))
        xid = int(line.xids[line.ordinal[number]])
        emptied.update((oid, xid) for oid in oids)
        if "t" in settings.skipped_operations:
            continue
        for turn, oid in enumerate(oids):
            codec = codecs.get(oid)
            if codec is not None and codec.emit:
                made.append(Draft(codec, "t", np.array([number]), turn, None, None, None))
    return made, frozenset(emptied)


def _signals(entries: Entries, codec: TableCodec, line: Timeline) -> list[tuple[tuple[int, int], SignalRow]]:
    """The signal table's rows, by the commit and the sequence of their entries."""
    tuples = entries.new or entries.old
    if tuples is None:
        return []
    commits = line.commit_lsns[line.ordinal[entries.messages]].tolist()
    positions = list(zip(commits, line.sequence[entries.messages].tolist(), strict=True))
    labels = (f"{format_lsn(commit)}/{sequence}" for commit, sequence in positions)
    return list(zip(positions, signal_rows(labels, tuples.columns, codec.columns), strict=True))
