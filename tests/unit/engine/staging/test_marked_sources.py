"""The source blocks of rows with snapshot markers, as each source writes them before a run is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import orjson
import pytest

from adapters.mongodb.events import source_block as mongodb
from adapters.postgres.events import source_block as postgres
from adapters.sqlserver.events import source_block as sqlserver
from engine.events.settings import EventSettings
from engine.model import CollectionId
from engine.snapshot.markers import Marker
from engine.staging.reads import affixes_for

SETTINGS = EventSettings("tm", "d")
Blocks = Callable[[str], tuple[str, Mapping[str, str]]]


def of_postgres(snapshot: str) -> tuple[str, Mapping[str, str]]:
    given = (SETTINGS, CollectionId(("public", "t")), postgres.ReadPosition(1, lsn=2, snapshot=snapshot))
    return postgres.read_source(*given), postgres.marked_sources(*given)


def of_sqlserver(snapshot: str) -> tuple[str, Mapping[str, str]]:
    given = (SETTINGS, CollectionId(("d", "dbo", "t")), sqlserver.ReadPosition(1, snapshot=snapshot))
    return sqlserver.read_source(*given), sqlserver.marked_sources(*given)


def of_mongodb(snapshot: str) -> tuple[str, Mapping[str, str]]:
    given = (SETTINGS, CollectionId(("d", "t")), "rs0", (1, 2), snapshot)
    return mongodb.read_source(*given), mongodb.marked_sources(*given)


@pytest.mark.parametrize("of", [of_postgres, of_sqlserver, of_mongodb])
def test_each_marker_has_a_block_that_differs_in_nothing_else(of: Blocks):
    plain, marked = of("true")
    blocks = {marker: orjson.loads(text) for marker, text in marked.items()}

    assert {marker: block["snapshot"] for marker, block in blocks.items()} == {
        marker: marker.value for marker in Marker
    }
    assert all({**block, "snapshot": "true"} == orjson.loads(plain) for block in blocks.values())


@pytest.mark.parametrize("of", [of_postgres, of_sqlserver, of_mongodb])
def test_rows_of_an_incremental_snapshot_have_no_markers(of: Blocks):
    assert of("incremental")[1] == {}


def test_what_comes_after_a_row_has_the_block_of_its_marker():
    found = affixes_for(lambda source: ("{", f",{source}}}"), "plain", {"first": "FIRST"})

    assert (found.before, found.behind(None), found.behind(Marker.FIRST)) == ("{", ",plain}", ",FIRST}")
    assert found.behind(Marker.LAST) == ",plain}"
    assert replace(found, marked={}).behind(Marker.FIRST) == ",plain}"
