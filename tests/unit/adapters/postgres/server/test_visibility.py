"""Which transactions a snapshot shows, ids around a wrap, and places behind page headers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.postgres.server.visibility import Visibility, format_lsn, normalised, parse_lsn

CYCLE = 1 << 32
SEGMENT, PAGE = 16 << 20, 8192


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10:10:", (10, 10, [])),
        ("10:20:10,14,19", (10, 20, [10, 14, 19])),
        ("10:20:19,10", (10, 20, [10, 19])),
        ("38654705664:38654705700:38654705665", (38654705664, 38654705700, [38654705665])),
    ],
)
def test_a_snapshot_s_text_is_read(text, expected):
    read = Visibility.parse(text)

    assert (read.xmin, read.xmax, read.in_progress.tolist()) == expected


@pytest.mark.parametrize("text", ["", "10:20", "a:b:", "10:20:x"])
def test_another_text_is_an_error(text):
    with pytest.raises(ValueError, match=r"invalid literal|not enough values"):
        Visibility.parse(text)


@pytest.mark.parametrize(
    ("snapshot", "xid", "expected"),
    [
        pytest.param("10:20:10,14", 9, True, id="before the oldest in progress"),
        pytest.param("10:20:10,14", 10, False, id="the oldest in progress"),
        pytest.param("10:20:10,14", 11, True, id="done beside it"),
        pytest.param("10:20:10,14", 14, False, id="in progress"),
        pytest.param("10:20:10,14", 19, True, id="the last before the snapshot"),
        pytest.param("10:20:10,14", 20, False, id="the first after it"),
        pytest.param("10:20:10,14", 4_000_000_000, True, id="an id of the epoch before"),
        pytest.param(f"{CYCLE - 5}:{CYCLE + 5}:{CYCLE - 5},{CYCLE + 1}", CYCLE - 6, True, id="before a wrap"),
        pytest.param(
            f"{CYCLE - 5}:{CYCLE + 5}:{CYCLE - 5},{CYCLE + 1}", CYCLE - 5, False, id="open over a wrap"
        ),
        pytest.param(f"{CYCLE - 5}:{CYCLE + 5}:{CYCLE - 5},{CYCLE + 1}", 1, False, id="open behind a wrap"),
        pytest.param(f"{CYCLE - 5}:{CYCLE + 5}:{CYCLE - 5},{CYCLE + 1}", 4, True, id="done behind a wrap"),
        pytest.param(f"{CYCLE - 5}:{CYCLE + 5}:{CYCLE - 5},{CYCLE + 1}", 5, False, id="later, behind a wrap"),
    ],
)
def test_a_snapshot_shows_what_was_committed_before_it(snapshot, xid, expected):
    assert Visibility.parse(snapshot).shows(ids(xid)).tolist() == [expected]


def test_many_are_told_at_once():
    assert Visibility.parse("10:20:14").shows(ids(9, 14, 19, 20)).tolist() == [True, False, True, False]


def test_the_missing_are_those_not_shown():
    assert Visibility.parse("10:20:14").missing([9, 14, 20]) == {14, 20}
    assert Visibility.parse("10:20:14").missing([]) == frozenset()


@given(st.integers(3, 2**62), st.integers(-(2**31), 2**31 - 1))
def test_every_id_near_a_snapshot_is_known_by_its_32_bits(xmax, distance):
    xid = max(0, xmax + distance)
    wide = Visibility(xmax, xmax).widen(ids(xid % CYCLE))

    assert wide.tolist() == [xid]


@given(st.integers(3, 2**62), st.lists(st.integers(1, 2**20), max_size=8), st.integers(-(2**20), 2**20))
def test_what_is_shown_is_told_by_the_full_id(xmax, open_before, distance):
    in_progress = sorted({max(3, xmax - before) for before in open_before} - {xmax})
    xmin = min(in_progress, default=xmax)
    xid = max(3, xmax + distance)
    snapshot = Visibility.parse(f"{xmin}:{xmax}:{','.join(map(str, in_progress))}")

    assert snapshot.shows(ids(xid % CYCLE)).tolist() == [xid < xmax and xid not in in_progress]


@pytest.mark.parametrize(
    ("lsn", "expected"),
    [
        pytest.param(SEGMENT + 40, SEGMENT, id="behind a segment's header"),
        pytest.param(SEGMENT + PAGE + 24, SEGMENT + PAGE, id="behind a page's header"),
        pytest.param(SEGMENT, SEGMENT, id="a segment's begin"),
        pytest.param(SEGMENT + PAGE, SEGMENT + PAGE, id="a page's begin"),
        pytest.param(SEGMENT + PAGE + 40, SEGMENT + PAGE + 40, id="no segment begins there"),
        pytest.param(SEGMENT + 48, SEGMENT + 48, id="behind a record"),
        pytest.param(SEGMENT + PAGE + 32, SEGMENT + PAGE + 32, id="behind a record of a page"),
    ],
)
def test_a_place_behind_a_page_header_is_the_page_s_begin(lsn, expected):
    assert normalised(lsn, SEGMENT, PAGE) == expected


@pytest.mark.parametrize(("text", "lsn"), [("0/0", 0), ("16/B374D848", 0x16B374D848), ("1/0", 1 << 32)])
def test_a_place_has_one_text(text, lsn):
    assert (parse_lsn(text), format_lsn(lsn)) == (lsn, text)


@given(st.integers(0, 2**64 - 1))
def test_every_place_comes_back(lsn):
    assert parse_lsn(format_lsn(lsn)) == lsn


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("10:20:", "20:20:", True),
        ("10:20:12", "12:30:12,25", True),
        ("10:20:", "12:30:12", False),  # 12 is committed and not visible yet
        ("10:20:", "19:19:", False),  # so is 19, the newest id of all
        ("10:20:18,19", "18:18:", True),  # those beyond were not shown before either
    ],
)
def test_whether_a_snapshot_shows_all_that_another_shows(before, now, expected):
    assert Visibility.parse(now).shows_all(Visibility.parse(before)) == expected
