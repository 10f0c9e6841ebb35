"""Checks across properties: what is missing, what contradicts itself, and what can't be run yet.

Each check yields one line per fault; none stops at the first.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from engine.config.http import http_problems
from engine.config.notifications import incomplete_notifications
from engine.config.settings import SnapshotMode, Watermarking
from engine.config.sinks.settings import LAKES, SinkKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from engine.config.plugins import Connector
    from engine.config.properties.values import Values

_CHECKPOINT, _EVENTS, _STAGING = "tidemark.checkpoint", "tidemark.sink.files.dir", "tidemark.staging.dir"
_DIRECTORIES = (_CHECKPOINT, _EVENTS, _STAGING, "tidemark.dead.letter.dir")


def problems(
    values: Values,
    connector: Connector,
    *,
    signals: Iterable[str],
    kafka: Iterable[str],
    jdbc: Iterable[str],
    lake: Iterable[str],
) -> Iterator[str]:
    """Yield the faults that involve more than one property.

    `signals`, `kafka`, `jdbc` and `lake` are those that reading the settings of the channels and of these
    sinks has found.
    """
    yield from _missing(values)
    yield from connector.problems(values)
    yield from _snapshotter(values)
    yield from _watermarking(values)
    yield from signals
    yield from incomplete_notifications(values)
    yield from http_problems(values)
    yield from _sink(values, {SinkKind.KAFKA: kafka, SinkKind.JDBC: jdbc, **dict.fromkeys(LAKES, lake)})
    yield from _overlaps(values)


def _missing(values: Values) -> Iterator[str]:
    for known in values.catalogue.rows:
        if known.required and known.name not in values.given and not _old_name_given(values, known.name):
            yield f"missing {known.name!r}: {known.text}"


def _old_name_given(values: Values, name: str) -> bool:
    """Whether another problem already says that this property has a new name."""
    return any(old.text == name and old.name in values.given for old in values.catalogue.rows)


def _snapshotter(values: Values) -> Iterator[str]:
    named = values.get("snapshot.mode.custom.name", str) or values.get("snapshot.custom.class", str)
    if values.get("snapshot.mode", SnapshotMode) is SnapshotMode.CUSTOM and not named:
        yield "missing 'snapshot.custom.class': the snapshotter of 'snapshot.mode' 'custom'"


def _watermarking(values: Values) -> Iterator[str]:
    """If signal rows are the default, a missing signal table refuses snapshots but not the job."""
    if "incremental.snapshot.watermarking.strategy" not in values.given:
        return
    strategy = values.get("incremental.snapshot.watermarking.strategy", Watermarking)
    writes = strategy is not Watermarking.VISIBILITY and not values.get("read.only", bool)
    if writes and "signal.data.collection" not in values.given:
        yield (
            f"'incremental.snapshot.watermarking.strategy' is {strategy.value!r},"
            " which needs 'signal.data.collection'"
        )


def _overlaps(values: Values) -> Iterator[str]:
    """Directories for different things must differ, and the staging directory must not contain the others."""
    places = {name: path for name in _DIRECTORIES if (path := _local(values.get(name, str)))}
    staging = places.pop(_STAGING, None)
    checkpoint, events = places.get(_CHECKPOINT), places.get(_EVENTS)
    if checkpoint is not None and checkpoint == events:
        yield f"{_CHECKPOINT!r} and {_EVENTS!r} are the same directory; give each its own"
    for name, path in places.items():
        if staging is not None and path.is_relative_to(staging):
            yield f"{_STAGING!r} holds {name!r}; give it a directory of its own"
    if staging is not None and events is not None and staging != events and staging.is_relative_to(events):
        yield f"{_STAGING!r} lies in {_EVENTS!r}; give it a directory of its own"


def _local(place: str) -> Path | None:
    """A directory on this machine; None for anything else."""
    found = urlparse(place)
    if not place or found.scheme not in {"", "file"}:
        return None
    return Path(os.path.abspath(found.path))  # noqa: PTH100  links are not followed


def _sink(values: Values, found: Mapping[SinkKind, Iterable[str]]) -> Iterator[str]:
    """Sinks that keep events need a checkpoint, and a place of their own. `found` has each one's problems."""
    kind = values.get("tidemark.sink", str)
    if kind not in {SinkKind.FILES, *found} or not values.sure("tidemark.sink"):
        return
    needed = {"tidemark.checkpoint": "a directory or URI for the job's saved state"}
    if kind == SinkKind.FILES:
        needed["tidemark.sink.files.dir"] = "the directory that the sink 'files' writes to"
    yield from found.get(SinkKind(kind), ())
    for name, meaning in needed.items():
        if values.sure(name) and not values.get(name, str):
            yield f"missing {name!r}: {meaning}"
