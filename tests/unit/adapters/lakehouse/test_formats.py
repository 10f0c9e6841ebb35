from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.lake.table_name import TableName
from adapters.lakehouse.formats import dialect_of, package_of, session_settings
from adapters.lakehouse.port import NewTable
from adapters.lakehouse.settings import LakeFormat, LakeSettings
from adapters.lakehouse.tables import delta, iceberg
from adapters.lakehouse.tables.statements import altering, literal, merging, quoted

EXTENSIONS = "spark.sql.extensions"
LAKE = LakeSettings(warehouse="/lake")
NAME = TableName("public", "orders")
TABLE = NewTable(
    {"id": "int", "day": "date", "day__text": "string"},
    ("id", "day", "day__text"),
    "it's kept",
    {"a": "b"},
    "day",
    "id",
)


def test_a_session_gets_what_the_sink_needs_beside_what_is_given():
    given = {EXTENSIONS: "Mine", "spark.x": "1"}

    made = session_settings(LAKE, given)
    assert made[EXTENSIONS] == "Mine,io.delta.sql.DeltaSparkSessionExtension"
    assert made["spark.x"] == "1"
    made = session_settings(replace(LAKE, format=LakeFormat.ICEBERG), {})
    assert made["spark.sql.catalog.tidemark.warehouse"] == "/lake"
    mine = LakeSettings(LakeFormat.ICEBERG, catalog="prod")
    assert session_settings(mine, {}) == {EXTENSIONS: iceberg.EXTENSION}


@pytest.mark.parametrize(
    ("kind", "expected"), [(LakeFormat.DELTA, delta.PACKAGE), (LakeFormat.ICEBERG, iceberg.PACKAGE)]
)
def test_only_the_format_of_the_sink_is_downloaded(kind: LakeFormat, expected: str):
    assert package_of(kind) == expected


def test_a_delta_table_is_found_by_its_directory_or_its_name():
    (created,) = dialect_of(LakeFormat.DELTA, LAKE, "job").create(NAME, TABLE)

    assert created.startswith(
        "CREATE TABLE IF NOT EXISTS delta.`/lake/public/orders`"
        " (`id` int NOT NULL, `day` date, `day__text` string) USING delta"
        " PARTITIONED BY (day) CLUSTER BY (id)"
    )
    assert "COMMENT 'it\\'s kept'" in created
    assert "'tidemark.key' = 'id,day,day__text', 'a' = 'b'" in created
    named = dialect_of(LakeFormat.DELTA, LakeSettings(catalog="prod"), "job").create(NAME, TABLE)
    assert named[0] == "CREATE NAMESPACE IF NOT EXISTS `prod`.`public`"
    assert named[1].startswith("CREATE TABLE IF NOT EXISTS `prod`.`public`.`orders` (")


def test_an_iceberg_table_is_found_in_a_catalog():
    space, created, ordered = dialect_of(LakeFormat.ICEBERG, LAKE, "job").create(NAME, TABLE)

    assert space == "CREATE NAMESPACE IF NOT EXISTS `tidemark`.`public`"
    assert created.startswith("CREATE TABLE IF NOT EXISTS `tidemark`.`public`.`orders` (`id` int NOT NULL")
    assert "'write.merge.mode' = 'merge-on-read'" in created
    assert ordered == "ALTER TABLE `tidemark`.`public`.`orders` WRITE ORDERED BY id"


def test_iceberg_s_types_have_no_small_integers():
    column_type = dialect_of(LakeFormat.ICEBERG, LAKE, "job").column_type

    assert column_type("smallint") == "int"
    assert column_type("array<smallint>") == "array<int>"
    assert column_type("struct<smallint:smallint,b:string>") == "struct<smallint:int,b:string>"
    assert dialect_of(LakeFormat.DELTA, LAKE, "job").column_type("smallint") == "smallint"


def test_what_each_format_can_widen():
    tables, snapshots = (dialect_of(kind, LAKE, "job") for kind in (LakeFormat.DELTA, LakeFormat.ICEBERG))

    for dialect in (tables, snapshots):
        assert dialect.widens("int", "bigint")
        assert dialect.widens("decimal(10,2)", "decimal(12,2)")
        assert not dialect.widens("bigint", "int")
        assert not dialect.widens("int", "string")
    assert tables.widens("decimal(10,2)", "decimal(12,3)")
    assert not snapshots.widens("decimal(10,2)", "decimal(12,3)")


def test_statements_quote_every_name_and_text():
    assert quoted("a`b") == "`a``b`"
    assert literal("a'\\b") == "'a\\'\\\\b'"
    zoned = altering("t", {"at": "timestamp", "s": "struct<timestamp:timestamp_ntz>"}, {})
    assert zoned == ["ALTER TABLE t ADD COLUMNS (`at` timestamp_ltz, `s` struct<timestamp:timestamp_ntz>)"]
    assert altering("t", {"a`": "int"}, {"b": "bigint"}) == [
        "ALTER TABLE t ADD COLUMNS (`a``` int)",
        "ALTER TABLE t ALTER COLUMN `b` TYPE bigint",
    ]


def test_a_merge_finds_rows_by_their_key_and_keeps_what_is_kept():
    statement = merging("t", ["id", "a", "b"], ("id",), ("b",))

    assert "ON ours.`id` <=> theirs.`id` WHEN MATCHED AND theirs.__tidemark_deleted THEN DELETE" in statement
    assert (
        "UPDATE SET ours.`a` = theirs.`a`,"
        " ours.`b` = CASE WHEN theirs.__tidemark_keep_0 THEN ours.`b` ELSE theirs.`b` END"
    ) in statement
    assert "UPDATE" not in merging("t", ["id"], ("id",), ())


def test_deletes_need_no_columns_but_the_key():
    """A repair knows no others, and a format may want a value for each."""
    merge = merging("t", ["id", "part"], ["id", "part"], [], deletes=True)

    assert merge == (
        "MERGE INTO t AS ours USING tidemark_changes AS theirs"
        " ON ours.`id` <=> theirs.`id` AND ours.`part` <=> theirs.`part` WHEN MATCHED THEN DELETE"
    )
