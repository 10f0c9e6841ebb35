"""The source block of READ events."""

from __future__ import annotations

import orjson
import pytest

from adapters.mongodb.events.source_block import read_source
from engine.events.settings import EventSettings
from engine.model import CollectionId


@pytest.mark.parametrize(("at", "ts_ms"), [((17, 3), 17_000), ((0, 0), 0)])
def test_it_has_the_cluster_time_in_milliseconds_also_before_anything_was_streamed(at, ts_ms):
    block = orjson.loads(
        read_source(EventSettings("tm", "d"), CollectionId(("d", "t")), "rs0", at, "incremental")
    )

    assert (block["ts_ms"], block["ord"]) == (ts_ms, at[1])
