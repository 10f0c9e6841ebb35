"""Codecs from relations and tables: what is in the key, what is in the row, what stands for NULL."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from adapters.postgres.events.codec import codec_for
from adapters.postgres.events.source_block import ReadPosition, read_source
from adapters.postgres.server.table import Column, Leaves, Table, relation_of
from engine.events.batch import EventForm
from engine.events.columns import schema_of
from engine.events.record.schema import UNTOLD, Schema
from engine.events.settings import ColumnMask, EventSettings
from engine.events.values.text import join
from engine.model import CollectionId

PLAIN = EventSettings("p", "d", key_schemas=False, value_schemas=False)
TABLE = Table(
    5,
    CollectionId(("public", "t")),
    "r",
    (
        Column("a", 23, nullable=False),
        Column("b", 25, nullable=False, default="'x'::text"),
        Column("c", 23, default="7"),
        Column("d", 25),
    ),
    primary_key=("b", "a"),
    identity_key=("b", "a"),
)


def read(
    settings: EventSettings, *rows: tuple[str | None, ...], table: Table | None = TABLE, identity: str = "d"
):
    codec = codec_for(replace(relation_of(TABLE), identity=identity), table, settings, {})
    columns = [pa.array([row[at] for row in rows], pa.large_string()) for at in range(4)]
    keys, found = codec.reads(columns)
    return [None] * len(rows) if keys is None else keys.to_pylist(), list(map(json.loads, found.to_pylist()))


def test_the_key_has_its_own_order_and_null_becomes_the_default():
    keys, rows = read(PLAIN, ("1", "k", None, None))

    assert keys == ['{"b":"k","a":1}']
    assert rows == [{"a": 1, "b": "k", "c": 7, "d": None}]


def test_a_key_beyond_the_bmp_has_the_bytes_that_jackson_writes():
    keys, rows = read(PLAIN, ("1", "k😀", None, "y😀"))

    assert keys == [r'{"b":"k\uD83D\uDE00","a":1}']
    assert rows == [{"a": 1, "b": "k😀", "c": 7, "d": "y😀"}]


def test_the_text_of_schemas_is_made_with_the_codec_and_not_again(monkeypatch):
    codec = codec_for(relation_of(TABLE), TABLE, EventSettings("p", "d"), {})
    monkeypatch.setattr(Schema, "json", lambda *_: pytest.fail("made again"))
    columns = [pa.array(["1", "2"], pa.large_string())] * 4

    keys, rows = codec.reads(columns)
    before, after = codec.read_affixes(read_source(PLAIN, TABLE.id, ReadPosition(1)), 2)

    assert keys is not None
    assert all(
        json.loads(text)["schema"]["type"] == "struct"
        for text in [*keys.to_pylist(), *(before + row + after for row in rows.to_pylist())]
    )


def test_null_stays_null_where_that_is_asked_for():
    assert read(replace(PLAIN, replace_null_with_default=False), ("1", "k", None, None))[1][0]["c"] is None


def test_without_primary_key_a_unique_index_is_the_key_or_there_is_none():
    row = ("1", "k", "2", None)

    unique = replace(TABLE, primary_key=(), unique_key=("a",))
    assert read(PLAIN, row, table=unique)[0] == ['{"a":1}']
    assert read(PLAIN, row, table=replace(TABLE, primary_key=()), identity="f")[0] == [None]
    assert read(PLAIN, row, table=replace(TABLE, columns=()), identity="f")[0] == ['{"b":"k","a":1}']


def test_a_key_that_the_catalog_has_no_more_is_the_one_that_the_log_marks():
    row = ("1", "k", "2", None)

    assert read(PLAIN, row, table=None)[0] == ['{"a":1,"b":"k"}']
    assert read(PLAIN, row, table=None, identity="f")[0] == [None]
    renamed = replace(TABLE, columns=(Column("id", 23), Column("name", 25)), primary_key=("name", "id"))
    assert read(PLAIN, row, table=renamed)[0] == ['{"a":1,"b":"k"}']
    assert read(PLAIN, row, table=replace(renamed, primary_key=("name", "a")))[0] == ['{"a":1}']


def test_message_key_columns_replace_the_key_but_not_the_merge_key():
    settings = replace(PLAIN, message_keys=("public.t.d", "public.t.a"))
    codec = codec_for(relation_of(TABLE), TABLE, settings, {})

    assert [field.name for field in codec.key] == ["a", "d"]
    assert [codec.columns[at] for at in codec.merge_key] == ["b", "a"]
    chosen = codec_for(relation_of(TABLE), TABLE, settings, {}, merge_key=("d",))
    assert [codec.columns[at] for at in chosen.merge_key] == ["d"]


@pytest.mark.parametrize(
    ("table", "tells"),
    [
        (TABLE, True),
        (replace(TABLE, identity="f", identity_key=()), True),
        (replace(TABLE, identity="n", identity_key=()), True),
        (replace(TABLE, identity="i", identity_key=("a", "b", "d")), True),
        (replace(TABLE, identity="i", identity_key=("d",)), False),
        (replace(TABLE, identity="i", identity_key=("a",)), False),
        (replace(TABLE, leaves=(Leaves(TABLE.id, "f"), Leaves(TABLE.id, "i", ("a", "b")))), True),
        (
            replace(TABLE, leaves=(Leaves(TABLE.id, "d", ("a", "b")), Leaves(TABLE.id, "i", ("b", "d")))),
            False,
        ),
    ],
)
def test_events_for_tables_say_whether_the_log_tells_their_key(table, tells):
    codec = codec_for(relation_of(table), table, replace(PLAIN, form=EventForm.COLUMNS), {})

    assert codec.schemas is not None
    assert codec.schemas.tells_key == tells
    assert (UNTOLD in schema_of(codec).field("key").metadata) == (not tells)


def test_an_event_key_of_other_columns_is_told_only_by_whole_rows():
    settings = replace(PLAIN, message_keys=("public.t.d", "public.t.a"), form=EventForm.COLUMNS)
    whole = replace(TABLE, identity="f", identity_key=())

    found = [codec_for(relation_of(table), table, settings, {}).schemas for table in (TABLE, whole)]

    assert [schemas is not None and schemas.tells_key for schemas in found] == [False, True]


def test_an_excluded_key_column_stays_in_the_key_as_one_that_may_be_null():
    settings = replace(PLAIN, exclude_columns=("public.t.b",))
    codec = codec_for(relation_of(TABLE), TABLE, settings, {})

    assert [field.name for field in codec.fields] == ["a", "c", "d"]
    assert [(field.name, field.schema.optional, field.schema.default) for field in codec.key] == [
        ("b", True, None),
        ("a", False, None),
    ]


def test_masks_hide_the_row_but_not_the_key():
    settings = replace(
        PLAIN, masks=(ColumnMask(("public.t.b",), length=3), ColumnMask(("public.t.a",), length=3))
    )
    keys, rows = read(settings, ("1", "secret", None, None))

    assert keys == ['{"b":"secret","a":1}']
    assert rows[0]["b"] == "***"
    assert rows[0]["a"] == 1  # no text


def test_what_masks_cannot_hide_is_marked_as_debezium_does_and_warned_about():
    settings = replace(PLAIN, masks=(ColumnMask(("public.t.a",), length=3),))
    codec = codec_for(relation_of(TABLE), TABLE, settings, {})

    assert codec.fields[0].schema.parameters == (("masked", "true"),)
    assert codec.warnings == ("column 'a' is not masked: a int4 is no text",)


def shaped(kind: int, typmod: int, text: str | None, default: str | None = None, **settings: Any):
    """The parameters of a NOT NULL column's schema, and what becomes of one text."""
    table = replace(
        TABLE, columns=(Column("x", kind, typmod, nullable=False, default=default),), primary_key=()
    )
    codec = codec_for(relation_of(table), table, replace(PLAIN, **settings), {})
    row = codec.row([pa.array([text], pa.large_string())])
    return codec.fields[0].schema.parameters, json.loads(join(row.pieces, 1)[0].as_py())["x"]


def cut(length: int) -> tuple[ColumnMask, ...]:
    return (ColumnMask((".*",), length=length, truncate=True),)


@pytest.mark.parametrize(
    ("kind", "typmod", "text", "expected"),
    [
        (25, -1, 'a"bcd', 'a"b'),
        (114, -1, '{"a":1}', '{"a'),
        (2950, -1, "123e4567-e89b-12d3-a456-426614174000", "123"),
        (1184, -1, "2020-01-02 03:04:05+00", "202"),
    ],
)
def test_any_string_is_truncated(kind, typmod, text, expected):
    assert shaped(kind, typmod, text, masks=cut(3)) == ((("truncateLength", "3"),), expected)


def test_what_fits_anyway_is_not_marked_as_truncated():
    assert shaped(1043, 10 + 4, "abc", masks=cut(10)) == ((), "abc")
    assert shaped(23, -1, "12345", masks=cut(3)) == ((("truncateLength", "3"),), 12345)


def test_only_one_rule_applies_to_a_column_and_a_mask_comes_before_a_type():
    rules: dict[str, Any] = {"masks": cut(3), "propagate_columns": (".*",)}

    assert shaped(25, -1, "abcd", **rules) == ((("truncateLength", "3"),), "abc")
    hashing = (ColumnMask((".*",), hash="MD5", version=2),)
    assert shaped(25, -1, "abcd", **{**rules, "masks": hashing})[0] == (("masked", "true"),)


def test_a_hash_is_as_long_as_its_column_and_null_is_hashed_as_its_default():
    hashing: dict[str, Any] = {"masks": (ColumnMask((".*",), hash="MD5", version=2),)}

    _, ten = shaped(1043, 10 + 4, "abcd", **hashing)
    assert ten == "e2fc714c4727"[:10]
    assert shaped(25, -1, None, "'abcd'::text", **hashing)[1][:10] == ten
    assert shaped(25, -1, None, **hashing)[1] == "d41d8cd98f00b204e9800998ecf8427e"  # of nothing


def test_a_default_that_only_the_server_understands_is_none():
    table = replace(TABLE, columns=(Column("x", 1082, default="('now'::text)::date"),), primary_key=())

    assert codec_for(relation_of(table), table, PLAIN, {}).fields[0].schema.default is None


@pytest.mark.parametrize("form", EventForm)
@pytest.mark.parametrize(
    ("kind", "typmod", "default", "empty"),
    [
        (23, -1, "1.5", 0),
        (21, -1, "70000", 0),
        (23, -1, "'99999999999'::bigint", 0),
        (20, -1, "'9223372036854775808'::numeric", 0),
        (1700, (5 << 16 | 2) + 4, "'100000'::numeric", 0),
    ],
)
def test_a_default_that_its_type_cannot_hold_is_none(kind, typmod, default, empty, form):
    """The server takes them, and rounds or refuses them when a row is to get one."""
    column = Column("x", kind, typmod, nullable=False, default=default)
    table = replace(TABLE, columns=(column,), primary_key=())
    codec = codec_for(relation_of(table), table, replace(PLAIN, form=form), {})
    assert codec.fields[0].schema.default is None

    row: Any = codec.row([pa.array([None], pa.large_string())]).pieces[0]  # as in the old row of a delete
    if form is EventForm.COLUMNS:
        assert row.field("row").field("x").to_pylist() == [empty]


def test_fields_that_collide_are_warned_about():
    table = replace(TABLE, columns=(Column("a b", 23), Column("a_b", 23)), primary_key=())
    codec = codec_for(relation_of(table), table, replace(PLAIN, sanitize_fields=True), {})

    assert codec.warnings == ("several columns become the field 'a_b'",)


def test_the_signal_table_is_known_by_its_name():
    named = replace(PLAIN, signal_collection="public.t")

    assert codec_for(relation_of(TABLE), TABLE, named, {}).signal
    assert not codec_for(relation_of(TABLE), TABLE, PLAIN, {}).signal


def test_the_source_of_reads_says_where_they_stand():
    incremental = json.loads(read_source(PLAIN, TABLE.id, ReadPosition(5, last_commit_end=7, sequence_lsn=9)))
    initial = json.loads(read_source(PLAIN, TABLE.id, ReadPosition(5, tx_id=3, lsn=9, snapshot="first")))

    assert incremental["sequence"] == '["7","9"]'
    assert (incremental["snapshot"], incremental["txId"], incremental["lsn"]) == ("incremental", None, None)
    assert initial["sequence"] == '[null,"9"]'
    assert (initial["snapshot"], initial["txId"], initial["lsn"], initial["ts_ms"]) == ("first", 3, 9, 5)
