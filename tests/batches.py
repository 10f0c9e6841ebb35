"""Batches of events for the tests of sinks."""

from __future__ import annotations

import pyarrow as pa

from engine.events.batch import EVENTS


def batch(*events: tuple[str, str | None, str | None, str | None]) -> pa.RecordBatch:
    """A batch of `(topic, key, value, headers)`."""
    topics, *columns = zip(*events, strict=True) if events else [()] * 4
    arrays = [pa.array(topics, pa.string()).dictionary_encode()]
    arrays += [pa.array(column, pa.large_string()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)


def numbered(*numbers: int) -> pa.RecordBatch:
    """A batch of events whose keys are these numbers."""
    return batch(*(("p.public.t", str(number), f'{{"n":{number}}}', None) for number in numbers))
