"""A source that another package could bring: a database in memory, by `connector.class=memory`.

All that Tidemark knows of it is the entry point of the group `tidemark.sources`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from adapters.source.assembly.job import SourceJob
from adapters.source.assembly.supplied import SuppliedSource
from engine.config.plugins import Connector, SourceSettings
from engine.config.properties.row import APPLIED, Catalogue, Property
from engine.config.properties.shapes import TABLE_NAME, TEXT, choice, whole
from engine.config.settings import SnapshotMode, Watermarking
from engine.config.sources import relational
from tests.memory_source import MemoryDatabase, MemorySource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from adapters.source.assembly.supplied import Locations
    from engine.config.properties.values import Values
    from engine.config.settings import Settings
    from engine.ports.source import Source

DATABASES: dict[str, MemoryDatabase] = {}


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Which database, and how many entries a span has."""

    database: str
    span_rows: int


ROWS = relational.rows(
    (
        Property("memory.database", APPLIED, "the database in memory", TEXT, required=True),
        Property("memory.span.rows", APPLIED, "entries of a span, at most", whole(1, 100), "3"),
        Property("snapshot.mode", APPLIED, "the initial snapshot", choice(SnapshotMode), "never"),
        Property("signal.data.collection", APPLIED, "the table of signals", TABLE_NAME),
        Property(
            "incremental.snapshot.watermarking.strategy",
            APPLIED,
            "how windows relate to the log",
            choice(Watermarking),
            "visibility",
        ),
    )
)


def read(values: Values) -> SourceSettings:
    own = MemorySettings(values.get("memory.database", str), values.get("memory.span.rows", int))
    capture, snapshot = relational.capture_settings(values), relational.snapshot_settings(values)
    return SourceSettings(relational.event_settings(values, own.database, ""), own, capture, snapshot)


def problems(values: Values) -> Iterable[str]:
    if values.get("memory.database", str) == "disk":
        yield "'memory.database' is 'disk', which is no memory"


CONNECTOR = Connector(__name__, Catalogue(ROWS), read, problems=problems)


def _wired(settings: Settings, _spark: SparkSession, locations: Locations) -> SuppliedSource:
    own = settings.source
    assert isinstance(own, MemorySettings)
    source = MemorySource(DATABASES[own.database], locations.staging, span_rows=own.span_rows)
    return SuppliedSource(cast("Source", source), lambda: None, str)


JOB = SourceJob(_wired)
run, building = JOB.run, JOB.building
