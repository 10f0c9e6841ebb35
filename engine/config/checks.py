"""Checks across properties: what is missing, what contradicts itself, and what can't be run yet.

Each check yields one line per fault; none stops at the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.config.directories import staged_over
from engine.config.http import http_problems
from engine.config.notifications import incomplete_notifications
from engine.config.settings import SnapshotMode, Watermarking

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.config.plugins import Connector
    from engine.config.properties.values import Values


def problems(values: Values, connector: Connector, signals: Iterable[str]) -> Iterator[str]:
    """Yield the faults that involve more than one property. `signals` are those of the signal channels."""
    yield from _missing(values)
    yield from connector.problems(values)
    yield from _snapshotter(values)
    yield from _watermarking(values)
    yield from signals
    yield from incomplete_notifications(values)
    yield from http_problems(values)
    for name in ("tidemark.checkpoint", "tidemark.dead.letter.dir"):
        yield from staged_over(values, name)


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
