from __future__ import annotations

import pytest

from adapters.lakehouse.settings import LakeFormat, LakeSettings, TableMode, TypeChange
from engine.config import parse
from engine.config.sinks.settings import SchemaEvolution
from engine.errors import ConfigError
from tests.unit.engine.config.least import POSTGRES

PREFIX = "tidemark.sink.lake."
GIVEN = {
    **{name: value for name, value in POSTGRES.items() if name != "tidemark.sink.files.dir"},
    "tidemark.sink": "delta",
    f"{PREFIX}warehouse": "s3a://lake/shop/",
}


def test_a_warehouse_is_enough():
    lake = parse(GIVEN).sink_as(LakeSettings)

    assert (lake.warehouse, lake.catalog, lake.table_format) == ("s3a://lake/shop", "", "${topic}")
    assert (lake.mode, lake.evolution, lake.type_change) == (
        TableMode.REPLICA,
        SchemaEvolution.BASIC,
        TypeChange.REFUSE,
    )
    assert lake.journal == "/c/lake"
    assert (lake.upkeep_s, lake.retention_s) == (300, 0)


def test_settings_are_read():
    lake = parse(
        {
            **GIVEN,
            "tidemark.sink": "iceberg",
            f"{PREFIX}mode": "append",
            f"{PREFIX}type.change": "column",
            f"{PREFIX}table.property.write.format.default": "orc",
            f"{PREFIX}partitioning.public.orders": "days(at)",
            f"{PREFIX}clustering.orders": "id",
            f"{PREFIX}upkeep.interval.ms": "60000",
        }
    ).sink_as(LakeSettings)

    assert (lake.mode, lake.type_change) == (TableMode.APPEND, TypeChange.COLUMN)
    assert lake.properties == {"write.format.default": "orc"}
    assert (lake.partitions, lake.clusters) == ({"public.orders": "days(at)"}, {"orders": "id"})
    assert lake.upkeep_s == 60
    assert lake.format is LakeFormat.ICEBERG


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({f"{PREFIX}warehouse": ""}, "missing 'tidemark.sink.lake.warehouse'"),
        ({"tidemark.checkpoint": "s3a://state/shop"}, "missing 'tidemark.sink.lake.journal.dir'"),
        ({"tidemark.checkpoint": ""}, "missing 'tidemark.checkpoint'"),
        ({f"{PREFIX}mode": "both"}, "tidemark.sink.lake.mode"),
    ],
)
def test_what_is_missing_or_wrong_is_told(changes: dict[str, str], problem: str):
    with pytest.raises(ConfigError) as caught:
        parse({**GIVEN, **changes})

    assert any(problem in complaint for complaint in caught.value.problems)


def test_a_catalog_or_a_journal_of_its_own_will_do():
    given = {**GIVEN, f"{PREFIX}warehouse": "", f"{PREFIX}catalog": "prod"}
    given |= {"tidemark.checkpoint": "s3a://state/shop", f"{PREFIX}journal.dir": "file:///data/journal"}

    lake = parse(given).sink_as(LakeSettings)

    assert (lake.catalog, lake.journal, lake.location) == ("prod", "/data/journal", "the catalog prod")


def test_operations_that_are_skipped_are_warned_of():
    warned = "\n".join(parse(GIVEN).warnings)

    assert "'skipped.operations' leaves out t" in warned
    assert "skipped.operations" not in "\n".join(parse({**GIVEN, "skipped.operations": "none"}).warnings)


def test_settings_of_another_sink_are_without_effect():
    given = {**POSTGRES, f"{PREFIX}warehouse": "/lake"}

    assert "tidemark.sink.lake.warehouse (tidemark.sink is neither delta nor iceberg)" in "\n".join(
        parse(given).warnings
    )
