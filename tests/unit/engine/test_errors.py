"""Errors are values: they keep their fields wherever they go."""

from __future__ import annotations

import inspect
import pickle

import pytest

from adapters.kafka.errors import NotDelivered
from adapters.source.driver_errors import ServerRefused
from engine import errors
from engine.errors import (
    ConfigError,
    SchemaChanged,
    SignalError,
    SinkError,
    TableBusy,
    TidemarkError,
    TopicRemade,
    TopicsRefused,
)
from engine.model import CollectionId

T = CollectionId(("public", "t"))
ANY = [
    kind
    for _name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, TidemarkError) and kind not in {ConfigError, TopicRemade, TopicsRefused}
]


@pytest.mark.parametrize("kind", [*ANY, ServerRefused], ids=lambda kind: kind.__name__)
def test_an_error_travels_with_its_class_and_its_fields(kind: type[TidemarkError]):
    error = kind("it failed", where=T, hint="look at it")
    there = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes

    assert type(there) is kind
    assert (there.message, there.collection, there.where) == ("it failed", T, "public.t")
    assert str(there) == "public.t: it failed; look at it"


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("no such setting", "no such value", hint="see README"),
        TopicRemade("a topic", snapshot=True),
        TopicsRefused({"a": SinkError("denied", where="a")}),
        NotDelivered("late", topic="a topic", hint="look at the brokers"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_one_with_fields_of_its_own_keeps_them(error: TidemarkError):
    there = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes

    assert type(there) is type(error)
    assert {name: str(value) for name, value in vars(there).items()} == {
        name: str(value) for name, value in vars(error).items()
    }


def test_a_place_that_is_no_collection_is_text():
    error = TableBusy("locked", where="public.t")

    assert (error.where, error.collection) == ("public.t", None)


@pytest.mark.parametrize(("hint", "expected"), [(None, "wait"), ("", ""), ("ask again", "ask again")])
def test_another_class_is_about_the_same_collection(hint: str | None, expected: str):
    error = TableBusy("locked", where=T, hint="wait").recast(SchemaChanged, hint)

    assert type(error) is SchemaChanged
    assert (error.message, error.collection, error.hint) == ("locked", T, expected)
    assert SignalError("no such table", where="the catalog").recast(SchemaChanged).where == "the catalog"
