"""Debezium beside us: what its process tells, and what both come to."""

from __future__ import annotations

import pytest

from tests.bench.peers.engine import Counted, parse_counted
from tests.bench.peers.measure import peer_line


def test_an_engine_s_line_tells_topic_and_moments() -> None:
    assert parse_counted("counted peer.public.a b 1700000000000 1700000001500") == Counted(
        "peer.public.a b", 1_700_000_000_000, 1_700_000_001_500
    )


@pytest.mark.parametrize("line", ["ended true null", "", "[main] ERROR counted x 1 2"])
def test_other_lines_of_an_engine_count_nothing(line: str) -> None:
    assert parse_counted(line) is None


def test_a_ratio_is_how_many_times_theirs_ours_is() -> None:
    line = peer_line("snapshot", "wide", 1000, "3.6.1.Final", (400_000.4, 40_000.0))

    assert line == {
        "bench": "peers",
        "case": "snapshot",
        "table": "wide",
        "rows": 1000,
        "sink": "null",
        "peer": "3.6.1.Final",
        "per_s": 400_000,
        "peer_per_s": 40_000,
        "ratio": 10.0,
    }
