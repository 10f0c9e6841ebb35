"""Whether the transaction of an event was visible to a window."""

from __future__ import annotations

import json

import pytest

from adapters.postgres.events.settled import SettledIn, settled_then
from adapters.postgres.server.visibility import Visibility

NOW_MS = 10 * 24 * 60 * 60 * 1000
DAY_MS = 24 * 60 * 60 * 1000


@pytest.mark.parametrize(
    ("snapshot", "xid", "age_ms", "settled"),
    [
        ("100:200:150", 99, 0, True),
        ("100:200:150", 149, 0, True),
        ("100:200:150", 150, 0, False),
        ("100:200:150", 150, 2 * DAY_MS, False),
        ("100:200:150", 200, 0, False),
        ("100:200:150", 201, DAY_MS - 1, False),
        ("100:200:", 201, DAY_MS, True),  # the id is of another cycle
        ("100:200:", None, 0, True),  # a row that a snapshot has read
        (f"{2**32 + 5}:{2**32 + 9}:{2**32 + 6}", 6, 0, False),
        (f"{2**32 + 5}:{2**32 + 9}:{2**32 + 6}", 2**32 - 1, 0, True),
    ],
)
def test_what_a_window_can_not_see_is_not_settled(snapshot, xid, age_ms, settled):
    source = {"txId": xid, "ts_ms": NOW_MS - age_ms, "lsn": 1, "schema": "public"}

    shown = SettledIn(Visibility.parse(snapshot), NOW_MS, unassigned=300)
    block = json.dumps(source).encode()

    assert shown(block) is settled
    assert settled_then(shown.saved())(block) is settled
    assert settled_then(shown.saved()).unassigned == 300


@pytest.mark.parametrize("hides_sent", [True, False])
def test_whether_something_sent_was_hidden_is_saved(hides_sent):
    shown = SettledIn(Visibility.parse("100:200:150"), NOW_MS, 300, hides_sent)

    assert settled_then(shown.saved()) == shown


def test_a_block_that_tells_nothing_is_settled():
    assert SettledIn(Visibility.parse("100:200:150"), NOW_MS)(b"{}") is True


@pytest.mark.parametrize(
    ("earlier", "unassigned", "later", "shown"),
    [
        ("100:100:", 100, "100:100:", True),  # nothing goes on
        ("100:100:", 101, "100:100:", False),  # the newest transaction is in no list
        ("100:100:", 101, "101:101:", True),
        ("99:100:99", 100, "99:120:99", False),
        ("99:100:99", 100, "110:120:110", True),
        ("100:100:", 0, "200:200:", False),  # not asked for
    ],
)
def test_what_had_begun_is_visible_once_the_snapshot_is_past_it(earlier, unassigned, later, shown):
    then = SettledIn(Visibility.parse(earlier), NOW_MS, unassigned)

    assert SettledIn(Visibility.parse(later), NOW_MS, 500).shows_all_before(then) is shown
