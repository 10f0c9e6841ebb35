"""The heartbeat event: its topic, key and value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from engine.events.batch import EVENTS
from engine.events.names import heartbeat_topic
from engine.events.record.envelope import HEARTBEAT, SERVER_KEY
from engine.events.record.schema import with_schema
from engine.events.values.json_text import quote

if TYPE_CHECKING:
    from engine.events.settings import EventSettings


def heartbeat(settings: EventSettings, now_ms: int) -> pa.RecordBatch:
    """One heartbeat, as a batch of events."""
    before, after = with_schema(SERVER_KEY, enabled=settings.key_schemas)
    key = f'{before}{{"serverName":{quote(settings.topic_prefix)}}}{after}'
    before, after = with_schema(HEARTBEAT, enabled=settings.value_schemas)
    value = f'{before}{{"ts_ms":{now_ms}}}{after}'
    return pa.RecordBatch.from_arrays(
        [
            pa.array([heartbeat_topic(settings)]).dictionary_encode(),
            pa.array([key], pa.large_string()),
            pa.array([value], pa.large_string()),
            pa.array([None], pa.large_string()),
        ],
        schema=EVENTS,
    )
