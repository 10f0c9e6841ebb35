"""Codecs from relations and tables: what is in the key, what is in the row, what stands for NULL."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa

from adapters.postgres.codec import codec_for
from adapters.postgres.source import ReadPlace, read_source
from adapters.postgres.table import Column, Table, relation_of
from engine.events.settings import ColumnMask, EventSettings, MessageKey
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


def read(settings: EventSettings, *rows: tuple[str | None, ...], table: Table | None = TABLE):
    codec = codec_for(relation_of(TABLE), table, settings, {})
    columns = [pa.array([row[at] for row in rows], pa.large_string()) for at in range(4)]
    keys, values = codec.reads(columns, read_source(settings, TABLE.id, ReadPlace(1)), 2)
    afters = [json.loads(value)["after"] for value in values.to_pylist()]
    return [None] * len(rows) if keys is None else keys.to_pylist(), afters


def test_the_key_has_its_own_order_and_null_becomes_the_default():
    keys, rows = read(PLAIN, ("1", "k", None, None))

    assert keys == ['{"b":"k","a":1}']
    assert rows == [{"a": 1, "b": "k", "c": 7, "d": None}]


def test_null_stays_null_where_that_is_asked_for():
    assert read(replace(PLAIN, replace_null_with_default=False), ("1", "k", None, None))[1][0]["c"] is None


def test_without_primary_key_a_unique_index_is_the_key_or_there_is_none():
    row = ("1", "k", "2", None)

    unique = replace(TABLE, primary_key=(), unique_key=("a",))
    assert read(PLAIN, row, table=unique)[0] == ['{"a":1}']
    assert read(PLAIN, row, table=replace(TABLE, primary_key=()))[0] == [None]
    assert read(PLAIN, row, table=None)[0] == [None]


def test_message_key_columns_replace_the_key_but_not_the_merge_key():
    settings = replace(PLAIN, message_keys=(MessageKey("public.t", ("d", "a")),))
    codec = codec_for(relation_of(TABLE), TABLE, settings, {})

    assert [field.name for field in codec.key] == ["a", "d"]
    assert [codec.columns[at] for at in codec.merge_key] == ["b", "a"]
    chosen = codec_for(relation_of(TABLE), TABLE, settings, {}, merge_key=("d",))
    assert [codec.columns[at] for at in chosen.merge_key] == ["d"]


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


def test_fields_that_collide_are_warned_about():
    table = replace(TABLE, columns=(Column("a b", 23), Column("a_b", 23)), primary_key=())
    codec = codec_for(relation_of(table), table, replace(PLAIN, sanitize_fields=True), {})

    assert codec.warnings == ("several columns become the field 'a_b'",)


def test_the_signal_table_is_known_by_its_name():
    named = replace(PLAIN, signal_collection="public.t")

    assert codec_for(relation_of(TABLE), TABLE, named, {}).signal
    assert not codec_for(relation_of(TABLE), TABLE, PLAIN, {}).signal


def test_the_source_of_reads_says_where_they_stand():
    incremental = json.loads(read_source(PLAIN, TABLE.id, ReadPlace(5, last_commit_end=7, sequence_lsn=9)))
    initial = json.loads(read_source(PLAIN, TABLE.id, ReadPlace(5, tx_id=3, lsn=9, snapshot="first")))

    assert incremental["sequence"] == '["7","9"]'
    assert (incremental["snapshot"], incremental["txId"], incremental["lsn"]) == ("incremental", None, None)
    assert initial["sequence"] == '[null,"9"]'
    assert (initial["snapshot"], initial["txId"], initial["lsn"], initial["ts_ms"]) == ("first", 3, 9, 5)
