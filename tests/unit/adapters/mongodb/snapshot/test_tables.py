"""Measuring collections: what signals ask for takes a bounded time of the server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from adapters.mongodb.server.catalog import CollectionDescription
from adapters.mongodb.server.collection_probes import CollectionSize, Refusal
from adapters.mongodb.snapshot.tables import MongoCollections
from engine.errors import SignalError, TableBusy
from engine.model import CollectionId, Scope, Stretch, Target
from engine.snapshot.extent import Extent

T = CollectionId(("shop", "t"))


class SlowServer:
    """Takes six seconds to plan a condition or to rank keys."""

    def __init__(self):
        self.now_s = 0.0
        self.probes = self
        self.catalog = SimpleNamespace(
            collections=lambda _database: {T: CollectionDescription(T, "collection", "u")}
        )

    def now(self):
        return (5, 1)

    def size(self, _collection):
        return CollectionSize(1_000_000, 1 << 30)

    def least_id(self, _collection, _at):
        return "1"

    greatest_id = least_id

    def refusal(self, _collection, _condition):
        self.now_s += 6.0
        return Refusal("it is too slow")

    def ranks(self, _collection, keys):
        self.now_s += 6.0
        return list(range(len(keys)))


def measured(*targets):
    server = SlowServer()
    questions: Any = server
    tables = MongoCollections(questions, lambda _name: True, monotonic=lambda: server.now_s)
    return [type(extent) for extent in tables.measure(targets)]


def test_conditions_that_are_planned_for_long_do_not_add_up():
    conditioned = [Target(T, f'{{"a": {number}}}') for number in range(20)]
    found = measured(*conditioned, Target(T))

    assert found == [SignalError] * 2 + [TableBusy] * 18 + [Extent]


def test_ranges_that_are_ranked_for_long_do_not_add_up():
    scoped = [Target(T, scope=Scope(stretches=(Stretch((str(number),), None),))) for number in range(20)]

    assert measured(*scoped) == [Extent] * 2 + [TableBusy] * 18


def test_the_owner_s_filters_are_not_limited():
    initial = [Target(T, f'{{"a": {number}}}', initial=True) for number in range(20)]

    assert measured(*initial) == [SignalError] * 20
