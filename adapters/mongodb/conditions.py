"""The condition of a signal, or the filter of an initial snapshot: which of them can be read by windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import json_util

from adapters.mongodb.keys import BY_ID
from adapters.mongodb.server import Refused, collection_errors
from engine.errors import SignalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pymongo import MongoClient

    from engine.model import Target

_OF_OTHER_INDEXES = {
    "$text": "a regular expression",
    "$near": "$geoWithin",
    "$nearSphere": "$geoWithin with $centerSphere",
}
"""Operators that are answered by an index of their own alone, and what to use instead."""


def condition_filter(target: Target) -> dict[str, Any]:
    """The condition: a filter document in extended JSON. Raises SignalError where it is none."""
    if not target.condition:
        return {}
    try:
        found = json_util.loads(target.condition)
    except (ValueError, TypeError) as error:
        raise SignalError(
            f"the condition is no filter document: {error}",
            place=str(target.collection),
            hint='write it as JSON, such as {"status": "open"}',
        ) from error
    if not isinstance(found, dict):
        raise SignalError("the condition must be a document", place=str(target.collection))
    return found


def check_condition(client: MongoClient[dict[str, Any]], target: Target) -> None:
    """Raise SignalError where windows can't read by the condition; the server is asked, and reads nothing."""
    condition = condition_filter(target)
    if not condition:
        return
    for name in _operators(condition):
        if name in _OF_OTHER_INDEXES:
            raise SignalError(
                f"the condition can't be used: {name!r} needs an index of its own, and windows read by '_id'",
                place=str(target.collection),
                hint=f"use {_OF_OTHER_INDEXES[name]}",
            )
    database, name = target.collection.parts
    find = {"find": name, "filter": condition, "hint": BY_ID}
    try:
        with collection_errors("checking the condition", target.collection):
            client[database].command("explain", find, verbosity="queryPlanner")
    except Refused as error:
        raise SignalError(
            f"the condition can't be used: {error.said}", place=str(target.collection), hint=error.hint
        ) from error


def _operators(value: Any) -> Iterator[str]:
    """The names of fields and operators, however deep."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _operators(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _operators(inner)
