"""What a consumer has made of records, beside what the source shows by SELECT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.consumers.records import Record

Row = tuple[Any, ...]
REWRITE = {
    "2.1.4.Final": ("delete.handling.mode=rewrite", "drop.tombstones=true"),
    "3.6.1.Final": ("delete.tombstone.handling.mode=rewrite",),
}
"""By Debezium's version, the settings with which ExtractNewRecordState marks deleted rows."""


@dataclass(frozen=True, slots=True)
class Produced:
    """Records as consumers have them, and what the source showed when they had been sent."""

    records: list[Record]
    rows: list[Row]


class ShownColumn(Protocol):
    """A column as it is compared."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def parsed(self) -> bool:
        """Whether its text is JSON, to be compared by what it says."""


def of_topic(name: str, records: Iterable[Record], read: Iterable[Any]) -> list[dict[str, Any]]:
    """What was read of one table's records; those that a transformation drops are left out."""
    return [
        event
        for record, event in zip(records, read, strict=True)
        if record.topic.endswith(f".{name}") and event
    ]


def replayed(read: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows that change events leave, by their key `id`."""
    rows: dict[str, dict[str, Any]] = {}
    for event in read:
        after = event["value"] and event["value"]["after"]
        if after is None:
            rows.pop(event["key"]["id"], None)
        else:
            rows[event["key"]["id"]] = after
    return rows


def unwrapped(read: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows that ExtractNewRecordState leaves, which marks a deleted one by `__deleted`."""
    rows: dict[str, dict[str, Any]] = {}
    for event in read:
        row = event["value"] and {
            name: value for name, value in event["value"].items() if name != "__deleted"
        }
        if row is None or event["value"]["__deleted"] == "true":
            rows.pop(event["key"]["id"], None)
        else:
            rows[event["key"]["id"]] = row
    return rows


def differences(
    rows: Mapping[str, Mapping[str, Any]], shown: Sequence[Row], columns: Sequence[ShownColumn]
) -> list[str]:
    """Where the rows are not those that the source shows, whose first column is the key."""
    found = [f"row {key} is not there" for key in {row[0] for row in shown} - rows.keys()]
    found += [f"row {key} is not in the source" for key in rows.keys() - {row[0] for row in shown}]
    for key, *values in shown:
        for column, value in zip(columns, values, strict=True):
            read = rows.get(key, {}).get(column.name, "nothing")
            if _parsed(column, value) != _parsed(column, read):
                found.append(f"{column.name} of row {key}: the source shows {value!r}, read was {read!r}")
    return sorted(found)


def _parsed(column: ShownColumn, value: Any) -> Any:
    return orjson.loads(value) if column.parsed and isinstance(value, str) else value


def faults(read: Iterable[Mapping[str, Any] | None]) -> list[str]:
    """What is not byte for byte what the converters write."""
    return [f"{event['topic']} {fault}" for event in read if event for fault in event["faults"]]
