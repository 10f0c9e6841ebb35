"""Java's regular expressions, as Debezium splits, anchors and compiles them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError
from engine.expressions import LONGEST, bounded_matcher, checked, first_found, matches, split_expressions
from engine.patterns import backtracking


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
    assert expected == matches([checked(expression)], name)


@pytest.mark.parametrize(
    "expression", ["(", ")", "(a))", "[a", "*", r"\p{IsAlphabetic}", r"\G", r"\x{110000}"]
)
def test_what_nobody_can_match_is_refused(expression: str):
    with pytest.raises(ValueError, match=r"\w"):
        checked(expression)


def test_an_expression_has_a_greatest_length():
    assert checked("a" * LONGEST)
    with pytest.raises(ValueError, match="at most"):
        checked("a" * (LONGEST + 1))


@given(st.text(max_size=40) | st.text(alphabet=r"\()[]{}?<>=!&-^|pQEikx:az,", max_size=30))
def test_any_text_is_a_list_that_can_be_matched_or_is_refused(text: str):
    try:
        expressions = [checked(expression) for expression in split_expressions(text)]
    except ValueError:
        return

    matches(expressions, "public.orders")


@given(st.from_regex(r"[a-zA-Z0-9_]{1,10}(\.[a-zA-Z0-9_]{1,10}){0,2}", fullmatch=True))
def test_a_plain_name_matches_itself(name: str):
    assert matches([checked(name)], name)
    assert not matches([checked(name)], name + "x")


@pytest.mark.parametrize(
    ("expression", "name", "expected"),
    [
        (r"(?!x)public\..*", "public.orders", True),
        (r"(?<!x)a(?<=A)", "a", True),
        (r"(?<first>a)\k<first>", "aA", True),
        ("a++b", "aab", True),
        ("(?>a|ab)c", "abc", False),
        ("(?=a){e<=1}", "x", False),  # braces mean themselves
        ("a{e<=1}", "a{e<=1}", True),
        ("a{,3}", "aaa", True),
        (r"\bé", "é", False),  # ASCII letters alone are letters here
        (r"\R", "\r\n", True),
        ("(?!K)\u212a", "k", False),  # the Kelvin sign
    ],
)
def test_what_re2_lacks_the_owner_keeps(expression: str, name: str, *, expected: bool):
    assert expected == matches([checked(expression)], name)


def test_an_expression_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(backtracking, "LONGEST_S", 0.2)

    with pytest.raises(ConfigError, match="takes more than"):
        matches([checked("(?=p)(?:|.){60}")], "public.orders-of-some-years")


def test_an_expression_without_end_is_given_up_where_it_may_stand_anywhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(backtracking, "LONGEST_S", 0.2)
    started = time.perf_counter()

    with pytest.raises(ConfigError, match=r"takes more than 0\.2 s"):
        first_found([checked("orders!"), checked("(?=p)(?:|.){60}[!?]")], "public.orders-of-some-years")
    assert time.perf_counter() - started < 30


def test_an_expression_that_backtracking_does_not_end_is_no_trouble_to_re2():
    assert not matches([checked(r"public\.(\w+)*\.old")], "public." + "a" * 60)


def test_a_name_is_decided_once(monkeypatch: pytest.MonkeyPatch):
    expression, name = r"public\.(?!old_)\w+", "public.decided_once"
    assert matches([checked(expression)], name)
    monkeypatch.setattr("engine.expressions._owners", None)  # whoever asks again gets no answer

    assert matches([expression], name)


def test_case_counts_where_it_is_asked_for():
    assert matches(["Orders"], "orders")
    assert not matches(["Orders"], "orders", ignore_case=False)


@pytest.mark.parametrize("expression", ["(?=p)(?:|.){60}", r"(a)\1", "a*+", "(?>a)"])
def test_anybodys_expression_runs_on_re2_or_not_at_all(expression: str):
    with pytest.raises(ValueError, match="which RE2 can't match"):
        bounded_matcher(expression, ignore_case=False)


def test_anybodys_word_boundary_is_not_guessed():
    matches_name = bounded_matcher(r"public\.\borders", ignore_case=False)

    assert matches_name("public.orders")
    with pytest.raises(ValueError, match="RE2 does not place"):
        matches_name("public.örders")


def test_anybodys_expression_has_a_greatest_size():
    with pytest.raises(ValueError, match="RE2 does not take it"):
        bounded_matcher(r"(?:\pL?){1000}", ignore_case=False)


@pytest.mark.parametrize(
    "expression", ["(?!x)a{100001}", "(?!x)(?:[ab]{400}){400}", "(?!x)(?:a{9}b{9,}){9999}"]
)
def test_an_expression_that_would_take_gigabytes_is_refused(expression: str):
    with pytest.raises(ValueError, match="repetitions written out"):
        checked(expression)


@pytest.mark.parametrize(
    "expression", [r"(?!x)\w{1,99999999}", r"(?!x)(?:a{300}){300}", r"(?!x)\{99999999\}"]
)
def test_an_expression_of_little_that_must_repeat_is_taken(expression: str):
    assert not matches((expression,), "y") or expression.startswith(r"(?!x)\w")
