"""The form of filters in MongoDB's properties: JSON. Only the server interprets them."""

from __future__ import annotations

import orjson

from engine.config.properties.shapes import Shape


def _filter(raw: str) -> str | None:
    if not raw.strip():
        return ""
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return raw.strip() if isinstance(found, dict) else None


def _matches(raw: str) -> tuple[str, ...] | None:
    """The filters of the stages."""
    if not raw.strip():
        return ()
    try:
        stages = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(stages, list):
        return None
    found = []
    for stage in stages:
        if not isinstance(stage, dict) or list(stage) != ["$match"] or not isinstance(stage["$match"], dict):
            raise ValueError(
                "a JSON array of $match stages alone; for other shapes of events use field.exclude.list,"
                " field.renames, or a transformation after the sink"
            )
        found.append(orjson.dumps(stage["$match"]).decode())
    return tuple(found)


FILTER = Shape('a filter document in JSON, such as {"status": "open"}', _filter)
MATCHES = Shape('a JSON array of $match stages, such as [{"$match": {"operationType": "insert"}}]', _matches)
