"""The format of a sink's tables, and what it needs of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.lakehouse.tables import delta, iceberg
from engine.config.sinks.settings import LAKES, SinkKind

if TYPE_CHECKING:
    from adapters.lakehouse.tables.spark_tables import Dialect
    from engine.config.sinks.settings import LakeSettings, SinkSettings

LONGEST: Final = 200
"""Bytes of a part of a table's name, which is a directory's."""
_EXTENSIONS: Final = "spark.sql.extensions"


def dialect_of(kind: SinkKind, settings: LakeSettings, application: str, epoch: int = 0) -> Dialect:
    """What writes tables of this kind, for the job of this name and epoch."""
    if kind is SinkKind.DELTA:
        return delta.Delta(application, settings.warehouse, settings.catalog)
    if settings.catalog:
        return iceberg.Iceberg(application, settings.catalog, epoch=epoch)
    conf = iceberg.catalog_settings(settings.warehouse)
    return iceberg.Iceberg(application, conf=conf, epoch=epoch)


def packages(sink: SinkSettings) -> tuple[str, ...]:
    """The packages that Spark needs for a sink."""
    if sink.kind not in LAKES:
        return ()
    return (delta.PACKAGE if sink.kind == SinkKind.DELTA else iceberg.PACKAGE,)


def session_settings(sink: SinkSettings, given: dict[str, str]) -> dict[str, str]:
    """Spark's settings that are given, with those that a sink needs; extensions are added to each other."""
    if sink.kind not in LAKES:
        return given
    needed = dict(delta.SESSION)
    if sink.kind == SinkKind.ICEBERG:
        needed = {_EXTENSIONS: iceberg.EXTENSION}
        if not sink.lake.catalog:
            needed |= iceberg.catalog_settings(sink.lake.warehouse)
    extensions = dict.fromkeys(filter(None, (given.get(_EXTENSIONS), needed[_EXTENSIONS])))
    return {**needed, **given, _EXTENSIONS: ",".join(extensions)}
