"""The picture of a key space: exact for integers, by rows elsewhere, and without gaps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from adapters.http.key_space import Fate, Segment, chunk_ends, segments, segments_of_failed
from engine.model import CollectionId, Range, Run, Target, Window
from engine.snapshot.extent import Extent, FailedSnapshot, Gap, Progress
from engine.snapshot.queue_entry import Table

TARGET = Target(CollectionId(("public", "t")))
SPANNED = Extent(rows=1000, bytes=1, greatest=("1000",), span=(1, 1000))
PROBED = Extent(rows=1000, bytes=1, greatest=("z",))
WHOLE = Extent(rows=10, bytes=1, whole=True)
DONE, FLYING, WAITING, FAILED = Fate.DONE, Fate.IN_FLIGHT, Fate.WAITING, Fate.FAILED


def table(progress: Progress | None) -> Table:
    return Table(1, "s", TARGET, progress)


def left(extent: Extent, *ranges: Range, rows: int = 0) -> Progress:
    return Progress(extent, 0, ranges, rows=rows)


def window(after: str | None, upto: str | None, chunks: int = 1, ticket: int = 1) -> Window:
    start, end = (None if bound is None else (bound,) for bound in (after, upto))
    return Window("w", (Run(ticket, TARGET, start, end, chunks),))


@pytest.mark.parametrize(
    ("progress", "windows", "expected"),
    [
        pytest.param(None, [], [(0, 1, WAITING)], id="queued"),
        pytest.param(
            left(SPANNED, Range(("250",), ("1000",))),
            [window("250", "500")],
            [(0, 0.25, DONE), (0.25, 0.5, FLYING), (0.5, 1, WAITING)],
            id="integers, where they are",
        ),
        pytest.param(
            replace(left(SPANNED, Range(("500",), ("1000",))), missing=(Gap(Range(("100",), ("200",))),)),
            [],
            [(0, 0.1, DONE), (0.1, 0.2, FAILED), (0.2, 0.5, DONE), (0.5, 1, WAITING)],
            id="a part that could not be read",
        ),
        pytest.param(
            left(SPANNED, Range(("250",), ("1000",))),
            [window("250", "500", ticket=2)],
            [(0, 0.25, DONE), (0.25, 1, WAITING)],
            id="another entry's window",
        ),
        pytest.param(
            left(PROBED, Range(("k",), ("z",)), rows=250),
            [window("k", "m", chunks=5)],
            [(0, 0.25, DONE), (0.25, 0.3, FLYING), (0.3, 1, WAITING)],
            id="by rows elsewhere",
        ),
        pytest.param(left(WHOLE, Range()), [window(None, None)], [(0, 1, FLYING)], id="read whole"),
        pytest.param(left(SPANNED), [], [(0, 1, DONE)], id="nothing left"),
    ],
)
def test_segments_show_where_a_collection_stands(progress, windows, expected):
    found = segments(table(progress), windows, chunk_rows=10)

    assert [part.fate for part in found] == [fate for _start, _end, fate in expected]
    assert [end for part in found for end in (part.start, part.end)] == pytest.approx(
        [end for start, upto, _fate in expected for end in (start, upto)]
    )
    assert (found[0].start, found[-1].end) == (0.0, 1.0)
    assert all(one.end == other.start for one, other in pairwise(found))


def test_a_failed_collection_shows_what_it_lacks():
    gaps = (Gap(Range(("1",), ("2",))), Gap(None, (("7",),)))

    assert segments_of_failed(FailedSnapshot(TARGET, (), (Gap(Range()),))) == (Segment(0.0, 1.0, FAILED),)
    assert [part.fate for part in segments_of_failed(FailedSnapshot(TARGET, (), gaps))] == [FAILED, DONE]


def test_the_ends_of_what_is_in_flight():
    found = segments(table(left(SPANNED, Range(("250",), ("1000",)))), [window("250", "500")], 10)

    assert chunk_ends(found) == pytest.approx((0.25, 0.5))
    assert chunk_ends((Segment(0, 1, DONE),)) is None
