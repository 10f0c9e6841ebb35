"""Java's regular expressions, as Debezium splits, anchors and compiles them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.expressions import LONGEST, matches, split_expressions, translate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("a", ("a",)),
        (" a , b ", ("a", "b")),
        ("a,,b,", ("a", "b")),
        (r"a{1\,2},b", ("a{1,2}", "b")),
        (r"s1\.t,s2\..*", (r"s1\.t", r"s2\..*")),
        (r"a\\,b", (r"a\\", "b")),
    ],
)
def test_lists_are_split_at_commas_without_a_backslash(text: str, expected: tuple[str, ...]):
    assert expected == split_expressions(text)


def test_a_list_may_not_end_in_a_lone_backslash():
    with pytest.raises(ValueError, match="lone backslash"):
        split_expressions("a\\")


@pytest.mark.parametrize(
    ("expression", "name", "expected"),
    [
        ("public.orders", "public.orders", True),
        ("public.orders", "public.orders2", False),  # anchored at both ends
        ("orders", "public.orders", False),
        ("PUBLIC.ORDERS.*", "public.orders_old", True),
        ("É", "é", False),  # only ASCII letters fold
        (r"\w+", "é", False),
        ("a|b", "b", True),
        (r"\Qa.b\E.*", "a.bc", True),
        (r"\Qa.b\E", "aXb", False),
        (r"\Qa.b", "a.b", True),
        (r"\\Qx", r"\Qx", True),
        (r"(?<first>a)\k<first>", "aa", True),
        (r"(?<!x)a(?<=a)", "a", True),
        (r"\p{Upper}\p{Digit}+", "A12", True),
        (r"[\p{Alpha}_]+", "ab_", True),
        (r"\P{Digit}", "1", False),
        ("(?i).*varchar.*", "VARCHAR(3)", True),
        ("a(?s).", "a\n", True),
        ("(a(?s).)b", "a\nb", True),
        ("(?-i)a", "A", False),
        ("(?-i:a)b", "aB", True),
        ("a++b", "aab", True),
        (r"a\z", "a", True),
        (r"\h", "\t", True),
        (r"\x{1F600}", "\N{GRINNING FACE}", True),
        ("[]a]+", "]a", True),
        ("[a^]+b", "^ab", True),
        ("[^^]", "a", True),
        (r"[~|&]+", "~|&", True),
        (r"[(?<a>]+", "(?<a>", True),
        (r"[\]]", "]", True),
    ],
)
def test_an_expression_matches_what_it_matches_in_java(expression: str, name: str, *, expected: bool):
    assert expected == matches([translate(expression)], name)


@pytest.mark.parametrize(
    "expression",
    [
        "(",
        ")",
        "(a))",
        "[a",
        "[a[b]]",
        "[a&&b]",
        r"\p{IsAlphabetic}",
        r"[\P{Digit}]",
        r"\G",
        "*",
        r"\x{110000}",
    ],
)
def test_what_python_can_not_say_is_refused(expression: str):
    with pytest.raises(ValueError, match=r"\w"):
        translate(expression)


def test_an_expression_has_a_greatest_length():
    assert translate("a" * LONGEST)
    with pytest.raises(ValueError, match="at most"):
        translate("a" * (LONGEST + 1))


@given(st.text(max_size=40) | st.text(alphabet=r"\()[]{}?<>=!&-^|pQEikx:az,", max_size=30))
def test_any_text_is_translated_into_what_compiles_or_refused(text: str):
    try:
        translated = [translate(expression) for expression in split_expressions(text)]
    except ValueError:
        return

    for expression in translated:
        re.compile(expression, re.ASCII | re.IGNORECASE)


@given(st.from_regex(r"[a-zA-Z0-9_]{1,10}(\.[a-zA-Z0-9_]{1,10}){0,2}", fullmatch=True))
def test_a_plain_name_matches_itself(name: str):
    assert matches([translate(name)], name)
    assert not matches([translate(name)], name + "x")
