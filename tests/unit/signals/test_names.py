"""Which collections a text names."""

from __future__ import annotations

import time

import pytest

from engine.errors import SignalError
from engine.model import CollectionId
from signals.names import match_names, quoted_parts, suggestion

KNOWN = [
    CollectionId(("public", name))
    for name in ("customers", "orders", "Orders", "My.Table", 'we"ird', "tmp_orders", "a(b", "Solo")
]


def named(pattern: str) -> list[str]:
    return [one.parts[1] for one in match_names(pattern, KNOWN).collections]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("public.customers", ["customers"]),
        (r"public\.customers", ["customers"]),
        ("customers", []),  # the name is matched from its beginning
        ("public.custom", []),  # and to its end
        (r"public\.(customers|orders)", ["customers", "orders"]),
        (r"public\..*orders", ["orders", "tmp_orders"]),
        (r"public\.(?!tmp_).*rders", ["orders", "Orders"]),
        (r"\Qpublic.\Ecust.*", ["customers"]),
        (r"public\.\p{Upper}.*", ["Orders", "My.Table", "Solo"]),
        (r"(?i)public\.ORDERS", ["orders", "Orders"]),
        ("public.orders|public.customers", ["customers", "orders"]),
        ("public.My.Table", ["My.Table"]),
        ('"public"."My.Table"', ["My.Table"]),
        ('public."My.Table"', ["My.Table"]),
        ('"public"."we""ird"', ['we"ird']),
        ('"public"."my.table"', []),  # quoted names match exactly
        ('"public"."My"."Table"', []),
        ("public.a(b", ["a(b"]),  # no expression, but a name
    ],
)
def test_names_are_matched_whole(pattern, expected):
    assert named(pattern) == expected


def test_exact_case_wins_over_other_case():
    match = match_names("public.Orders", KNOWN)

    assert [str(one) for one in match.collections] == ["public.Orders"]
    assert match.note == ""


def test_a_name_in_the_wrong_case_is_found_and_said():
    match = match_names("PUBLIC.solo", KNOWN)

    assert [str(one) for one in match.collections] == ["public.Solo"]
    assert "letter case" in match.note


@pytest.mark.parametrize("pattern", ["(", "public.*(?", "a)|(b", r"[a-z&&[^b]]", "a" * 20_000, "(" * 5_000])
def test_a_pattern_that_cannot_be_read_is_refused(pattern):
    with pytest.raises(SignalError, match="can't be read"):
        match_names(pattern, KNOWN)


@pytest.mark.parametrize("pattern", ["(?!x)(a+)+b", r"(?!x).*.*.*.*.*z", "(?=a)(?:a|a)*b"])
def test_a_pattern_that_could_take_for_ever_is_refused(pattern):
    with pytest.raises(SignalError, match="too long"):
        match_names(pattern, KNOWN)


def test_nested_repetitions_take_no_time():
    started = time.perf_counter()

    match = match_names("public.(a+)+b", [CollectionId(("public", "a" * 63))])

    assert match.collections == ()
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"a"."b"', ("a", "b")),
        ('"a.b"."c""d"', ("a.b", 'c"d')),
        ('db."b"."c d"', ("db", "b", "c d")),
        ('"a"', ("a",)),
        ("a.b", None),
        ('"a"."b', None),
        ('"a""b', None),
        ('"a"b', None),
        ('"a".', None),
        ('""."a"', None),
        ('"a".b.*', None),
    ],
)
def test_quoted_names(text, expected):
    assert quoted_parts(text) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("public.custmers", "public.customers"),
        (r"public\.Custmers", "public.customers"),
        ("elsewhere.things", ""),
        ("x" * 500, ""),
    ],
)
def test_suggestions(pattern, expected):
    assert suggestion(pattern, KNOWN) == expected
