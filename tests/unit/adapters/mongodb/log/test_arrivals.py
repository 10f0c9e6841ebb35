"""Which collections are new to the job, and which of them have documents that the stream does not tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.mongodb.log.arrivals import Arrivals
from adapters.mongodb.settings import CaptureScope, MongoSettings
from engine.config import parse
from engine.config.settings import Settings
from engine.config.sources.selection import CaptureSettings
from engine.model import Arrival, CollectionId, Position

T, U = CollectionId(("shop", "t")), CollectionId(("shop", "u"))
SETTINGS = parse(
    {
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "mongodb.connection.string": "mongodb://localhost:1/?replicaSet=rs",
        "topic.prefix": "shop",
        "tidemark.sink": "console",
    }
)


def capturing(
    collections: str = "", *, scope: CaptureScope = CaptureScope.DEPLOYMENT, target: str = ""
) -> Settings:
    mongodb = replace(SETTINGS.source_as(MongoSettings), scope=scope, target=target)
    lists = CaptureSettings(include_tables=(collections,) if collections else ())
    return replace(SETTINGS, source=mongodb, capture=lists)


class Deployment:
    """The captured collections, the cluster time, and a clock; the stream is at its end."""

    def __init__(self, *names: CollectionId, settings: Settings = SETTINGS) -> None:
        self.names, self.time_s = list(names), 100
        self.arrivals = Arrivals(
            settings, lambda: self.names, lambda: (self.time_s, 1), lambda: float(self.time_s)
        )

    def look(self, *, streamed_to_s: int | None = None) -> list[Arrival]:
        """What has appeared, ten seconds later."""
        self.time_s += 10
        at_s = self.time_s if streamed_to_s is None else streamed_to_s
        self.arrivals.look(Position((f"82{at_s:08X}{1:08X}", "", 1)))
        return self.arrivals.take_appeared()


@pytest.fixture
def deployment() -> Deployment:
    found = Deployment(T)
    assert not found.look()
    return found


def test_one_that_is_created_is_told_by_the_stream(deployment):
    deployment.names.append(U)

    assert deployment.look() == [Arrival(U, told=True)]
    assert not deployment.look()


def test_it_is_announced_once_the_stream_has_come_to_it(deployment):
    deployment.names.append(U)

    assert not deployment.look(streamed_to_s=100)
    assert deployment.look() == [Arrival(U, told=True)]


def test_a_rename_onto_a_name_that_was_not_there_brings_documents(deployment):
    deployment.arrivals.renamed(U, (deployment.time_s + 5, 1))
    deployment.names.append(U)

    assert deployment.look() == [Arrival(U)]
    assert not deployment.look(), "it is not announced as one that was created"


def test_a_look_before_the_stream_brings_the_rename_announces_nothing(deployment):
    deployment.names.append(U)
    assert not deployment.look(streamed_to_s=100)
    deployment.arrivals.renamed(U, (deployment.time_s - 5, 1))

    assert deployment.look() == [Arrival(U)]


def test_a_rename_onto_one_that_was_there_is_none_of_these(deployment):
    deployment.arrivals.renamed(T, (deployment.time_s + 5, 1))

    assert not deployment.look()


def test_a_rename_from_before_the_start_counts_as_one_onto_a_new_name(deployment):
    deployment.arrivals.renamed(T, (50, 1))

    assert deployment.look() == [Arrival(T)]


def test_one_that_goes_and_comes_back_by_a_rename_is_new(deployment):
    deployment.names.clear()
    assert not deployment.look()
    deployment.arrivals.renamed(T, (deployment.time_s + 5, 1))

    assert deployment.arrivals.take_appeared() == [Arrival(T)]


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (capturing(r"shop\.t"), capturing(), [Arrival(U)]),
        (capturing(r"shop\.t"), capturing(r"shop\.t"), []),
        (capturing(), capturing(r"shop\.u"), []),
        (capturing(scope=CaptureScope.DATABASE, target="shop"), capturing(), []),
        (capturing(scope=CaptureScope.DATABASE, target="other"), capturing(), [Arrival(T), Arrival(U)]),
        (capturing(scope=CaptureScope.COLLECTION, target="shop.t"), capturing(), [Arrival(U)]),
    ],
)
def test_what_other_settings_did_not_capture_is_found_after_a_restart(before, now, found):
    saved = Deployment(settings=before).arrivals.saved
    deployment = Deployment(T, U, settings=now)
    deployment.arrivals.begin(saved)

    assert deployment.arrivals.saved == saved, "until it is told"
    assert deployment.arrivals.take_appeared() == found
    assert deployment.arrivals.saved == Deployment(settings=now).arrivals.saved


def test_a_state_of_an_earlier_release_says_nothing_of_them():
    deployment = Deployment(T)
    deployment.arrivals.begin(None)

    assert not deployment.arrivals.take_appeared()
