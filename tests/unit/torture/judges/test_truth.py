"""The text of `test_decoding`, read."""

from __future__ import annotations

import pytest

from tests.torture.truth import UNCHANGED, Entry, UnexpectedWrite, entry


def test_an_insert_has_every_kind_of_value():
    line = (
        "table public.t: INSERT: k[integer]:1 v[text]:'it''s [x]:y z' w[text]:null"
        " at[timestamp with time zone]:'2024-03-30 22:00:00+00' a[integer[]]:'{1,2}' n[numeric]:-1.50"
    )

    assert entry(7, line) == Entry(
        7,
        "c",
        ("public.t",),
        new={
            "k": "1",
            "v": "it's [x]:y z",
            "w": None,
            "at": "2024-03-30 22:00:00+00",
            "a": "{1,2}",
            "n": "-1.50",
        },
        types={
            "k": "integer",
            "v": "text",
            "w": "text",
            "at": "timestamp with time zone",
            "a": "integer[]",
            "n": "numeric",
        },
    )


def test_an_update_has_an_old_key_where_the_log_has_one():
    with_key = entry(
        1, "table public.t: UPDATE: old-key: k[text]:' new-tuple: ' new-tuple: k[text]:'b' v[text]:''"
    )
    without = entry(1, "table public.t: UPDATE: k[text]:'b' v[text]:unchanged-toast-datum")

    assert (with_key.old, with_key.new) == ({"k": " new-tuple: "}, {"k": "b", "v": ""})
    assert (without.old, without.new) == ({}, {"k": "b", "v": UNCHANGED})


def test_names_are_taken_out_of_their_quotes():
    found = entry(1, 'table "My Schema"."a "" b": DELETE: "the key"[integer]:1')

    assert (found.op, found.tables, found.old) == ("d", ('My Schema.a " b',), {"the key": "1"})


def test_a_truncate_names_its_tables():
    assert entry(1, "table public.a, public.b: TRUNCATE: cascade").tables == ("public.a", "public.b")


@pytest.mark.parametrize(
    "line", ["message: transactional: 1 prefix: x", "table public.t: UPDATE: old-key: k[text]:'a'"]
)
def test_anything_else_is_a_write_that_nobody_was_to_make(line: str):
    with pytest.raises(UnexpectedWrite):
        entry(1, line)
