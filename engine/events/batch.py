"""The two forms of events on their way to a sink, and the Arrow schema of rendered ones."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

import pyarrow as pa


class EventForm(StrEnum):
    """The form in which a sink takes the events of tables.

    - RECORDS: rendered keys and values, in batches of `EVENTS`.
    - COLUMNS: typed values, in batches as `engine.events.columns` describes them.
    """

    RECORDS = "records"
    COLUMNS = "columns"


EVENTS = pa.schema(
    [
        pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("key", pa.large_string()),
        pa.field("value", pa.large_string()),
        pa.field("headers", pa.large_string()),
    ]
)
"""Events in log order. Key and value are JSON text. A null key means no key, a null value a tombstone.

`headers` is the JSON text of a list of `{"key": name, "value": text}`, null for none.
"""


@cache
def no_events() -> pa.RecordBatch:
    """A batch without rows."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in EVENTS], schema=EVENTS)
