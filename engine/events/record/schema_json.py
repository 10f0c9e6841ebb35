"""Reads the schemas of Kafka Connect's JsonConverter, the inverse of `Schema.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from engine.events.record.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping


def schema_from_json(text: str | bytes) -> Schema:
    """The schema of this JSON. Raises ValueError if it is none."""
    try:
        return _schema(orjson.loads(text))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("not a schema of Kafka Connect") from error


def _schema(members: Mapping[str, Any]) -> Schema:
    kind: str = members["type"]
    fields = members.get("fields", ()) if kind == "struct" else ()
    items = members.get("items") if kind == "array" else members.get("values")
    keys = members.get("keys")
    return Schema(
        kind,
        optional=bool(members.get("optional")),
        name=members.get("name"),
        version=members.get("version"),
        doc=members.get("doc"),
        parameters=tuple((members.get("parameters") or {}).items()),
        default=orjson.dumps(members["default"]).decode() if "default" in members else None,
        fields=tuple((field["field"], _schema(field)) for field in fields),
        keys=None if keys is None else _schema(keys),
        items=None if items is None else _schema(items),
    )
