"""A signal's keys as text, by the columns of the key; what does not fit is refused without its value."""

from __future__ import annotations

import pytest

from adapters.source.signals.scopes import JsonKind, ScopeColumn, texts_of
from engine.errors import SignalError
from engine.model import CollectionId, Range, Scope, Stretch

T = CollectionId(("public", "t"))
NUMBER, FLAG, TEXT = (ScopeColumn(kind.name, kind) for kind in JsonKind)
MAYBE = ScopeColumn("maybe", JsonKind.STRING, nullable=True)


@pytest.mark.parametrize(
    ("column", "given", "expected"),
    [
        (NUMBER, "1.10", "1.10"),
        (NUMBER, "-7", "-7"),
        (NUMBER, '"12345678901234567890"', "12345678901234567890"),
        (FLAG, "true", "true"),
        (FLAG, '"t"', "t"),
        (TEXT, '"a\\"\\u00e9"', 'a"é'),
        (MAYBE, "null", None),
    ],
)
def test_a_value_is_the_text_that_the_server_reads(column, given, expected):
    assert texts_of(Scope(keys=((given,),)), [column], T).keys == ((expected,),)


@pytest.mark.parametrize(
    ("column", "given", "said"),
    [
        (NUMBER, "true", "'NUMBER' must be a number or a string, not a boolean"),
        (NUMBER, "null", "'NUMBER' must be a number or a string, not null"),
        (NUMBER, "[1]", "'NUMBER' must be a number or a string, not an array"),
        (NUMBER, '{"a": 1}', "'NUMBER' must be a number or a string, not an object"),
        (FLAG, "1", "'BOOLEAN' must be a boolean or a string, not a number"),
        (TEXT, "1", "'STRING' must be a string, not a number"),
    ],
)
def test_a_value_of_another_type_is_refused(column, given, said):
    with pytest.raises(SignalError, match="a value for the key column") as caught:
        texts_of(Scope(keys=((given,),)), [column], T)
    assert said in str(caught.value)


def test_a_key_has_a_value_for_each_column():
    with pytest.raises(SignalError) as caught:
        texts_of(Scope(keys=(("1", '"secret"'),)), [NUMBER], T)

    assert "a key of the signal has 2 values" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_bounds_of_ranges_are_never_null():
    with pytest.raises(SignalError, match="not null"):
        texts_of(Scope(stretches=(Stretch(("null",)),)), [MAYBE], T)


def test_ranges_hold_their_from_and_lack_their_to():
    texts = texts_of(Scope(stretches=(Stretch(("1",), ("9",)), Stretch(None, ("5",)))), [NUMBER], T)

    assert texts.ranges == (
        Range(("1",), ("9",), holds_after=True, lacks_upto=True),
        Range(None, ("5",), lacks_upto=True),
    )
    assert texts.bounds == [("1",), ("9",), ("5",)]
