"""The shape of a batch of finished events, as decoders give them and sinks take them.

Owns the Arrow schema and nothing else: how an event is made is the other modules' affair, what
happens to it the sink's.
"""

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
"""Events in log order. `key` null: no key; `value` null: a tombstone; both are JSON text.

`headers` is the JSON text of a list of `{"key": name, "value": text}`, null for none.
"""


def no_events() -> pa.RecordBatch:
    """A batch without rows."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in EVENTS], schema=EVENTS)
