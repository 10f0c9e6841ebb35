"""What no event tells of, and what becomes of it: documents that renames bring, and changes left out.

Pure. A collection that was renamed onto lacks documents until a snapshot sends them, and one that runs begins
anew. Documents that a drop or a rename takes away are told of by nobody, and no snapshot makes up for that:
it is said, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from engine.isolation.incomplete import Cause, Incomplete, Letters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from adapters.mongodb.events.decode import Emptied, LeftOut
    from engine.model import CollectionId

    Captures = Callable[[CollectionId], bool]


def replaced(emptied: Iterable[Emptied]) -> dict[CollectionId, tuple[int, ...]]:
    """Collections that were renamed onto, with the cluster time of the last rename: `Encoded.replaced`."""
    return {one.to: one.at for one in emptied if one.to is not None}


def taken_away(emptied: Emptied, captures: Captures) -> str:
    """What consumers keep of a collection that is not there any more, in a line; empty for others' ones."""
    if emptied.collection is None or not captures(emptied.collection):
        return ""  # the collections of a database were dropped one by one before
    what = "dropped" if emptied.to is None else f"renamed to {emptied.to}"
    return (
        f"{emptied.collection} was {what} at {_shown(emptied.at)}: the log has no deletes of its documents,"
        " so consumers keep them"
    )


def incomplete(
    emptied: Iterable[Emptied], left_out: Iterable[LeftOut], captures: Captures
) -> tuple[Incomplete, ...]:
    """The collections whose copies lack something since."""
    renamed = (
        Incomplete(
            one.to,
            Cause.GAP,
            _shown(one.at),
            f"{one.collection} was renamed to it, and the log has none of its documents; consumers keep those"
            " that were there before",
        )
        for one in emptied
        if one.to is not None and captures(one.to)
    )
    return (
        *renamed,
        *(
            Incomplete(
                one.collection,
                Cause.GAP,
                _shown(one.at),
                one.why.value,
            )
            for one in left_out
        ),
    )


def letters(left_out: Sequence[LeftOut]) -> dict[CollectionId, Letters]:
    """What is kept of changes that are left out, or told of in part: a line each."""
    lines: dict[CollectionId, list[bytes]] = {}
    for one in left_out:
        line = {"position": _shown(one.at), "operation": one.operation, "id": one.id_json}
        lines.setdefault(one.collection, []).append(orjson.dumps(line))
    return {name: _kept(found) for name, found in lines.items()}


def _kept(lines: Sequence[bytes]) -> Letters:
    return Letters(len(lines), sum(map(len, lines)), lambda: lines)


def _shown(at: tuple[int, int]) -> str:
    """A cluster time, as the shell writes it."""
    return f"Timestamp({at[0]}, {at[1]})"
