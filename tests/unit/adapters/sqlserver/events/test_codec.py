"""A table's codec follows from its description and the settings, by names without the database's."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pyarrow as pa
import pytest

from adapters.sqlserver.events.codec import codec_for
from adapters.sqlserver.events.source_block import ReadPosition, read_source
from adapters.sqlserver.server.rows import row_shape
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.server.tsql import row_text
from engine.events.settings import ColumnMask, EventSettings
from engine.events.values.text import join
from engine.model import CollectionId
from tests.unit.adapters.sqlserver.changed import CUSTOMERS, PLAIN

TABLE = Table(
    CollectionId(("testDB", "dbo", "t")),
    (
        Column("id", 1, "int", nullable=False, default="((7))", identity=True),
        Column("name", 2, "nvarchar", 20, nullable=False, default="(N'x')"),
        Column("price", 3, "decimal", 0, 10, 2, default="((1.5))"),
        Column("odd", 4, "sql_variant"),
        Column("total", 5, "int", nullable=False, computed=True, default="((1))"),
    ),
    ("id",),
)


def row(settings: EventSettings, *texts: str | None, table: Table = TABLE) -> dict[str, object]:
    columns = [pa.array([text], pa.large_string()) for text in texts]
    made = codec_for(table, settings).row(columns)
    found: dict[str, object] = orjson.loads(join(made.pieces, 1)[0].as_py())
    return found


def test_topics_and_schemas_have_the_databases_name_and_are_avros_where_asked():
    codec = codec_for(
        Table(CollectionId(("my db", "dbo", "t-1")), TABLE.columns[:1], ("id",)),
        EventSettings("server1", "my db"),
    )

    assert codec.topic == "server1.my_db.dbo.t-1"
    schema = orjson.loads(codec.value_affixes[0] + "null}")["schema"]
    assert schema["name"] == "server1.my_db.dbo.t-1.Envelope"
    assert schema["fields"][2]["name"] == "io.debezium.connector.sqlserver.Source"
    assert [field["field"] for field in schema["fields"][2]["fields"]] == [
        *("version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "schema", "table"),
        *("change_lsn", "commit_lsn", "event_serial_no"),
    ]


def test_a_type_that_nobody_can_show_is_left_out_with_a_warning():
    codec = codec_for(TABLE, PLAIN)

    assert codec.columns == ("id", "name", "price", "total")
    assert codec.warnings == ("column 'odd' is left out: nothing can be made of its type sql_variant",)


def test_defaults_stand_in_schemas_but_not_those_of_computed_columns():
    schemas = {field.name: field.schema for field in codec_for(TABLE, PLAIN).fields}

    assert {name: schema.default for name, schema in schemas.items()} == {
        "id": "7",
        "name": '"x"',
        "price": '"AJY="',
        "total": None,
    }
    assert [schema.optional for schema in schemas.values()] == [False, False, True, True]
    assert row(PLAIN, "1", "a", None, "9") == {"id": 1, "name": "a", "price": "AJY=", "total": None}
    bare = replace(PLAIN, replace_null_with_default=False)
    assert row(bare, "1", "a", None, None)["price"] is None


def test_lists_and_masks_name_columns_by_schema_and_table():
    hidden = replace(PLAIN, exclude_columns=(r"dbo\.t\.price", r"testDB\.dbo\.t\.name"))
    masked = replace(PLAIN, masks=(ColumnMask((r"dbo\.t\.(name|price)",), 3),))

    assert row(hidden, "1", "a", "1.00", None) == {"id": 1, "name": "a", "total": None}
    assert row(masked, "1", "secret", "1.00", None)["name"] == "***"
    assert codec_for(TABLE, masked).warnings[1:] == ("column 'price' is not masked: a decimal is no text",)


def test_a_key_is_the_tables_the_settings_or_none():
    chosen = replace(PLAIN, message_keys=(r"dbo\.t.name", r"dbo\.t.price"))
    bare = replace(TABLE, primary_key=())
    unique = replace(bare, unique_key=("name",))

    assert [field.name for field in codec_for(TABLE, PLAIN).key] == ["id"]
    assert [field.name for field in codec_for(TABLE, chosen).key] == ["name", "price"]
    assert codec_for(TABLE, chosen).merge_key == (0,)
    assert [field.name for field in codec_for(unique, PLAIN).key] == ["name"]
    assert (codec_for(bare, PLAIN).key, codec_for(bare, PLAIN).merge_key) == ((), ())
    assert codec_for(bare, PLAIN, merge_key=("price", "id")).merge_key == (2, 0)


def test_a_key_that_the_log_lacks_merges_nothing():
    missing = replace(TABLE, primary_key=("id", "elsewhere"))

    assert codec_for(missing, PLAIN).merge_key == ()
    assert [field.name for field in codec_for(missing, PLAIN).key] == ["id"]


@pytest.mark.parametrize(
    "settings",
    [
        replace(PLAIN, propagate_columns=(r"dbo\.t\.price",)),
        replace(PLAIN, propagate_types=(r"dbo\.t\.decimal",)),
    ],
)
def test_the_sources_type_is_propagated_as_the_driver_tells_it(settings):
    schemas = {field.name: field.schema for field in codec_for(TABLE, settings).fields}

    assert schemas["price"].parameters[2:] == (
        ("__debezium.source.column.type", "DECIMAL"),
        ("__debezium.source.column.length", "10"),
        ("__debezium.source.column.scale", "2"),
    )
    assert schemas["name"].parameters == ()


def test_signals_are_those_of_the_signal_table_or_of_any_that_the_caller_names():
    settings = replace(PLAIN, signal_collection="testDB.dbo.t")

    assert codec_for(TABLE, settings).signal
    assert not codec_for(CUSTOMERS, settings).signal
    assert codec_for(CUSTOMERS, settings, signal=True).signal


def test_rows_that_are_read_say_where_the_stream_stands():
    position = ReadPosition(5, "00000025:00000d98:00a2", "00000025:00000d98:0003", 2)
    whole = orjson.loads(read_source(PLAIN, CUSTOMERS.id, position))
    initial = orjson.loads(
        read_source(PLAIN, CUSTOMERS.id, ReadPosition(5, "00000025:00000d98:00a2", snapshot="true"))
    )

    assert whole["snapshot"] == "incremental"
    assert (whole["commit_lsn"], whole["change_lsn"], whole["event_serial_no"]) == (
        "00000025:00000d98:00a2",
        "00000025:00000d98:0003",
        2,
    )
    assert (initial["snapshot"], initial["change_lsn"], initial["event_serial_no"]) == ("true", None, None)


def test_a_rows_shape_flags_what_can_be_null_and_empty_even_if_only_the_log_says_so():
    table = Table(
        CollectionId(("d", "s", "t")),
        (
            Column("a", 1, "nvarchar", 9),
            Column("b", 2, "nvarchar", 9, nullable=False),
            Column("c", 3, "varbinary", -1, nullable=False),
            Column("d", 4, "int"),
            Column("e", 5, "varchar", 9, nullable=False, computed=True),
            Column("f", 6, "sql_variant"),
            Column("g", 7, "int", nullable=False),
        ),
    )
    shape = row_shape(table)

    assert shape.columns == ("a", "b", "c", "d", "e", "g")
    assert shape.nullable == (True, False, True, True, True, False)
    assert [shape.columns[at] for at in shape.flagged] == ["a", "c", "e"]
    expression = row_text(tuple(column for column in table.columns if column.name != "f"))
    assert expression.count("IS NULL") == len(shape.flagged)
