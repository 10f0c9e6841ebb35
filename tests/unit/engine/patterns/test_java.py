"""Java's expressions on RE2: the same verdicts as Java's own, or a refusal by name."""

from __future__ import annotations

import time

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.patterns.java import re2_text
from engine.patterns.untranslatable import Untranslatable
from tests.java_verdicts import BROKEN, NAMES, WRONG, recorded

SIGNS = r"\()[]{}?<>=!&-^|pQEdwshvxzZbu:az09,.*+ K"


def test_whatever_is_translated_matches_what_java_matches():
    translated, verdicts = 0, 0
    for expression, ignore_case, said in recorded():
        try:
            found = re2_text(expression, ignore_case=ignore_case)
        except Untranslatable:
            continue
        assert said != WRONG, expression
        pattern = re2.compile(found.text)
        translated += 1
        for name, digit in zip(NAMES, said, strict=False):
            if said != BROKEN and (name.isascii() or not found.ascii_only):
                verdicts += 1
                assert (pattern.fullmatch(name) is not None) == (digit == "1"), (
                    expression,
                    ignore_case,
                    name,
                )

    assert translated > 1_000
    assert verdicts > 50_000


def test_the_record_has_a_thousand_expressions_of_each_kind():
    ignoring = [said for _expression, ignore_case, said in recorded() if ignore_case]
    minding = [said for _expression, ignore_case, said in recorded() if not ignore_case]

    assert min(len(ignoring), len(minding)) > 1_000
    for verdicts in (ignoring, minding):
        assert sum(WRONG in said for said in verdicts) > 100
        assert sum("1" in said for said in verdicts) > 300
    assert {"K", "\u212a", "s", "\u017f", "\u0131"} <= set(NAMES)  # RE2 folds these, Java does not


def test_what_lists_of_tables_hold_is_translated():
    for expression in (
        "public.orders",
        r"public\..*",
        r"^public\.(a|b)_\d{4}$",
        r"[A-Za-z_]+\.\w*",
        r"\Qa.b\E.*",
    ):
        assert re2_text(expression, ignore_case=True).text


@pytest.mark.parametrize(
    ("expression", "lacking"),
    [
        ("(?=a)b", "look-ahead"),
        ("(?!a)b", "look-ahead"),
        ("(?<=a)b", "look-behind"),
        ("(?<!a)b", "look-behind"),
        (r"(a)\1", "a back reference"),
        (r"(?<n>a)\k<n>", "a back reference"),
        ("(?>a)b", "an atomic group"),
        ("a*+", "a possessive quantifier"),
        ("a{1001}", "more than 1000 repetitions"),
        (r"\X", r"\X"),
        (r"\G", r"\G"),
        (r"\R", r"\R"),
        (r"\p{IsGreek}", r"\p{IsGreek}"),
        (r"\p{javaLowerCase}", r"\p{javaLowerCase}"),
        ("(?u)a", "(?u)"),
        ("(?x) a", "(?x)"),
        ("a$b", "'$'"),
        ("(?m)^a", "'^' within lines"),
        ("(" * 101 + ")" * 101, "more than 100 brackets"),
    ],
)
def test_what_re2_lacks_is_refused_by_name(expression: str, lacking: str):
    with pytest.raises(Untranslatable) as caught:
        re2_text(expression, ignore_case=False)

    assert lacking in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    [
        "(",
        ")",
        "[a",
        "*a",
        "a**",
        "a{2",
        "{2}",
        r"\y",
        "\\",
        "[b-a]",
        r"\x{110000}",
        "(?q)a",
        "[a&&]",
        "\ud800",
    ],
)
def test_what_is_wrong_in_java_is_refused(expression: str):
    with pytest.raises(Untranslatable, match="it has"):
        re2_text(expression, ignore_case=False)


def test_case_is_folded_for_ascii_letters_alone():
    kelvin, long_s = "\u212a", "\u017f"  # RE2 folds them to k and s

    for expression, name in (("K", kelvin), ("[Kk]|x", kelvin), ("s", long_s), ("[^a]", "A"), ("É", "é")):
        pattern = re2.compile(re2_text(expression, ignore_case=True).text)
        assert pattern.fullmatch(name) is None


@settings(max_examples=300)
@given(expression=st.text(max_size=30) | st.text(alphabet=SIGNS, max_size=30), ignore_case=st.booleans())
def test_any_text_becomes_what_re2_takes_or_is_refused(expression: str, *, ignore_case: bool):
    try:
        text = re2_text(expression, ignore_case=ignore_case).text
    except Untranslatable:
        return

    re2.compile(text).fullmatch("public.orders")


def test_what_backtracking_never_ends_takes_no_time():
    pattern = re2.compile(re2_text(r"public\.(\w+)*\.old", ignore_case=False).text)
    started = time.process_time()

    assert pattern.fullmatch("public." + "a" * 120) is None
    assert time.process_time() - started < 0.5
