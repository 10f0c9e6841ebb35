"""Kafka Connect schemas as values, and their JSON as the JsonConverter writes it.

Owns the order of a schema's members. The adapters choose the schema of each database type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from engine.events.values.json_text import quote

MASKED: Final = ("masked", "true")
"""The schema parameter of a column whose values are hidden."""
UNTOLD: Final = b"untold"
"""Metadata of a typed key: the log lacks the key of some row that is deleted, or whose key changes."""


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema. `default` is JSON text. `fields` belong to a struct, `items` to an array or a map."""

    type: str
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: str | None = None
    fields: tuple[tuple[str, Schema], ...] = ()
    keys: Schema | None = None
    items: Schema | None = None

    def json(self, field: str | None = None) -> str:
        """JSON text; `field` names the member of a struct that this schema describes."""
        members = [f'"type":{quote(self.type)}', *self._inner(), f'"optional":{_flag(value=self.optional)}']
        if self.name is not None:
            members.append(f'"name":{quote(self.name)}')
        if self.version is not None:
            members.append(f'"version":{self.version}')
        if self.doc is not None:
            members.append(f'"doc":{quote(self.doc)}')
        if self.parameters:
            pairs = ",".join(f"{quote(key)}:{quote(value)}" for key, value in self.parameters)
            members.append(f'"parameters":{{{pairs}}}')
        if self.default is not None:
            members.append(f'"default":{self.default}')
        if field is not None:
            members.append(f'"field":{quote(field)}')
        return "{" + ",".join(members) + "}"

    def _inner(self) -> list[str]:
        if self.type == "struct":
            return ['"fields":[' + ",".join(schema.json(name) for name, schema in self.fields) + "]"]
        if self.items is None:
            return []
        if self.keys is None:
            return [f'"items":{self.items.json()}']
        return [f'"keys":{self.keys.json()}', f'"values":{self.items.json()}']

    def nullable(self, *, optional: bool = True) -> Schema:
        """The same schema, optional or not."""
        return replace(self, optional=optional)


def struct(
    name: str,
    *fields: tuple[str, Schema],
    version: int | None = None,
    doc: str | None = None,
    optional: bool = False,
) -> Schema:
    """A struct of these fields."""
    return Schema("struct", optional, name, version, doc, fields=fields)


@dataclass(frozen=True, slots=True)
class RecordSchemas:
    """The schemas of a table's events: of their keys, if it has a key, and of their envelopes.

    `tells_key` says whether the log has the key of each row that is deleted, or whose key is changed.
    """

    key: Schema | None
    envelope: Schema
    tells_key: bool = True

    def member(self, name: str) -> Schema:
        """The schema of a member of the envelope: `before`, `after`, `source`, `transaction`."""
        return dict(self.envelope.fields)[name]


def array(items: Schema) -> Schema:
    """An array of `items`."""
    return Schema("array", items=items)


def text_map() -> Schema:
    """A map of texts to texts."""
    return Schema("map", keys=STRING, items=STRING)


def with_schema(schema: Schema, *, enabled: bool) -> tuple[str, str]:
    """The text before and after a payload, with the schema if `enabled`."""
    return (f'{{"schema":{schema.json()},"payload":', "}") if enabled else ("", "")


def _flag(*, value: bool) -> str:
    return "true" if value else "false"


BOOLEAN = Schema("boolean")
INT16 = Schema("int16")
INT32 = Schema("int32")
INT64 = Schema("int64")
FLOAT = Schema("float")
DOUBLE = Schema("double")
STRING = Schema("string")
BYTES = Schema("bytes")
