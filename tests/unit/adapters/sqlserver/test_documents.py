"""The examples of the reference documents come out as the documents show them."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from tests.golden.documents import elided, examples
from tests.golden.values import event_difference

EXAMPLES = examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_an_example_comes_out_as_shown(example):
    found = example.emitted()

    assert len(found) == len(example.expected)
    for wanted, emitted in zip(example.expected, found, strict=True):
        assert event_difference(wanted, elided(wanted, emitted)) is None


def test_there_are_examples_of_both_documents():
    assert {example.name.split("_")[0] for example in EXAMPLES} == {"003", "004"}


@pytest.mark.parametrize(
    "path", [("payload", "after", "id"), ("schema", "name"), ("payload", "source", "db")]
)
def test_another_event_is_noticed(path):
    example = next(example for example in EXAMPLES if example.name == "003_customers")
    (wanted, *_), (emitted, *_) = example.expected, example.emitted()
    value = copy.deepcopy(emitted.value)
    inner = value
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = "other"

    assert event_difference(wanted, elided(wanted, replace(emitted, value=value))) is not None
