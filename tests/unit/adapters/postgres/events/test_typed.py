"""Typed columns hold what the records hold, for every type and every kind of event."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest

from adapters.postgres.events.codec import codec_for
from adapters.postgres.events.columns.builtin_types import BUILTIN
from adapters.postgres.events.decode import decode
from adapters.postgres.events.rows import row_shape
from adapters.postgres.events.source_block import Moment, ReadPosition, read_source
from adapters.postgres.log.timeline import SpanPart, TransactionContext
from adapters.postgres.log.touched_keys import Watch
from adapters.postgres.server.table import Column, PgType, Table, relation_of
from engine.events.batch import EventForm
from engine.events.columns import with_marker
from engine.events.record.special_decimals import special_texts
from engine.events.settings import (
    BinaryMode,
    ColumnMask,
    DecimalMode,
    HstoreMode,
    IntervalMode,
    TimeMode,
)
from engine.events.values.row_form import RowMode
from engine.events.values.text import join
from engine.model import CollectionId
from engine.staging.reads import ReadEvents
from tests.typed_records import json_value, parsed, records
from tests.unit.adapters.postgres.events.test_decode import (
    LINES,
    ORDERS,
    OTHER,
    PLAIN,
    SIGNALS,
    TABLES,
    codecs,
    run,
)
from tests.unit.adapters.postgres.messages import UNCHANGED, Log

HSTORE = PgType(90_000, "hstore")
OID = {kind.name: oid for oid, kind in {**BUILTIN, 90_000: HSTORE}.items()}
NUMERIC_12_2, NUMERIC_50_2, NUMERIC_100_2 = ((digits << 16 | 2) + 4 for digits in (12, 50, 100))
TWIN = 5
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 500_000)  # noqa: DTZ001  it has no zone
OTHERS = {
    "decimals": DecimalMode.STRING,
    "binary": BinaryMode.HEX,
    "times": TimeMode.CONNECT,
    "intervals": IntervalMode.STRING,
    "hstore": HstoreMode.MAP,
}


def typed_and_shown(
    column: Column, *texts: str | None, **settings: Any
) -> tuple[pa.Array, list[Any], list[Any]]:
    """The typed column `x`, its values as JSON has them, and the values of the JSON road."""
    table = Table(1, CollectionId(("s", "t")), "r", (column,), ())
    made = []
    for form in EventForm:
        codec = codec_for(relation_of(table), table, replace(PLAIN, form=form, **settings), {90_000: HSTORE})
        made.append(codec.row([pa.array(texts, pa.large_string())]).pieces)
    shown = [orjson.loads(text)["x"] for text in join(made[0], len(texts)).to_pylist()]
    rows: Any = made[1][0]
    schema = orjson.loads(codec.fields[0].schema.json())
    column_x = rows.field("row").field("x")
    return column_x, [json_value(value, schema) for value in column_x.to_pylist()], shown


@pytest.mark.parametrize(
    "settings", [{}, OTHERS, {"decimals": DecimalMode.DOUBLE}], ids=["default", "other", "double"]
)
@pytest.mark.parametrize(
    ("name", "typmod", "texts"),
    [
        ("int2", -1, ["-5", None, "32767"]),
        ("int4", -1, ["0", "-2147483648", None]),
        ("int8", -1, ["9223372036854775807", "-9223372036854775808"]),
        ("oid", -1, ["4294967295", None]),
        ("bool", -1, ["t", "f", None]),
        ("float4", -1, ["1.5", "NaN", "-Infinity", "1e+10", None]),
        ("float8", -1, ["1e+20", "Infinity", "0.1", "-0", None]),
        ("text", -1, ['a"b\\\n', "", "\U0001f600é", None]),
        ("bpchar", 8, ["a  ", None]),
        ("uuid", -1, ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None]),
        ("json", -1, ['{"a":"\\u00e9\\n"}', None]),
        ("bytea", -1, ["\\x", "\\xff", "\\xdead", "\\xdeadbe", "\\xdeadbeef", None]),
        ("numeric", NUMERIC_12_2, ["1.50", "-0.01", "0.00", "NaN", None, "9999999999.99", "-1.28", "1.28"]),
        ("numeric", NUMERIC_50_2, ["1.50", "-" + "9" * 48 + ".99", None]),
        ("numeric", NUMERIC_100_2, ["1.50", "-" + "9" * 98 + ".99", None]),
        ("numeric", -1, ["1.50", "-12.345", "NaN", None]),
        ("money", -1, ["$1,234.50", "-$0.01", None]),
        ("date", -1, ["1970-01-02", "0001-01-01", "9999-12-31", None]),
        ("time", -1, ["00:00:01.5", "24:00:00", None]),
        ("time", 3, ["23:59:59.999", None]),
        ("timetz", -1, ["00:00:01.5+02", None]),
        ("timestamp", -1, ["1970-01-01 00:00:01.5", "0001-01-01 00:00:00", None]),
        ("timestamp", 3, ["2024-02-29 12:00:00.123", None]),
        ("timestamptz", -1, ["1970-01-01 00:00:01.5+00", None]),
        ("interval", -1, ["1 year 2 mons 3 days 04:05:06.5", "-00:00:01", None]),
        ("bit", 1, ["1", "0", None]),
        ("bit", 12, ["000000000001", None]),
        ("point", -1, ["(1,2.5)", "(NaN,1)", None]),
        ("inet", -1, ["::1/64", None]),
        ("hstore", -1, ['"a"=>"1", "n"=>NULL', "", None]),
        ("int4range", -1, ["[1,3)", None]),
        ("_int4", -1, ["{1,NULL,3}", "{}", None]),
        ("_text", -1, ['{"a,b",NULL,"c\\"d"}', None]),
        ("_float8", -1, ["{1.5,NaN}", None]),
        ("_numeric", NUMERIC_12_2, ["{1.50,NULL,-2}", "{}", None]),
        ("_date", -1, ["{1970-01-02,NULL}", None]),
        ("_bool", -1, ["{t,f,NULL}", None]),
    ],
)
def test_a_typed_value_is_what_the_record_has(name, typmod, texts, settings):
    column, typed, shown = typed_and_shown(Column("x", OID[name], typmod), *texts, **settings)

    marks = special_texts(column) if name == "numeric" and "decimals" not in settings else None
    if marks is not None:
        assert marks.to_pylist() == [text if text == "NaN" else None for text in texts]
        typed = [None if mark else value for mark, value in zip(marks.to_pylist(), typed, strict=True)]
    assert typed == shown


@pytest.mark.parametrize(
    ("name", "typmod", "text", "kind", "value"),
    [
        ("int4", -1, "7", pa.int32(), 7),
        ("text", -1, "a", pa.large_string(), "a"),
        ("bytea", -1, "\\xdeadbeef", pa.large_binary(), b"\xde\xad\xbe\xef"),
        ("numeric", NUMERIC_12_2, "-1.50", pa.decimal128(12, 2), Decimal("-1.50")),
        ("numeric", NUMERIC_50_2, "-1.50", pa.decimal256(50, 2), Decimal("-1.50")),
        ("numeric", NUMERIC_100_2, "-1.50", pa.large_binary(), b"\xff\x6a"),
        ("money", -1, "$1.50", pa.decimal128(38, 2), Decimal("1.50")),
        ("date", -1, "2024-02-29", pa.date32(), dt.date(2024, 2, 29)),
        (
            "timestamp",
            -1,
            "2024-02-29 12:00:00.5",
            pa.timestamp("us"),
            NOON,
        ),
        (
            "timestamp",
            3,
            "2024-02-29 12:00:00.5",
            pa.timestamp("ms"),
            NOON,
        ),
        ("time", -1, "24:00:00", pa.int64(), 86_400_000_000),
        ("_int4", -1, "{1,2}", pa.list_(pa.int32()), [1, 2]),
    ],
)
def test_a_type_becomes_its_schemas_arrow_type(name, typmod, text, kind, value):
    column, _typed, _shown = typed_and_shown(Column("x", OID[name], typmod), text)

    assert (column.type, column.to_pylist()) == (kind, [value])


@pytest.mark.parametrize(
    ("column", "settings"),
    [
        (Column("x", OID["int4"], nullable=False), {}),
        (Column("x", OID["numeric"], NUMERIC_12_2, nullable=False), {}),
        (Column("x", OID["int4"], default="7"), {}),
        (Column("x", OID["text"], default="'a'::text"), {"replace_null_with_default": False}),
        (Column("x", OID["text"], nullable=False), {"masks": (ColumnMask(("s.t.x",), length=3),)}),
        (Column("x", OID["text"]), {"masks": (ColumnMask(("s.t.x",), length=2, truncate=True),)}),
    ],
    ids=["not null", "decimal not null", "default", "no default for null", "masked", "truncated"],
)
def test_what_stands_for_null_is_what_the_record_has(column, settings):
    text = "12" if column.type != OID["text"] else "abcdef"
    _column, typed, shown = typed_and_shown(column, text, None, **settings)

    assert typed == shown


def changes() -> Log:
    """Every kind of event: an unchanged value, a changed key, a truncate, entries outside of tables."""
    log = Log()
    log.begin(7)
    log.insert(ORDERS, 1, 'a "b"', None)
    log.insert(LINES, 1, "x", "long")
    log.update(ORDERS, (1, "b", 2))
    log.update(ORDERS, (1, UNCHANGED, 3))
    log.update(ORDERS, (2, "b", 2), (1, None, None))
    log.insert(OTHER, "not captured")
    log.message("m", b"content")
    log.commit()
    log.begin(8)
    log.update(LINES, (1, "y", UNCHANGED), (1, "x", "long"), "O")
    log.delete(LINES, (1, "y", None), "O")
    log.truncate(LINES, OTHER, ORDERS)
    log.insert(ORDERS, 3, None, None)
    log.commit()
    return log


@pytest.mark.parametrize("metadata", [False, True])
@pytest.mark.parametrize("most", [3, 100])
def test_columns_are_the_records(metadata, most):
    settings = replace(PLAIN, transaction_metadata=metadata)
    expected = [parsed(part.events) for part in run(changes(), settings, most=most)]
    tables = {"p.s.orders", "p.s.lines"}
    columns = run(changes(), replace(settings, form=EventForm.COLUMNS), most=most)
    for part, wanted in zip(columns, expected, strict=True):
        assert records(part.columns) == [collection for collection in wanted if collection["topic"] in tables]
        assert parsed(part.events) == [
            collection for collection in wanted if collection["topic"] not in tables
        ]
    assert sum(len(part.columns) for part in columns) >= 2


def test_tables_of_one_shape_keep_their_own_batches():
    log = Log()
    log.begin(7)
    log.insert(SIGNALS, "1", "log", None)
    log.insert(TWIN, "2", "b", None)
    log.insert(SIGNALS, "3", "log", None)
    log.commit()
    config = replace(PLAIN, form=EventForm.COLUMNS)
    twin = replace(TABLES[SIGNALS], oid=TWIN, id=CollectionId(("s", "twin")))
    known = {**codecs(config), TWIN: codec_for(relation_of(twin), twin, config, {})}
    part = SpanPart(pa.array(log.messages, pa.large_binary()), TransactionContext())
    found = decode(part, known, config, Watch(), Moment(7)).columns

    assert [batch.schema.metadata[b"topic"] for batch in found] == [b"p.s.signals", b"p.s.twin"]
    assert [[key["id"] for key in batch.column("key").to_pylist()] for batch in found] == [["1", "3"], ["2"]]


@pytest.mark.parametrize("key", [("id",), ()])
def test_rows_that_are_read_are_the_records(key):
    table = replace(TABLES[LINES], primary_key=key)
    texts = pa.array(["f\x1f1\x1fx\x1flong", "t\x1f2\x1fy\x1f"], pa.large_string())
    place = ReadPosition(5, 6, 7, snapshot="true")
    batches, affixes = [], ("", "")
    for form in EventForm:
        config = replace(PLAIN, form=form)
        codec = codec_for(relation_of(table), table, config, {})
        shape = row_shape(relation_of(table), table, {})
        events = ReadEvents(codec, shape, read_source(config, table.id, place), 9)
        batches.append(events.staged(texts, RowMode.FAST))
        affixes = codec.read_affixes(events.source_json, 9)
    shown, typed = batches
    values = join([affixes[0], shown.column("value"), affixes[1]], len(texts))
    wanted = parsed(shown.select(["topic", "key", "value", "headers"]).set_column(2, "value", values))
    for collection in wanted:
        collection.pop("topic")
    found = records([typed.drop_columns("merge_key")])

    assert [{name: value for name, value in record.items() if name != "topic"} for record in found] == wanted
    assert typed.column("merge_key") == shown.column("merge_key")
    assert typed.column("order").null_count == 2


def test_a_marker_is_in_the_source_block_of_marked_rows_only():
    config = replace(PLAIN, form=EventForm.COLUMNS)
    (part,) = run(changes(), config)
    batch = part.columns[1].slice(0, 1)
    (event,) = records([with_marker(batch, "last")])
    (plain,) = records([batch])

    assert event["value"]["source"] == {**plain["value"]["source"], "snapshot": "last"}
    assert plain["value"]["source"]["snapshot"] == "false"


def test_a_batch_tells_its_table_and_its_order():
    (part,) = run(changes(), replace(PLAIN, form=EventForm.COLUMNS))
    names = [orjson.loads(batch.schema.metadata[b"collection"]) for batch in part.columns]
    orders = [batch.column("order").to_pylist() for batch in part.columns]

    assert names == [["s", "orders"], ["s", "lines"]]
    assert [sorted(found) for found in orders] == orders
    assert len({order for found in orders for order in found}) == sum(map(len, orders))
    assert part.columns[0].column("op").to_pylist() == ["c", "u", "u", "d", None, "c", "t", "c"]
    assert part.columns[0].schema.field("key").type == pa.struct([("id", pa.int32())])
