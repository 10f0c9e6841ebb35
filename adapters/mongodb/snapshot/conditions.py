"""Conditions of signals and filters of initial snapshots: whether windows can read by them."""

from __future__ import annotations

from functools import lru_cache
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any

from bson import encode, json_util
from bson.code import Code

from engine.errors import SignalError
from signals.parse.budget import check_depth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapters.mongodb.server.collection_probes import CollectionProbes
    from engine.model import CollectionId, Target

_OF_OTHER_INDEXES = {
    "$text": "a regular expression",
    "$near": "$geoWithin",
    "$nearSphere": "$geoWithin with $centerSphere",
}
"""Operators that need an index of their own, and what to use instead."""


_SCRIPTS = frozenset({"$where", "$function", "$accumulator"})


def condition_filter(target: Target) -> dict[str, Any]:
    """The condition as a filter document from extended JSON. Raises SignalError if it is not one."""
    if not target.condition:
        return {}
    found = _document(target.condition, target.collection)
    if not target.initial:  # filters in the settings are not restricted
        _refuse_scripts(found, target.collection)
    return found


@lru_cache(maxsize=16)
def _document(condition: str, collection: CollectionId) -> dict[str, Any]:
    """The condition's document, if it can be sent at all."""
    hint = 'write it as JSON, such as {"status": "open"}'
    try:
        found = json_util.loads(condition)
        encode(found if isinstance(found, dict) else {})
    except Exception as error:
        # Untrusted input: numbers that BSON lacks, keys with NUL, a thousand brackets.
        said = str(error) if isinstance(error, JSONDecodeError) else type(error).__name__
        raise SignalError(
            f"the condition is no filter document: {said}", where=collection, hint=hint
        ) from error
    if not isinstance(found, dict):
        raise SignalError("the condition must be a document", where=collection, hint=hint)
    check_depth(found, "the condition")
    return found


def _refuse_scripts(document: dict[str, Any], collection: CollectionId) -> None:
    """Raise SignalError for anything that runs JavaScript on the server."""
    left: list[Any] = [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            for name in _SCRIPTS & value.keys():
                raise SignalError(f"the condition is refused: {name} runs a script", where=collection)
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
        elif isinstance(value, Code):
            raise SignalError("the condition is refused: it holds a script", where=collection)


def check_condition(probes: CollectionProbes, target: Target) -> None:
    """Raise SignalError if windows can't read by the condition."""
    condition = condition_filter(target)
    if not condition:
        return
    for name in _operators(condition):
        if name in _OF_OTHER_INDEXES:
            raise SignalError(
                f"the condition can't be used: {name!r} needs an index of its own, and windows read by '_id'",
                where=target.collection,
                hint=f"use {_OF_OTHER_INDEXES[name]}",
            )
    refusal = probes.refusal(target.collection, condition)
    if refusal is not None:
        raise SignalError(
            f"the condition can't be used: {refusal.reason}",
            where=target.collection,
            hint=refusal.hint or "explain a find with this filter says more",
        )


def _operators(value: Any) -> Iterator[str]:
    """The names of fields and operators at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _operators(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _operators(inner)
