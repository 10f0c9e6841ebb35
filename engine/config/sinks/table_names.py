"""How sinks name their tables after the collections that their events are of."""

from __future__ import annotations

from typing import Final

from engine.config.properties.shapes import text

TOPIC, DATABASE, SCHEMA, TABLE = "${topic}", "${source.db}", "${source.schema}", "${source.table}"
_VARIABLE: Final = r"\$\{(?:topic|source\.db|source\.schema|source\.table)\}"
_PART: Final = rf"(?:[^.${{}}]|{_VARIABLE})+"
NAME_FORMAT: Final = text(
    rf"{_PART}(?:\.{_PART})?", "a name, or schema.name, of ${topic}, ${source.schema} and so on"
)
