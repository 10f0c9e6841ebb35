"""The rows that a signal asks for: its keys and ranges as they were written, or what is wrong with them."""

from __future__ import annotations

import orjson
import pytest

from engine.errors import SignalError
from engine.expressions import bounded_matcher
from engine.model import Channel, CollectionId, ExecuteSnapshot, Scope, Stretch
from signals.answers import accepted
from signals.model import Signal
from signals.parse.budget import MAX_DATA, MAX_KEYS, MAX_RANGES, MAX_SCOPED
from signals.parse.commands import parse
from signals.parse.names import KnownNames

ORDERS = CollectionId(("public", "orders"))
KNOWN = KnownNames((ORDERS, CollectionId(("public", "items"))), bounded_matcher)


def parsed(text: str, *, names: str = '["public.orders"]'):
    data = f'{{"data-collections": {names}, {text}}}'
    return parse(Signal(Channel.SOURCE, "0/1A", None, "execute-snapshot", data), KNOWN)


def scope(text: str) -> Scope:
    command = parsed(text).command
    assert isinstance(command, ExecuteSnapshot)
    return command.targets[0].scope or Scope()


def refusal(text: str, **how: str) -> str:
    with pytest.raises(SignalError) as caught:
        parsed(text, **how)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"keys": [[1], [2]]', Scope(keys=(("1",), ("2",)))),
        ('"keys": [[1, "a"], [1,"b"]]', Scope(keys=(("1", '"a"'), ("1", '"b"')))),
        ('"keys": [[1.10], [12345678901234567890]]', Scope(keys=(("1.10",), ("12345678901234567890",)))),
        ('"keys": [[{"$oid": "5f"}]]', Scope(keys=(('{"$oid": "5f"}',),))),
        ('"keys": [[1], [1], [ 1 ]]', Scope(keys=(("1",),))),
        ('"keys": [[null]]', Scope(keys=(("null",),))),
        ('"ranges": [{"from": [1], "to": [9]}]', Scope(stretches=(Stretch(("1",), ("9",)),))),
        ('"ranges": [{"from": ["é"]}, {"to": [9]}, {}]',
         Scope(stretches=(Stretch(('"é"',), None), Stretch(None, ("9",)), Stretch()))),
        ('"ranges": [{"from": null, "to": [9]}]', Scope(stretches=(Stretch(None, ("9",)),))),
        ('"keys": null, "ranges": null', Scope()),
        ('"keys": null, "ranges": [{}]', Scope(stretches=(Stretch(),))),
    ],
)  # fmt: skip
def test_keys_and_ranges_are_kept_as_they_were_written(text, expected):
    assert scope(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"keys": 5', "'keys' must be an array, not a number"),
        ('"keys": []', "'keys' is empty; leave it out to read all rows"),
        ('"keys": [5]', "entry 1 of 'keys' must be an array of a key's values, not a number"),
        ('"keys": [[1], []]', "entry 2 of 'keys' has 0 values, and no key has so many"),
        ('"keys": [["a\\u0000"]]', "entry 1 of 'keys' holds a NUL character"),
        ('"ranges": {}', "'ranges' must be an array, not an object"),
        ('"ranges": []', "'ranges' is empty; leave it out to read all rows"),
        ('"ranges": [[1, 2]]', "entry 1 of 'ranges' must be an object, not an array"),
        (
            '"ranges": [{"from": 1}]',
            "'from' in entry 1 of 'ranges' must be an array of a key's values, not a",
        ),
        ('"ranges": [{"frm": [1]}]', "entry 1 of 'ranges' must hold 'from' and 'to', no more"),
        ('"ranges": [{"to": [null]}]', "'to' in entry 1 of 'ranges' holds null, which is no bound"),
        ('"keys": [[1]], "ranges": [{}]', "'keys' and 'ranges' exclude each other; send two signals"),
        (f'"keys": {[[key] for key in range(MAX_KEYS + 1)]}', "'keys' has 10001 entries, at most 10000"),
        (f'"ranges": [{", ".join(["{}"] * (MAX_RANGES + 1))}]', "'ranges' has 501 entries, at most 500"),
    ],
)
def test_what_can_t_be_meant_is_refused_with_the_reason(text, said):
    assert said in refusal(text)


def test_keys_are_those_of_one_collection():
    said = refusal('"keys": [[1]]', names='["public.*"]')

    assert said.startswith("'keys' are those of one collection, and the signal names 2")


@pytest.mark.parametrize(
    "field", ['"keys": [[1]]', '"ranges": [{}]', '"priority": 1', '"max-rows-per-second": 5']
)
def test_a_blocking_snapshot_has_none_of_this(field):
    assert "is for incremental snapshots, and this one is blocking" in refusal(f'"type": "blocking", {field}')


def test_many_keys_make_long_data_and_nothing_else_does():
    keys = orjson.dumps([[f"{key:036}"] for key in range(MAX_KEYS)]).decode()

    assert len(keys) > MAX_DATA
    assert len(scope(f'"keys": {keys}').keys) == MAX_KEYS
    assert "characters, at most" in refusal(f'"keys": {keys}, "surrogate-key": "{"x" * MAX_DATA}"')
    assert "characters, at most" in refusal(f'"keys": [["{"x" * MAX_SCOPED}"]]')


def test_the_answer_says_how_much_is_asked_for():
    keys = accepted(Signal(Channel.SOURCE, "0/1A", None, None, None), parsed('"keys": [[1], [2]]'))
    ranges = accepted(Signal(Channel.SOURCE, "0/1A", None, None, None), parsed('"ranges": [{}]'))

    assert keys.text == "incremental snapshot of public.orders by 2 keys"
    assert ranges.text == "incremental snapshot of public.orders in 1 ranges"
