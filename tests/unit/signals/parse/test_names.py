"""Which collections a text names."""

from __future__ import annotations

import time

import pytest

from engine.errors import SignalError
from engine.expressions import bounded_matcher
from engine.model import CollectionId
from signals.parse.names import KnownNames, match_names, quoted_parts

KNOWN = KnownNames(
    (
        CollectionId(("public", name))
        for name in ("customers", "orders", "Orders", "My.Table", 'we"ird', "tmp_orders", "a(b", "Solo")
    ),
    bounded_matcher,
)


def named(pattern: str) -> list[str]:
    return [collection.parts[1] for collection in match_names(pattern, KNOWN).collections]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("public.customers", ["customers"]),
        (r"public\.customers", ["customers"]),
        ("customers", []),  # the name is matched from its beginning
        ("public.custom", []),  # and to its end
        (r"public\.(customers|orders)", ["customers", "orders"]),
        (r"public\..*orders", ["orders", "tmp_orders"]),
        (r"public\.[^t].*rders", ["orders", "Orders"]),
        (r"^public\.orders$", ["orders"]),
        (r"public\..olo", ["Solo"]),
        ("public.Solo.", []),
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

    assert [str(collection) for collection in match.collections] == ["public.Orders"]
    assert match.note == ""


def test_a_name_in_the_wrong_case_is_found_and_said():
    match = match_names("PUBLIC.solo", KNOWN)

    assert [str(collection) for collection in match.collections] == ["public.Solo"]
    assert "letter case" in match.note


@pytest.mark.parametrize("pattern", ["(", "public.*(?", "a)|(b", "[a-z", "(a)" * 20_000, "(" * 5_000])
def test_a_pattern_that_cannot_be_read_is_refused(pattern):
    with pytest.raises(SignalError, match="can't be read"):
        match_names(pattern, KNOWN)


@pytest.mark.parametrize(
    ("pattern", "lacking"),
    [
        ("(?=p)(?:|.){60}", "look-ahead"),
        (r"public\.(?!tmp_).*rders", "look-ahead"),
        (r"public\.(\w)\1.*", "a back reference"),
        ("(?>public).*", "an atomic group"),
        ("public.*+", "a possessive quantifier"),
    ],
)
def test_what_takes_backtracking_is_refused_by_name(pattern, lacking):
    with pytest.raises(SignalError, match="RE2 can't match") as caught:
        match_names(pattern, KNOWN)

    assert lacking in str(caught.value)


def test_nested_repetitions_take_no_time():
    started = time.perf_counter()

    match = match_names("public.(a+)+b", KnownNames([CollectionId(("public", "a" * 63))], bounded_matcher))

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
    assert KNOWN.like(pattern) == expected


@pytest.mark.parametrize(
    "pattern", ["public.orders", r"public\.orders", "..b...orders", r"public\.order.", "p.b"]
)
@pytest.mark.parametrize("ignore_case", [False, True])
def test_letters_and_dots_mean_what_they_mean_to_re2(pattern, ignore_case):
    names = [
        "public.orders",
        "PUBLIC.Orders",
        "publicXorders",
        "public\norders",
        "public.order\u017f",
        "p.b",
        "p\nb",
    ]
    known = KnownNames((CollectionId((name,)) for name in names), bounded_matcher)
    matches = bounded_matcher(pattern, ignore_case=ignore_case)

    found = known.matched(pattern, ignore_case=ignore_case)

    assert [str(collection) for collection in found] == [name for name in names if matches(name)]


def test_looking_through_many_collections_may_be_ended():
    calls: list[None] = []

    def check():
        calls.append(None)
        if len(calls) > 3:
            raise SignalError("it takes too long")

    known = KnownNames(
        (CollectionId(("public", f"t{number}")) for number in range(1_000)), bounded_matcher, check
    )
    with pytest.raises(SignalError, match="too long"):
        match_names("public.*x", known)


def test_a_thousand_names_are_found_among_ten_thousand_in_little_time():
    known = KnownNames(
        (CollectionId(("public", f"table_{number:05}")) for number in range(10_000)), bounded_matcher
    )
    started = time.perf_counter()

    for number in range(1_000):
        assert len(match_names(f"public.table_{number:05}", known).collections) == 1

    assert time.perf_counter() - started < 30
