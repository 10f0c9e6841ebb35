"""Lists, masks and names."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.config.sources.column_masks import ALGORITHMS
from engine.events.names import field_name, heartbeat_topic, message_topic, schema_name, topic_of
from engine.events.record import shaping
from engine.events.settings import ColumnMask, EventSettings, NameAdjustment
from engine.model import CollectionId

TABLE = CollectionId(("public", "customers"))


def settings(**changes: Any) -> EventSettings:
    return EventSettings("p", "d", **changes)


def large(*texts: str | None) -> pa.Array:
    return pa.array(texts, pa.large_string())


def test_lists_match_whole_names_whatever_their_case():
    assert shaping.is_included(TABLE, "id", settings())
    assert not shaping.is_included(TABLE, "id", settings(exclude_columns=(r"PUBLIC\.customers\.id",)))
    assert shaping.is_included(TABLE, "idx", settings(exclude_columns=("public.customers.id",)))
    assert not shaping.is_included(TABLE, "id", settings(include_columns=("public.customers.email",)))


def test_a_message_key_is_in_the_tables_order():
    keys = ("(.*).customers.email", "(.*).customers.first_name")

    named = shaping.message_key(TABLE, ("id", "first_name", "email"), settings(message_keys=keys))

    assert named == ("first_name", "email")
    assert shaping.message_key(TABLE, ("id",), settings()) == ()


def test_every_entry_that_names_a_table_adds_to_its_key():
    keys = (".*.nothing", ".*.email", "public.*.id")

    named = shaping.message_key(TABLE, ("id", "name", "email"), settings(message_keys=keys))

    assert named == ("id", "email")


@pytest.mark.parametrize("expression", ["public.customers.*", "public.customers..*"])
def test_an_expression_may_name_all_columns_of_a_key(expression: str):
    """`public.customers:*` and `public.customers:.*`, as Debezium joins them."""
    named = shaping.message_key(TABLE, ("id", "email"), settings(message_keys=(expression,)))

    assert named == ("id", "email")


@pytest.mark.parametrize(
    ("mask", "text", "shown"),
    [
        (ColumnMask((), length=3), "abcdef", "***"),
        (ColumnMask((), length=0), "abcdef", ""),
        (ColumnMask((), length=3), None, "***"),
        (ColumnMask((), length=4, truncate=True), "日本語テキスト", "日本語テ"),
        (ColumnMask((), length=4, truncate=True), None, None),
        (ColumnMask((), length=2, truncate=True), "a😀b", "a"),
        (ColumnMask((), length=3, truncate=True), "a😀b", "a😀"),
        (
            ColumnMask((), hash="MD5", salt="s", version=2),
            "annek@noanswer.org",
            "e8264208323d223d16d8f92fd402adfc",
        ),
        (ColumnMask((), hash="SHA-256", salt="CzQMA0cB5K"), "uvwxyz", "39391b5c40120e43d436"),
    ],
)
def test_masks(mask, text, shown):
    length = None if mask.version == 2 else 20

    assert shaping.shape_of(mask, length)(large(text)).to_pylist() == [shown]


@pytest.mark.parametrize(
    ("algorithm", "digest"),
    [
        ("MD5", "900150983cd24fb0d6963f7d28e17f72"),
        ("SHA-1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("SHA-224", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
        ("SHA-256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("SHA-384", "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded163"),
        ("SHA-512", "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea2"),
        ("SHA-512/224", "4634270f707b6a54daae7530460842e20e37ed265ceee9a43e8924aa"),
        ("SHA-512/256", "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
        ("SHA3-224", "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf"),
        ("SHA3-256", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
        ("SHA3-384", "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c25"),
        ("SHA3-512", "b751850b1a57168a5693cd924b6b096e08f621827444f70d"),
    ],
)
def test_every_algorithm_that_the_settings_take_hashes(algorithm: str, digest: str):
    """The digests of `abc` as their standards print them, some cut."""
    assert shaping.hashed("bc", ColumnMask((), hash=algorithm, salt="a", version=2)).startswith(digest)


def test_all_algorithms_are_known():
    for algorithm in ALGORITHMS:
        assert shaping.hashed("x", ColumnMask((), hash=algorithm, version=1))


def test_a_serialised_text_longer_than_64_k_is_hashed():
    mask = ColumnMask((), hash="MD5", salt="", version=1)

    assert shaping.hashed("x" * 70_000, mask) != shaping.hashed("x" * 70_001, mask)


def test_names_keep_what_their_place_allows():
    odd = CollectionId(("sch-1", "Täb le"))

    assert topic_of(odd, settings()) == "p.sch-1.T_b_le"
    assert topic_of(odd, settings(topic_delimiter="_")) == "p_sch-1_T_b_le"
    assert schema_name("p.sch-1.t", "Key", settings()) == "p.sch-1.t.Key"
    assert schema_name("1.sch-1.t", "Key", settings(schema_names=NameAdjustment.AVRO)) == "_.sch_1.t.Key"
    assert field_name("1 dollar$", settings()) == "1 dollar$"
    assert field_name("1 dollar$", settings(sanitize_fields=True)) == "_1_dollar_"
    assert heartbeat_topic(settings()) == "__debezium-heartbeat.p"


def test_a_character_outside_the_basic_plane_counts_as_two():
    assert topic_of(CollectionId(("s", "a😀ü")), settings()) == "p.s.a___"
    assert field_name("a😀", settings(sanitize_fields=True)) == "a__"


def test_a_topic_is_cut_where_kafka_allows_no_more():
    assert topic_of(CollectionId(("s", "t" * 300)), settings()) == "p.s." + "t" * 245


def test_the_messages_topic_does_not_follow_the_delimiter():
    assert message_topic(settings(topic_delimiter="_")) == "p.message"
