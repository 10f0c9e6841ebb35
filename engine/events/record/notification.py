"""The notification record: what becomes of a snapshot, as Debezium tells it.

Owns the value and its JSON. `engine.job.reports.notices` decides which notifications there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from engine.events.batch import EVENTS
from engine.events.record.schema import INT64, STRING, struct, text_map, with_schema
from engine.events.values.json_text import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.events.settings import EventSettings

KEY: Final = struct("io.debezium.connector.common.NotificationKey", ("id", STRING), version=1)
VALUE: Final = struct(
    "io.debezium.connector.common.Notification",
    ("id", STRING),
    ("type", STRING),
    ("aggregate_type", STRING),
    ("additional_data", text_map()),
    ("timestamp", INT64),
    version=1,
)


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification. `timestamp` is Unix time in ms."""

    id: str
    type: str
    aggregate_type: str
    timestamp: int
    additional_data: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> str:
        """The value without its schema."""
        data = ",".join(f"{quote(name)}:{quote(text)}" for name, text in self.additional_data.items())
        return (
            f'{{"id":{quote(self.id)},"type":{quote(self.type)},"aggregate_type":{quote(self.aggregate_type)},'
            f'"additional_data":{{{data}}},"timestamp":{self.timestamp}}}'
        )


def notification_records(
    settings: EventSettings, topic: str, notifications: Sequence[Notification]
) -> pa.RecordBatch:
    """Notifications as a batch of events of `topic`, in order."""
    key_before, key_after = with_schema(KEY, enabled=settings.key_schemas)
    before, after = with_schema(VALUE, enabled=settings.value_schemas)
    count = len(notifications)
    keys = [f'{key_before}{{"id":{quote(notification.id)}}}{key_after}' for notification in notifications]
    values = [f"{before}{notification.json}{after}" for notification in notifications]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([topic] * count, pa.string()).dictionary_encode(),
            pa.array(keys, pa.large_string()),
            pa.array(values, pa.large_string()),
            pa.nulls(count, pa.large_string()),
        ],
        schema=EVENTS,
    )
