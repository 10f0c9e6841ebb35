"""Events as typed columns, for sinks that don't take rendered records.

A batch has events of one table under one schema, one row for each record that there would be:

| column | content |
|---|---|
| `order` | ascends with the log over the batches of a part; null for a row that was read: it has no place |
| `key` | the key as a struct; null for a truncate, and in a table without a key |
| the members of the envelope | `op` is c, u, d, t (truncate) or r (read), and null for a tombstone |
| `headers` | the record's headers as in `EVENTS`: what a changed key was or becomes |

The envelope of a table has `before` and `after`, the rows as structs or null; `source` with position,
transaction, time and snapshot marker; `op`, `ts_ms` and `transaction`. In a collection of documents `before`
and `after` are JSON texts, as in its records, and there is an `updateDescription`. A tombstone has only
`order`, `key` and `headers`.

The schema's metadata has the `topic` and the parts of the `collection`'s name as JSON. The metadata of the
key and of each member has its Connect `schema` as JSON; `engine.events.record.typed` says which Arrow type
each of these becomes.

Events that are no rows of a table (transaction metadata, logical messages, schema changes, heartbeats) reach
such a sink as batches of `EVENTS`, behind the rows of their part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import InvariantError
from engine.events.batch import EVENTS
from engine.events.record.assemble import sort_keys_of
from engine.events.record.drafts import TOMBSTONE_TURN
from engine.events.record.envelope import TRANSACTION_BLOCK
from engine.events.record.schema import UNTOLD
from engine.events.record.typed import arrow_type, from_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.events.codec import TableCodec
    from engine.events.record.drafts import Draft
    from engine.events.record.schema import RecordSchemas, Schema
    from engine.events.values.text import Piece, Text
    from engine.model import CollectionId


class TypedCodec(Protocol):
    """A codec whose events are typed if it has their schemas."""

    @property
    def topic(self) -> str:
        """The topic of the events."""

    @property
    def collection(self) -> CollectionId:
        """The table or collection."""

    @property
    def schemas(self) -> RecordSchemas | None:
        """The schemas of the events; None if they are rendered."""


def schema_of(codec: TypedCodec) -> pa.Schema:
    """The schema of a table's batches."""
    schemas = _schemas(codec)
    key = pa.field("key", pa.null()) if schemas.key is None else _field("key", schemas.key)
    if schemas.key is not None and not schemas.tells_key:
        key = key.with_metadata({**key.metadata, UNTOLD: b""})
    members = (_field(name, schema) for name, schema in schemas.envelope.fields)
    fields = [pa.field("order", pa.int64()), key, *members, EVENTS.field("headers")]
    return pa.schema(fields, {"topic": codec.topic, "collection": orjson.dumps(codec.collection.parts)})


def _schemas(codec: TypedCodec) -> RecordSchemas:
    if codec.schemas is None:
        raise InvariantError(f"the codec of {codec.collection} renders records")
    return codec.schemas


def _field(name: str, schema: Schema) -> pa.Field:
    return pa.field(name, arrow_type(schema), metadata={"schema": schema.json()})


def typed_events(draft: Draft, source: Text, block: Text | None, now_ms: int) -> list[pa.RecordBatch]:
    """The events of a draft, and their tombstones. `source` and `block` are the JSON of these members."""
    rows, schema = len(draft.messages), schema_of(draft.codec)
    before, after = _members(draft.before), _members(draft.after)
    common = {"key": (after or before).get("key"), "headers": draft.headers}
    events = {
        **common,
        "order": pa.array(sort_keys_of(draft.messages, draft.turn)),
        "op": pa.repeat(pa.scalar(draft.op, pa.large_string()), rows),
        "before": before.get("row"),
        "after": after.get("row"),
        "source": from_json(source, _schemas(draft.codec).member("source")),
        "ts_ms": pa.repeat(pa.scalar(now_ms, pa.int64()), rows),
        "transaction": None if block is None else from_json(block, TRANSACTION_BLOCK),
    }
    made = [_batch(events, rows, schema)]
    if draft.tombstone:
        tombstones = {**common, "order": pa.array(sort_keys_of(draft.messages, TOMBSTONE_TURN))}
        made.append(_batch(tombstones, rows, schema))
    return made


def _members(pieces: list[Piece] | None) -> dict[str, pa.Array]:
    """The key and the rows of typed rows."""
    if pieces is None:
        return {}
    typed: Any = pieces[0]
    return {member.name: typed.field(member.name) for member in typed.type}


def _batch(columns: Mapping[str, pa.Array | None], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of these columns, null in all others."""
    given = [columns.get(field.name) for field in schema]
    arrays = [
        pa.nulls(rows, field.type) if array is None else array
        for array, field in zip(given, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def parsed_events(codec: TypedCodec, order: pa.Int64Array, keys: Text, values: Text) -> pa.RecordBatch:
    """Events from the JSON of their keys and values without schemas; a null value is a tombstone."""
    schemas = _schemas(codec)
    envelope = from_json(values, schemas.envelope)
    key = None if schemas.key is None else from_json(keys, schemas.key)
    members = dict(zip(envelope.type.names, envelope.flatten(), strict=True))
    columns = {"order": order, "key": key, **members}
    return _batch(columns, len(order), schema_of(codec))


def typed_reads(codec: TableCodec, columns: Sequence[Text], source: str, now_ms: int) -> pa.RecordBatch:
    """READ events of rows with these columns. `source` is the source block of all of them."""
    rows, members = len(columns[0]), _members(codec.row(columns).pieces)
    block = from_json(pa.array([source], pa.large_string()), _schemas(codec).member("source"))
    events = {
        "key": members.get("key"),
        "after": members["row"],
        "source": pa.repeat(block[0], rows),
        "op": pa.repeat(pa.scalar("r", pa.large_string()), rows),
        "ts_ms": pa.repeat(pa.scalar(now_ms, pa.int64()), rows),
    }
    return _batch(events, rows, schema_of(codec))


def with_marker(events: pa.RecordBatch, marker: str) -> pa.RecordBatch:
    """The events with this snapshot marker in their source blocks."""
    at = events.schema.get_field_index("source")
    source, field = events.column(at), events.schema.field(at)
    members = dict(zip(source.type.names, source.flatten(), strict=True))
    members["snapshot"] = pa.repeat(pa.scalar(marker, pa.large_string()), len(source))
    return events.set_column(
        at, field, pa.StructArray.from_arrays(list(members.values()), fields=list(field.type))
    )


def in_order(batches: Iterable[pa.RecordBatch]) -> tuple[pa.RecordBatch, ...]:
    """One batch for each table and schema, in log order."""
    by_schema: dict[bytes, list[pa.RecordBatch]] = {}
    for batch in batches:
        # Schemas are equal whatever their metadata, which name the table.
        by_schema.setdefault(batch.schema.serialize().to_pybytes(), []).append(batch)
    joined = (pa.concat_batches(group) for group in by_schema.values())
    return tuple(batch.take(pc.sort_indices(batch.column("order"))) for batch in joined)
