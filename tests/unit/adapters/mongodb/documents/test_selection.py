"""Fields that are excluded or renamed, in documents and in the dotted names of updates."""

from __future__ import annotations

from typing import Any

import bson
import orjson
import pytest

from adapters.mongodb.documents.extended_json import STRICT, UPDATED, text, tree
from adapters.mongodb.documents.selection import FieldRule, FieldRules


def rules(path: str, name: str | None = None) -> FieldRules:
    return FieldRules((FieldRule("shop", "people", tuple(path.split(".")), name),))


def after(path: str, document: dict[str, Any], name: str | None = None) -> Any:
    return orjson.loads(text(rules(path, name).edit(tree(bson.encode(document), 0, STRICT)), STRICT))


def updated(path: str, fields: dict[str, Any], name: str | None = None) -> Any:
    return orjson.loads(text(rules(path, name).edit_dotted(tree(bson.encode(fields), 0, UPDATED)), UPDATED))


CASES = [
    pytest.param("a.b", "a.b", "a.X", id="a field of a document"),
    pytest.param("a.b", "a.0.b", "a.0.X", id="of one in an array"),
    pytest.param("a.b", "a.0.1.b", "a.0.1.X", id="of one in an array in an array"),
    pytest.param("a.b", "a.0.b.1.c", "a.0.X.1.c", id="below it"),
    pytest.param("a.2020", "a.2020", "a.X", id="its name is a number"),
    pytest.param("a.2020", "a.0.2020", "a.0.X", id="its name is a number, in an array"),
    pytest.param("a.2020.b", "a.2020.b", "a.2020.X", id="below a number"),
    pytest.param("a.2020.b", "a.7.2020.1.b", "a.7.2020.1.X", id="below a number, in arrays"),
    pytest.param("a.0.0.b", "a.0.0.b", "a.0.0.X", id="below two numbers"),
    pytest.param("0.b", "0.1.b", "0.1.X", id="the first name is never an index"),
]


@pytest.mark.parametrize(("path", "dotted", "renamed"), CASES)
def test_an_update_of_the_field_itself_is_left_out_or_renamed(path: str, dotted: str, renamed: str):
    assert updated(path, {dotted: 1, "z": 2}) == {"z": 2}
    assert rules(path).edited_names([dotted, "z"]) == {"z": "z"}
    assert updated(path, {dotted: 1}, "X") == {renamed: 1}
    assert rules(path, "X").edited_names([dotted]) == {dotted: renamed}


@pytest.mark.parametrize(
    ("path", "dotted"),
    [
        ("a.b", "a.0.c"),
        ("a.b", "b"),
        ("a.b", "a.0"),
        ("a.2020", "a.2021"),
        ("a.2020.b", "a.2021.b"),
        ("b", "0.b"),
    ],
)
def test_an_update_of_another_field_is_left_as_it_is(path: str, dotted: str):
    assert updated(path, {dotted: 1}) == updated(path, {dotted: 1}, "X") == {dotted: 1}
    assert rules(path).edited_names([dotted]) == {dotted: dotted}


@pytest.mark.parametrize(
    ("path", "fields", "left"),
    [
        ("a.b", {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
        ("a.b", {"a.0": {"b": 1, "c": 2}}, {"a.0": {"c": 2}}),
        ("a.b", {"a.0": [{"b": 1, "c": 2}]}, {"a.0": [{"c": 2}]}),
        ("a.2020.b", {"a.2020": {"b": 1, "c": 2}}, {"a.2020": {"c": 2}}),
        ("a.2020.b", {"a.0": {"2020": {"b": 1, "c": 2}}}, {"a.0": {"2020": {"c": 2}}}),
        # `a` may be a document or an array.
        ("a.0.b", {"a.0": {"b": 1, "0": {"b": 1, "c": 2}}}, {"a.0": {"0": {"c": 2}}}),
    ],
)
def test_the_field_is_left_out_of_an_update_of_what_is_around_it(
    path: str, fields: dict[str, Any], left: dict[str, Any]
):
    assert updated(path, fields) == left


@pytest.mark.parametrize(
    ("path", "document", "left"),
    [
        ("a.2020", {"a": {"2020": 1, "c": 2}}, {"a": {"c": 2}}),
        ("a.b", {"a": [{"b": 1, "c": 2}]}, {"a": [{"c": 2}]}),
        ("a.b", {"a": [[{"b": 1, "c": 2}, 3], 4]}, {"a": [[{"c": 2}, 3], 4]}),
        ("a.b.c", {"a": [[{"b": [[{"c": 1}]]}]]}, {"a": [[{"b": [[{}]]}]]}),
    ],
)
def test_the_field_is_left_out_of_documents(path: str, document: dict[str, Any], left: dict[str, Any]):
    assert after(path, document) == left
