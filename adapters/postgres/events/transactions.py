"""Transaction metadata: BEGIN and END events, and each event's transaction block.

Logical messages are not counted. A block's id is the transaction's id with the event's own LSN, as in
Debezium. Works on a whole part; the counters of the open transaction are passed on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from engine.events.names import transaction_topic
from engine.events.record.assemble import EventGroup
from engine.events.record.envelope import TRANSACTION_KEY, TRANSACTION_VALUE
from engine.events.record.schema import with_schema
from engine.events.record.transactions import ended
from engine.events.values.text import Ints, Text, digits, join

if TYPE_CHECKING:
    from adapters.postgres.log.pgoutput import Messages
    from adapters.postgres.log.timeline import Timeline, TransactionContext
    from engine.events.record.transactions import Counts
    from engine.events.settings import EventSettings


def blocks(xids: Ints, lsns: Ints, total: Ints, own: Ints) -> Text:
    """The `transaction` member of events."""
    parts = ['{"id":"', _text(xids), ":", _text(lsns), '","total_order":', _text(total)]
    return join([*parts, ',"data_collection_order":', _text(own), "}"], len(xids))


def boundaries(
    messages: Messages, line: Timeline, counts: list[Counts], settings: EventSettings
) -> list[EventGroup]:
    """The BEGIN and END events of the part."""
    begins = np.flatnonzero(messages.kinds == ord("B"))
    ends = np.flatnonzero(messages.kinds == ord("C"))
    before = ['"event_count":null,"data_collections":null' for _ in begins]
    after = [ended(counts[ordinal]) for ordinal in line.ordinal[ends]]
    lsns = messages.int64(messages.starts[ends] + 10)
    return [
        _group("BEGIN", begins, messages.lsns[begins], line, before, settings),
        _group("END", ends, lsns, line, after, settings),
    ]


def _group(
    status: str, numbers: Ints, lsns: Ints, line: Timeline, middle: list[str], settings: EventSettings
) -> EventGroup:
    ordinals = line.ordinal[numbers]
    rows = len(numbers)
    id_text = join([_text(line.xids[ordinals]), ":", _text(lsns)], rows)
    before, after = with_schema(TRANSACTION_KEY, enabled=settings.key_schemas)
    key = join([f'{before}{{"id":"', id_text, f'"}}{after}'], rows)
    before, after = with_schema(TRANSACTION_VALUE, enabled=settings.value_schemas)
    head = f'{before}{{"status":"{status}","id":"'
    inner = pa.array(middle, pa.large_string())
    value = join(
        [head, id_text, '",', inner, ',"ts_ms":', _text(line.times_ms[ordinals]), f"}}{after}"], rows
    )
    return EventGroup(transaction_topic(settings), numbers, 0, key, value)


def with_counts(end: TransactionContext, counts: list[Counts]) -> TransactionContext:
    """The context after the part, with the open transaction's counters."""
    if end.xid is None:
        return end
    last = counts[-1]
    return replace(end, events=sum(count for _, count in last), collections=last)


def _text(numbers: Ints) -> Text:
    return digits(pa.array(numbers))
