"""Names that stand for several collections, such as a partitioned table for its partitions. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.model import ExecuteSnapshot, PauseSnapshot, ResumeSnapshot, StopSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.model import CollectionId, Command

    Groups = Mapping[CollectionId, Sequence[CollectionId]]


def expand_groups(command: Command, groups: Groups) -> Command:
    """The command with each group's name replaced by its collections, every collection once."""
    match command:
        case ExecuteSnapshot():
            targets = [
                replace(target, collection=collection)
                for target in command.targets
                for collection in groups.get(target.collection, (target.collection,))
            ]
            first = {target.collection: target for target in reversed(targets)}
            kept = dict.fromkeys(first[target.collection] for target in targets)
            return replace(command, targets=tuple(kept))
        case StopSnapshot() | PauseSnapshot() | ResumeSnapshot() if (
            named := command.collections
        ) is not None:
            return replace(command, collections=_members(named, groups))
        case _:
            return command


def _members(named: Iterable[CollectionId], groups: Groups) -> tuple[CollectionId, ...]:
    return tuple(dict.fromkeys(collection for name in named for collection in groups.get(name, (name,))))
