"""The format of a sink's tables, and what it needs of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.lakehouse.settings import LakeFormat
from adapters.lakehouse.tables import delta, iceberg

if TYPE_CHECKING:
    from adapters.lakehouse.settings import LakeSettings
    from adapters.lakehouse.tables.spark_tables import Dialect

LONGEST: Final = 200
"""Bytes of a part of a table's name, which is a directory's."""
_EXTENSIONS: Final = "spark.sql.extensions"


def dialect_of(kind: LakeFormat, settings: LakeSettings, application: str, epoch: int = 0) -> Dialect:
    """What writes tables of this kind, for the job of this name and epoch."""
    if kind is LakeFormat.DELTA:
        return delta.Delta(application, settings.warehouse, settings.catalog)
    if settings.catalog:
        return iceberg.Iceberg(application, settings.catalog, epoch=epoch)
    conf = iceberg.catalog_settings(settings.warehouse)
    return iceberg.Iceberg(application, conf=conf, epoch=epoch)


def package_of(kind: LakeFormat) -> str:
    """The package that Spark needs for tables of this kind."""
    return delta.PACKAGE if kind is LakeFormat.DELTA else iceberg.PACKAGE


def session_settings(lake: LakeSettings, given: dict[str, str]) -> dict[str, str]:
    """Spark's settings that are given, with those that a sink needs; extensions are added to each other."""
    needed = dict(delta.SESSION)
    if lake.format is LakeFormat.ICEBERG:
        needed = {_EXTENSIONS: iceberg.EXTENSION}
        if not lake.catalog:
            needed |= iceberg.catalog_settings(lake.warehouse)
    extensions = dict.fromkeys(filter(None, (given.get(_EXTENSIONS), needed[_EXTENSIONS])))
    return {**needed, **given, _EXTENSIONS: ",".join(extensions)}
