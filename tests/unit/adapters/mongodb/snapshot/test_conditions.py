"""Conditions of signals as MongoDB's filter documents: whatever was written, a document or a refusal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.mongodb.snapshot.conditions import condition_filter
from engine.errors import SignalError
from engine.model import CollectionId, Target

T = CollectionId(("shop", "t"))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('{"n": {"$gte": 15}}', {"n": {"$gte": 15}}),
        ('{"$or": [{"a": 1}, {"b": {"$exists": true}}]}', {"$or": [{"a": 1}, {"b": {"$exists": True}}]}),
        ('{"$expr": {"$gt": ["$a", "$b"]}}', {"$expr": {"$gt": ["$a", "$b"]}}),
        (None, {}),
    ],
)
def test_a_filter_is_read(condition: str | None, expected: dict[str, object]):
    assert expected == condition_filter(Target(T, condition))


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ('{"n": 99999999999999999999}', "no filter document"),
        ('{"a\\u0000b": 1}', "no filter document"),
        ("[" * 60_000, "no filter document"),
        ('{"a":' * 900 + "1" + "}" * 900, "brackets within each other"),
        ("n >= 15", "no filter document"),
        ("[1]", "must be a document"),
        ('{"$date": "nonsense"}', "no filter document"),
        ('{"$where": "sleep(10000)"}', "$where runs a script"),
        ('{"a": {"$elemMatch": {"$where": "1"}}}', "$where runs a script"),
        ('{"$expr": {"$function": {"body": "f", "args": [], "lang": "js"}}}', "$function runs a script"),
        ('{"$or": [{"$expr": {"$accumulator": {}}}]}', "$accumulator runs a script"),
        ('{"a": {"$code": "sleep(1)"}}', "it holds a script"),
    ],
)
def test_what_is_none_or_runs_a_script_is_refused(condition: str, why: str):
    with pytest.raises(SignalError) as caught:
        condition_filter(Target(T, condition))

    assert why in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_the_owners_filters_of_initial_snapshots_are_trusted():
    assert condition_filter(Target(T, '{"$where": "this.a > 1"}', initial=True)) == {"$where": "this.a > 1"}


@given(st.text(max_size=30) | st.text(alphabet='{}[]":,$ae1.\\u0-', max_size=40))
def test_any_text_is_a_document_or_refused(condition: str):
    try:
        found = condition_filter(Target(T, condition))
    except SignalError:
        return

    assert isinstance(found, dict)
