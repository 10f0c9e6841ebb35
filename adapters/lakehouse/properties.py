"""The properties of the sinks `delta` and `iceberg`, and the settings that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from adapters.lakehouse.settings import LakeFormat, LakeSettings, TableMode, TypeChange
from engine.config.plugins import SinkType
from engine.config.properties.row import APPLIED, Property
from engine.config.properties.shapes import TEXT, choice, whole
from engine.config.sinks.every_sink import RECREATED, inexact_copies, need_checkpoint, recreated
from engine.config.sinks.settings import SchemaEvolution
from engine.config.sinks.table_names import NAME_FORMAT, TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.config.properties.values import Values
    from engine.events.settings import EventSettings

_PREFIX: Final = "tidemark.sink.lake."
_WAREHOUSE, _CATALOG, _JOURNAL = f"{_PREFIX}warehouse", f"{_PREFIX}catalog", f"{_PREFIX}journal.dir"
FORMAT: Final = f"{_PREFIX}collection.name.format"
EVOLUTION: Final = f"{_PREFIX}schema.evolution"
TYPE_CHANGE: Final = f"{_PREFIX}type.change"
_MODE: Final = f"{_PREFIX}mode"
_PROPERTIES: Final = f"{_PREFIX}table.property.<name>"
_PARTITIONS, _CLUSTERS = f"{_PREFIX}partitioning.<table>", f"{_PREFIX}clustering.<table>"
_UPKEEP, _RETENTION = f"{_PREFIX}upkeep.interval.ms", f"{_PREFIX}snapshot.retention.ms"

_MS: Final = whole(0, 2**31 - 1)

ROWS: Final = (
    Property(_WAREHOUSE, APPLIED, "directory or URI of the tables of the sinks delta and iceberg", TEXT),
    Property(
        _CATALOG,
        APPLIED,
        "catalog of the tables of the sinks delta and iceberg, set up by tidemark.spark.conf.*; without it,"
        " tables are found by their directories in the warehouse",
        TEXT,
    ),
    Property(
        FORMAT,
        APPLIED,
        "name of a collection's table in the lake, with or without a namespace, from ${topic}, ${source.db},"
        " ${source.schema} and ${source.table}",
        NAME_FORMAT,
        TOPIC,
    ),
    Property(
        _MODE,
        APPLIED,
        "whether a table of the lake equals its source (replica), or has a row for each change (append)",
        choice(TableMode),
        "replica",
    ),
    Property(
        EVOLUTION,
        APPLIED,
        "what to do if tables or columns are missing in the lake: create them (basic), or set their table"
        " aside (none)",
        choice(SchemaEvolution),
        "basic",
    ),
    Property(
        TYPE_CHANGE,
        APPLIED,
        "what to do if a column in the lake can't take the column's new type: set its table aside (refuse),"
        " or write new values to another column (column)",
        choice(TypeChange),
        "refuse",
    ),
    Property(
        _JOURNAL,
        APPLIED,
        "local directory of turns that wait to be merged into the lake; by default, one in the checkpoint",
        TEXT,
    ),
    Property(_PROPERTIES, APPLIED, "a property of the tables that the sink creates in the lake", TEXT),
    Property(
        _PARTITIONS,
        APPLIED,
        "what a new table in the lake is partitioned by: columns or, for iceberg, transforms of them",
        TEXT,
    ),
    Property(_CLUSTERS, APPLIED, "columns that a new table of the lake is clustered by", TEXT),
    Property(
        _UPKEEP,
        APPLIED,
        "how often small files of the lake's tables are compacted, deleted rows removed and old snapshots"
        " expired; this takes a tenth of the time at most; 0: never",
        _MS,
        "300000",
    ),
    Property(
        _RETENTION,
        APPLIED,
        "how long snapshots of the lake's tables are kept; 0: as the tables' properties say",
        _MS,
        "0",
    ),
    RECREATED,
)


def read(values: Values) -> LakeSettings:
    """Compose the settings of these sinks. Their problems are added to the others."""
    warehouse, catalog, journal = values.get(_WAREHOUSE, str), values.get(_CATALOG, str), _journal(values)
    if values.sure(_WAREHOUSE, _CATALOG) and not warehouse and not catalog:
        values.problems.append(
            f"missing {_WAREHOUSE!r}, the directory of the tables, or {_CATALOG!r}, their catalog"
        )
    if values.get("tidemark.checkpoint", str) and not journal:
        values.problems.append(
            f"missing {_JOURNAL!r}: the checkpoint is on no local disk, where turns could wait to be merged"
        )
    need_checkpoint(values)
    return LakeSettings(
        format=LakeFormat(values.get("tidemark.sink", str)),
        warehouse=warehouse.rstrip("/"),
        catalog=catalog,
        table_format=values.get(FORMAT, str),
        mode=values.get(_MODE, TableMode),
        evolution=values.get(EVOLUTION, SchemaEvolution),
        type_change=values.get(TYPE_CHANGE, TypeChange),
        recreated=recreated(values),
        journal=journal,
        properties=_group(values, _PROPERTIES),
        partitions=_group(values, _PARTITIONS),
        clusters=_group(values, _CLUSTERS),
        upkeep_s=values.get(_UPKEEP, int) / 1000,
        retention_s=values.get(_RETENTION, int) / 1000,
    )


def _group(values: Values, name: str) -> dict[str, str]:
    return {parts[0]: cast("str", value) for parts, value in values.group(name)}


def _journal(values: Values) -> str:
    """The directory that is given, or one in the checkpoint; empty if that is not on a local disk."""
    given, checkpoint = values.get(_JOURNAL, str), values.get("tidemark.checkpoint", str)
    place = urlsplit(given or (checkpoint and f"{checkpoint.rstrip('/')}/lake"))
    return place.path if place.scheme in {"", "file"} else ""


def _warnings(settings: LakeSettings, events: EventSettings) -> Iterable[str]:
    return inexact_copies(events) if settings.mode is TableMode.REPLICA else ()


SINK: Final = SinkType(ROWS, read, "adapters.source.sinks.lakehouse", _warnings)
