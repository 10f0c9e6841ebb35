"""The Arrow schema of a batch of finished events, which decoders produce and sinks consume."""

from __future__ import annotations

import pyarrow as pa

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


def no_events() -> pa.RecordBatch:
    """A batch without rows."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in EVENTS], schema=EVENTS)
