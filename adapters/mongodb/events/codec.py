"""A collection's codec: raw documents and change events in, keys and values of events out.

Both the change stream and documents read by queries are encoded here, so a document gets the same text from
either. `Rules` apply to all collections and are sent to the executors. A collection's codec is made there
with its first event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.mongodb.documents.bson_walk import Kind, documents, elements, fields, int32, string
from adapters.mongodb.documents.extended_json import STRICT, UPDATED, embedded, text, tree, value_text
from adapters.mongodb.events.source_block import CONNECTOR, envelope_schema, key_schema, source_collection
from engine.events.batch import EventForm
from engine.events.names import schema_name, topic_of
from engine.events.record.envelope import source_head
from engine.events.record.schema import RecordSchemas, with_schema
from engine.events.values.json_text import quote

if TYPE_CHECKING:
    from adapters.mongodb.documents.bson_walk import Value
    from adapters.mongodb.documents.selection import FieldRules
    from engine.config.sources.selection import CaptureSettings
    from engine.events.settings import EventSettings
    from engine.model import CollectionId


@dataclass(frozen=True, slots=True)
class Rules:
    """How changes become events, for all collections. Changes of collections in `aside` are skipped."""

    settings: EventSettings
    capture: CaptureSettings
    replica_set: str
    field_rules: FieldRules
    signal: CollectionId | None = None
    aside: frozenset[CollectionId] = frozenset()

    def captures(self, collection: CollectionId) -> bool:
        """Whether a collection's changes become events. Those of the signal collection always do."""
        return collection == self.signal or self.capture.captures(*collection.parts)


@dataclass(frozen=True, slots=True)
class CollectionCodec:
    """How the documents of one collection become events. A plain value.

    `key_affixes` and `value_affixes` surround the payloads (with the schemas, if they are on). `source` is
    the constant middle of the source block, `head` its beginning. `schemas` are those of typed events, whose
    payloads nothing surrounds; None for rendered ones.
    """

    collection: CollectionId
    topic: str
    key_affixes: tuple[str, str]
    value_affixes: tuple[str, str]
    head: str
    source: str
    field_rules: FieldRules
    signal: bool = False
    schemas: RecordSchemas | None = None

    def key(self, id_json: str) -> str:
        """The key of an event."""
        return f'{self.key_affixes[0]}{{"id":{embedded(id_json)}}}{self.key_affixes[1]}'

    def document_json(self, raw: bytes, start: int) -> str:
        """A document's JSON, with the field rules applied."""
        found = tree(raw, start, STRICT)
        return text(self.field_rules.edit(found), STRICT)

    def optional_document(self, raw: bytes, value: Value | None) -> str:
        """Like `document_json`, as a JSON string; null if there is no document."""
        if value is None or value.kind != Kind.DOCUMENT:
            return "null"
        return embedded(self.document_json(raw, value.start))

    def update_description(self, raw: bytes, start: int) -> str:
        """The update description of an update event."""
        parts = fields(raw, start)
        rules = self.field_rules
        updated = rules.edit_dotted(tree(raw, parts["updatedFields"].start, UPDATED))
        removed = rules.edited_names(_strings(raw, parts.get("removedFields"))).values()
        removed_json = f"[{','.join(map(quote, removed))}]" if removed else "null"
        truncated_json = self._truncated(raw, parts.get("truncatedArrays"))
        updated_json = embedded(text(updated, UPDATED))
        return (
            f'{{"removedFields":{removed_json},"updatedFields":{updated_json}'
            f',"truncatedArrays":{truncated_json}}}'
        )

    def delete_affixes(self, source_json: str, ts_ms: int) -> tuple[str, str]:
        """The text before and after `before` in the value of a delete event."""
        opened, closed = self.value_affixes
        after = (
            f',"after":null,"patch":null,"filter":null,"updateDescription":null,"source":{source_json}'
            f',"op":"d","ts_ms":{ts_ms},"transaction":null}}{closed}'
        )
        return f'{opened}{{"before":', after

    def _truncated(self, raw: bytes, value: Value | None) -> str:
        sizes: dict[str, int] = {}
        for start, _end in documents(raw, value.start) if value else ():
            cut = fields(raw, start)
            sizes[string(raw, cut["field"].start)] = int32(raw, cut["newSize"].start)[0]
        names = self.field_rules.edited_names(sizes)
        shown = [f'{{"field":{quote(new)},"size":{sizes[old]}}}' for old, new in names.items()]
        return f"[{','.join(shown)}]" if shown else "null"


def codec_of(collection: CollectionId, rules: Rules) -> CollectionCodec:
    """The codec of one collection."""
    settings = rules.settings
    topic = topic_of(collection, settings)
    key = key_schema(schema_name(topic, "Key", settings))
    value = envelope_schema(schema_name(topic, "Envelope", settings))
    typed = settings.form is EventForm.COLUMNS
    return CollectionCodec(
        collection,
        topic,
        with_schema(key, enabled=settings.key_schemas and not typed),
        with_schema(value, enabled=settings.value_schemas and not typed),
        source_head(CONNECTOR, settings),
        source_collection(collection, rules.replica_set),
        rules.field_rules.of(collection),
        signal=collection == rules.signal,
        schemas=RecordSchemas(key, value) if typed else None,
    )


def id_json(raw: bytes, document_key: Value) -> str:
    """The relaxed text of the `_id` in a change event's document key; `null` if there is none."""
    for name, kind, start, end in elements(raw, document_key.start):
        if name == b"_id":
            return value_text(raw, kind, start, end)
    return "null"


def _strings(raw: bytes, array: Value | None) -> list[str]:
    if array is None:
        return []
    return [string(raw, start) for _name, _kind, start, _end in elements(raw, array.start)]
