"""Finds the snapshotter: a mode, or the class that `snapshot.mode=custom` names.

A user's class is found as an entry point or as `package.module:Name`.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, cast

from engine.config.settings import Recovery, SnapshotMode
from engine.errors import ConfigError
from engine.snapshot.initial import Mode, RecoveringSnapshotter

if TYPE_CHECKING:
    from engine.config.settings import SnapshotSettings
    from engine.snapshot.initial import Snapshotter

GROUP = "tidemark.snapshotters"
"""The group of the entry points."""


def snapshotter(settings: SnapshotSettings) -> Snapshotter:
    """The snapshotter that the settings name. A user's class is created without arguments.

    Raises ConfigError if there is no such class, or if it is not a snapshotter.
    """
    chosen = _chosen(settings)
    return RecoveringSnapshotter(chosen) if settings.recovery is Recovery.REPAIR else chosen


def _chosen(settings: SnapshotSettings) -> Snapshotter:
    if settings.mode is not SnapshotMode.CUSTOM:
        return Mode(settings.mode)
    name = settings.custom_name
    try:
        made = _class(name)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(f"the snapshotter {name!r} can't be made: {error}", hint=_hint()) from error
    lacking = [
        method for method in ("should_snapshot", "should_stream", "statement") if not hasattr(made, method)
    ]
    if lacking:
        raise ConfigError(f"{name!r} is no snapshotter: it has no {', '.join(lacking)}")
    return cast("Snapshotter", made)


def _class(name: str) -> type:
    known = {entry_point.name: entry_point for entry_point in metadata.entry_points(group=GROUP)}
    if name in known:
        return cast("type", known[name].load())
    module, separator, attribute = name.partition(":")
    if not separator:
        raise ImportError("no entry point of that name")
    return cast("type", getattr(import_module(module), attribute))


def _hint() -> str:
    known = (
        ", ".join(sorted(entry_point.name for entry_point in metadata.entry_points(group=GROUP))) or "none"
    )
    return f"give package.module:Name, or an entry point of group {GROUP}; known: {known}"
