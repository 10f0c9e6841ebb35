"""Keys as SQL; what it means is asked of a server in `tests/property/test_keyset.py`."""

from __future__ import annotations

import pytest

from adapters.postgres.snapshot.keyset import BY_CTID, KeyColumn, Keyset, page_start, page_starts

ID = KeyColumn("id", '"pg_catalog"."int4"')
NAME = KeyColumn("Na me", '"pg_catalog"."text"')
MAYBE = KeyColumn("maybe", '"pg_catalog"."int4"', nullable=True)
PLAIN, COMPOSITE, NULLABLE = Keyset((ID,)), Keyset((ID, NAME)), Keyset((MAYBE, ID))
INT, TEXT = ID.type, NAME.type
IS_NULL = "IS NOT DISTINCT FROM NULL"


@pytest.mark.parametrize(
    ("keyset", "order", "reverse"),
    [
        (PLAIN, '"id"', '"id" DESC'),
        (COMPOSITE, '"id", "Na me"', '"id" DESC, "Na me" DESC'),
    ],
)
def test_keys_are_ordered_by_their_columns(keyset, order, reverse):
    assert (keyset.order, keyset.reverse_order) == (order, reverse)


def test_keys_are_read_by_the_type_s_output_function():
    one, two = (
        f"CASE WHEN {name} IS DISTINCT FROM NULL THEN format('%s', {name}) END"
        for name in ('"id"', '"Na me"')
    )

    assert COMPOSITE.texts == f"{one}, {two}"


@pytest.mark.parametrize(
    ("keyset", "after", "upto", "expected"),
    [
        pytest.param(PLAIN, None, None, "true", id="everything"),
        pytest.param(PLAIN, ("5",), None, f"(\"id\" > '5'::{INT})", id="beyond"),
        pytest.param(PLAIN, None, ("9",), f"(\"id\" <= '9'::{INT})", id="up to"),
        pytest.param(
            PLAIN, ("5",), ("9",), f"(\"id\" > '5'::{INT}) AND (\"id\" <= '9'::{INT})", id="between"
        ),
        pytest.param(
            COMPOSITE,
            ("5", "it's"),
            ("9", "\\"),
            f"((\"id\", \"Na me\") > ('5'::{INT}, 'it''s'::{TEXT}))"
            f" AND ((\"id\", \"Na me\") <= ('9'::{INT},  E'\\\\'::{TEXT}))",
            id="composite, as rows, so that an index serves",
        ),
        pytest.param(
            NULLABLE,
            ("5", "7"),
            None,
            f'(("maybe" > \'5\'::{INT} OR "maybe" IS NOT DISTINCT FROM NULL'
            f" OR (\"maybe\" = '5'::{INT} AND (\"id\" > '7'::{INT} OR (\"id\" = '7'::{INT} AND false)))))",
            id="nullable: NULLs stand last",
        ),
        pytest.param(
            NULLABLE,
            (None, "7"),
            None,
            f'(("maybe" {IS_NULL} AND ("id" > \'7\'::{INT} OR ("id" = \'7\'::{INT} AND false))))',
            id="nullable: among the NULLs",
        ),
        pytest.param(
            Keyset((MAYBE,)),
            None,
            (None,),
            '(NOT coalesce(("maybe" IS NOT DISTINCT FROM NULL AND false), false))',
            id="nullable: up to the NULLs is everything",
        ),
    ],
)
def test_a_range_is_open_below_and_closed_above(keyset, after, upto, expected):
    assert keyset.between(after, upto) == expected


@pytest.mark.parametrize(
    ("keyset", "keys", "expected"),
    [
        (PLAIN, [("5",), ("6",)], f"(\"id\") IN (('5'::{INT}), ('6'::{INT}))"),
        (COMPOSITE, [("5", "x")], f"(\"id\", \"Na me\") IN (('5'::{INT}, 'x'::{TEXT}))"),
        (
            NULLABLE,
            [("5", "6"), (None, "7")],
            (
                f"(\"maybe\" = '5'::{INT} AND \"id\" = '6'::{INT})"
                f' OR ("maybe" {IS_NULL} AND "id" = \'7\'::{INT})'
            ),
        ),
    ],
)
def test_single_keys_are_named(keyset, keys, expected):
    assert keyset.among(keys) == expected


@pytest.mark.parametrize(
    ("after", "upto", "step_bytes", "count", "expected"),
    [
        pytest.param(None, 10, 3 * 8192, 9, [3, 6, 9], id="all"),
        pytest.param(None, 10, 3 * 8192, 2, [3, 6], id="the first ones"),
        pytest.param(6, 10, 3 * 8192, 2, [9], id="onwards"),
        pytest.param(9, 10, 3 * 8192, 2, [], id="the last step ends at the end"),
        pytest.param(None, 3, 10, 9, [1, 2], id="a page is the least"),
        pytest.param(None, 0, 10, 9, [], id="an empty table"),
    ],
)
def test_places_go_by_pages(after, upto, step_bytes, count, expected):
    start = None if after is None else page_start(after)

    assert page_starts(start, page_start(upto), step_bytes, count) == [page_start(page) for page in expected]


def test_a_range_of_places_is_one_of_stored_rows():
    assert BY_CTID.between(("(2,0)",), ("(5,0)",)) == (
        """("ctid" > '(2,0)'::"pg_catalog"."tid") AND ("ctid" <= '(5,0)'::"pg_catalog"."tid")"""
    )
