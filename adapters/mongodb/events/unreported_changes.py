"""Changes that no event shows: documents that a rename brings or takes away, and changes left out.

Pure. A collection that was the target of a rename lacks documents until a snapshot sends them; a running
snapshot of it starts over. A drop or rename removes documents without delete events, and no snapshot makes up
for that. It is logged once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from engine.isolation.incomplete import Cause, Incomplete, Letters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from adapters.mongodb.events.facts import CollectionRemoval, LeftOut
    from engine.model import CollectionId

    Captures = Callable[[CollectionId], bool]


def replaced_collections(emptied: Iterable[CollectionRemoval]) -> dict[CollectionId, tuple[int, ...]]:
    """Collections that were renamed onto, with the last rename's cluster time: `EncodingResult.replaced`."""
    return {emptying.to: emptying.at for emptying in emptied if emptying.to is not None}


def unsent(emptied: Iterable[CollectionRemoval]) -> frozenset[CollectionId]:
    """Collections that lost documents without delete events: `EncodingResult.unsent`.

    A database's collections are dropped one by one before it.
    """
    names = (name for emptying in emptied for name in (emptying.collection, emptying.to))
    return frozenset(name for name in names if name is not None)


def removal_message(emptied: CollectionRemoval, captures: Captures) -> str:
    """A log line on documents that consumers keep of a removed collection; empty if not captured."""
    if emptied.collection is None or not captures(emptied.collection):
        return ""  # a database's collections were dropped one by one before
    what = "dropped" if emptied.to is None else f"renamed to {emptied.to}"
    return (
        f"{emptied.collection} was {what} at {_shown(emptied.at)}: the log has no deletes of its documents,"
        " so consumers keep them"
    )


def incomplete(
    emptied: Iterable[CollectionRemoval], left_out: Iterable[LeftOut], captures: Captures
) -> tuple[Incomplete, ...]:
    """The collections whose copies are incomplete from now on."""
    renamed = (
        Incomplete(
            emptying.to,
            Cause.GAP,
            _shown(emptying.at),
            f"{emptying.collection} was renamed to it, and the log has none of its documents; consumers keep"
            " those that were there before",
        )
        for emptying in emptied
        if emptying.to is not None and captures(emptying.to)
    )
    return (
        *renamed,
        *(
            Incomplete(
                change.collection,
                Cause.GAP,
                _shown(change.at),
                change.why.value,
            )
            for change in left_out
        ),
    )


def letters(left_out: Sequence[LeftOut]) -> dict[CollectionId, Letters]:
    """The dead letters of changes left out or emitted in part: one line each."""
    lines: dict[CollectionId, list[bytes]] = {}
    for change in left_out:
        line = {"position": _shown(change.at), "operation": change.operation, "id": change.id_json}
        lines.setdefault(change.collection, []).append(orjson.dumps(line))
    return {name: _kept(encoded) for name, encoded in lines.items()}


def _kept(lines: Sequence[bytes]) -> Letters:
    return Letters(len(lines), sum(map(len, lines)), lambda: lines)


def _shown(at: tuple[int, int]) -> str:
    """A cluster time in the shell's notation."""
    return f"Timestamp({at[0]}, {at[1]})"
