"""The settings of the sinks `delta` and `iceberg`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from engine.config.sinks.settings import SchemaEvolution, TopicRecreated
from engine.config.text.hidden import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class LakeFormat(StrEnum):
    """The format of the tables. Each has a sink of its name."""

    DELTA = "delta"
    ICEBERG = "iceberg"


class TableMode(StrEnum):
    """`tidemark.sink.lake.mode`: whether a table has the source's rows, or each change as a row."""

    REPLICA = "replica"
    APPEND = "append"


class TypeChange(StrEnum):
    """`tidemark.sink.lake.type.change`: where the values of a column go that its type can't hold any more."""

    REFUSE = "refuse"
    COLUMN = "column"


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """Where tables are, how they are named, and how kept.

    - `warehouse` is a directory or URI, `catalog` a catalog of the session; one of them may be empty
    - `table_format` gives the name of a collection's table; a dot separates its namespace
    - `journal` is the directory of turns that are to be merged; empty: within the checkpoint
    - `properties` are those of new tables; `partitions` and `clusters` have columns or transforms by table
    - `upkeep_s` and `retention_s`: how often tables are tended, and how long old snapshots are kept; 0: not
    """

    format: LakeFormat = LakeFormat.DELTA
    warehouse: str = ""
    catalog: str = ""
    table_format: str = ""
    mode: TableMode = TableMode.REPLICA
    evolution: SchemaEvolution = SchemaEvolution.BASIC
    type_change: TypeChange = TypeChange.REFUSE
    recreated: TopicRecreated = TopicRecreated.WARN
    journal: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, str] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    upkeep_s: float = 0.0
    retention_s: float = 0.0

    @property
    def location(self) -> str:
        """Where the tables are, for people."""
        return self.warehouse or f"the catalog {self.catalog}"

    @property
    def shown(self) -> str:
        """The sink and where its tables are, for people."""
        return f"{self.format}, tables in {without_secrets(self.location)}"

    def datasets(self, _topics: Iterable[str], /) -> list[tuple[str, str]]:
        """The warehouse; none if a catalog knows where it is."""
        if not self.warehouse:
            return []
        place = urlsplit(self.warehouse)
        return [(f"{place.scheme}://{place.netloc}" if place.scheme else "file", place.path)]
