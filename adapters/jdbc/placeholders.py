"""What stands in an event for a value that the log left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.jdbc.column_types import texts

if TYPE_CHECKING:
    from engine.events.record.schema import Schema
    from engine.events.settings import EventSettings


@dataclass(frozen=True, slots=True)
class Placeholders:
    """What stands for a value that the log left out, in texts and in bytes."""

    text: str
    data: bytes

    def __call__(self, values: pa.Array, schema: Schema) -> pa.Array | None:
        """Which of these values are placeholders; None if none of the type can be."""
        if pa.types.is_large_string(values.type):
            return pc.equal(values, pa.scalar(self.text, values.type))
        if pa.types.is_large_binary(values.type):
            return pc.equal(values, pa.scalar(self.data, values.type))
        written = self._nested(schema)
        return None if written is None else pc.equal(texts(values, schema), written)

    def _nested(self, schema: Schema) -> pa.Scalar | None:
        kind = schema.items.type if schema.items else ""
        if schema.type == "map":
            return pa.scalar(f'{{"{self.text}":"{self.text}"}}', pa.large_string())
        if kind == "string":
            return pa.scalar(f'{{"{self.text}"}}', pa.large_string())
        if kind in {"int16", "int32", "int64"}:
            letters = ",".join(f'"{letter}"' for letter in np.frombuffer(self.data, np.int8))
            return pa.scalar(f"{{{letters}}}", pa.large_string())
        return None


def placeholders_of(events: EventSettings) -> Placeholders:
    """Those of a source's events."""
    return Placeholders(events.unavailable_text, events.unavailable_value)
