"""Decodes a part of the log: raw change rows in, events as Arrow out. Pure; runs on executors.

A part has the rows of all capture instances between two positions. It never separates rows that share commit
and change LSN. Parts are decoded independently, except with transaction metadata: then each part needs the
transaction that the previous part left open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from adapters.source.log.table_faults import noting_faults
from adapters.source.signals.signal_rows import signal_rows
from adapters.sqlserver.events.schema_changes import schema_change_group
from adapters.sqlserver.events.source_block import CONNECTOR
from adapters.sqlserver.events.transactions import commits, transaction_events
from adapters.sqlserver.log.entries import (
    DELETE,
    INSERT,
    Entries,
    Instance,
    InstanceRows,
    in_order,
    known_in,
    new_groups,
    of_instance,
    updates,
)
from engine.events.counts import NO_EVENTS, EventCounts, count_events
from engine.events.damaged import reading_bytes
from engine.events.record.drafts import Change, Draft, drafts
from engine.events.record.envelope import source_head
from engine.events.record.finish import Events
from engine.events.values.stamps import stamp_values
from engine.events.values.text import Ints, Piece, Text, digits
from engine.snapshot.merge import SupersededKeys
from engine.snapshot.merge_key import merge_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adapters.source.log.open_transaction import OpenTransaction
    from adapters.sqlserver.events.schema_changes import SchemaChange
    from adapters.sqlserver.server.position import LogPosition
    from engine.events.settings import EventSettings
    from engine.model import CollectionId, Part, SignalRow

_MILLIS = 3


@dataclass(frozen=True, slots=True)
class Rules:
    """How to decode rows: the settings, and the capture instances by index. Sent to the executors.

    Rows of an instance without an entry are skipped. `clock_minutes` is how far the server's clock is ahead
    of UTC; it applies to times that come without a zone.
    """

    settings: EventSettings
    instances: Mapping[int, Instance]
    clock_minutes: int = 0


@dataclass(frozen=True, slots=True)
class Watch:
    """The tables with an open window. All their entries streamed meanwhile supersede rows read."""

    tables: frozenset[CollectionId] = frozenset()


@dataclass(frozen=True, slots=True)
class DecodedPart:
    """A decoded part: its events in order, and the facts that the driver needs. `entries` counts rows.

    `events` are the rendered ones, `columns` those of a sink that takes columns. `part` is the written file
    of the events, once there is one. `faults` maps tables whose rows can't be decoded to the reason.
    `counts` are the events by operation.
    """

    events: pa.RecordBatch
    signals: tuple[SignalRow, ...]
    superseded: SupersededKeys
    open: OpenTransaction | None
    entries: int
    part: Part | None = None
    faults: Mapping[CollectionId, str] = field(default_factory=dict)
    columns: tuple[pa.RecordBatch, ...] = ()
    counts: EventCounts = NO_EVENTS


def decode(
    batches: Sequence[pa.RecordBatch],
    rules: Rules,
    watch: Watch,
    now_ms: int,
    before: OpenTransaction | None = None,
    changes: Sequence[SchemaChange] = (),
) -> DecodedPart:
    """Decode and encode the rows of a part. `now_ms` is the `ts_ms` of its events.

    `batches` have the columns of `changes.RAW`, in any order. A schema change is emitted before the first row
    of its commit or of a later one. Raises SeparatorInData for an instance in FAST form whose values hold the
    separator.
    """
    entries = in_order([batch for batch in batches if batch.num_rows])
    made: list[Draft] = []
    signals: list[tuple[LogPosition, SignalRow]] = []
    keys: dict[CollectionId, tuple[pa.LargeBinaryArray, ...]] = {}
    faults: dict[CollectionId, str] = {}
    for index, instance in known_in(entries, rules.instances):
        codec = instance.codec
        rows = of_instance(entries, index, instance)
        with noting_faults(faults, codec.collection):
            for collection, superseded in _superseding(rows, watch):
                keys[collection] = (*keys.get(collection, ()), superseded)
            if codec.signal:
                signals += _signals(rows, entries)
            if codec.emit:
                for change in _changes(rows, entries):
                    made += drafts(change, codec, rules.settings)
    events = Events(now_ms)
    left = _complete(events, entries, made, rules, before)
    events.groups.extend(
        schema_change_group(schema_change, entries.from_commit(schema_change.commit), rules.settings)
        for schema_change in changes
    )
    return DecodedPart(
        events.records(),
        tuple(row for _place, row in sorted(signals, key=itemgetter(0))),
        SupersededKeys(keys),
        left,
        len(entries),
        faults=faults,
        columns=events.columns(),
        counts=count_events(events.operations, pc.count_distinct(entries.commits).as_py()),
    )


def _changes(rows: InstanceRows, entries: Entries) -> Iterator[Change]:
    """The instance's encoded rows, grouped by operation."""
    codec = rows.instance.codec
    for operation, op in ((DELETE, "d"), (INSERT, "c")):
        numbers, columns = rows.of(operation)
        if len(numbers):
            row = codec.row(columns)
            yield Change(op, numbers, row if op == "d" else None, row if op == "c" else None)
    numbers, old, new = updates(rows, entries)
    if len(numbers):
        yield Change("u", numbers, codec.row(old), codec.row(new))


def _superseding(rows: InstanceRows, watch: Watch) -> Iterator[tuple[CollectionId, pa.LargeBinaryArray]]:
    """The merge keys of all rows of the windows' tables. Any change row supersedes, and has the whole row."""
    codec = rows.instance.codec
    if codec.collection in watch.tables and codec.merge_key and len(rows.numbers):
        yield codec.collection, merge_keys([rows.columns[at] for at in codec.merge_key])


def _signals(rows: InstanceRows, entries: Entries) -> list[tuple[LogPosition, SignalRow]]:
    """The rows inserted into the signal table, by their positions."""
    numbers, columns = rows.of(INSERT)
    codec = rows.instance.codec
    positions = [entries.position(int(number)) for number in numbers]
    labels = (f"{codec.collection.parts[0]}:{position}" for position in positions)
    return list(zip(positions, signal_rows(labels, columns, codec.columns), strict=True))


def _complete(
    events: Events, entries: Entries, made: Sequence[Draft], rules: Rules, before: OpenTransaction | None
) -> OpenTransaction | None:
    """Add the drafts and the transaction metadata to the events; returns the transaction left open."""
    times = _times(entries, rules, events.now_ms)
    blocks: Sequence[Text | None] = [None] * len(made)
    if rules.settings.transaction_metadata:
        line = commits(entries.commits, times, new_groups(entries.keys), before)
        heard = transaction_events(made, line, before, rules.settings)
        blocks, before = heard.blocks, heard.open
        events.groups.extend(heard.groups)
    for draft, block in zip(made, blocks, strict=True):
        events.add(draft, _source(entries, draft, times, rules.settings), block)
    return before


def _times(entries: Entries, rules: Rules, now_ms: int) -> Ints:
    """Each entry's commit time in milliseconds; the current time where the server no longer has it."""
    ahead = rules.clock_minutes * 60_000
    with reading_bytes("the time of a commit"):
        times = stamp_values(entries.committed, _MILLIS) - ahead
    if entries.committed.null_count:
        times[pc.is_null(entries.committed).to_numpy(zero_copy_only=False)] = now_ms
    return times


def _source(entries: Entries, draft: Draft, times: Ints, settings: EventSettings) -> list[Piece]:
    """The source blocks of a draft's events."""
    numbers = draft.messages
    rows = pa.array(numbers)
    head: list[Piece] = [
        source_head(CONNECTOR, settings),
        _constant_or(times[numbers]),
        draft.codec.source[0],
        '"',
    ]
    positions: list[Piece] = [entries.changes.take(rows), '","commit_lsn":"', entries.commits.take(rows)]
    return [*head, *positions, '","event_serial_no":', _constant_or(entries.serials[numbers]), "}"]


def _constant_or(numbers: Ints) -> Piece:
    return str(numbers[0]) if len(numbers) and (numbers == numbers[0]).all() else digits(pa.array(numbers))
