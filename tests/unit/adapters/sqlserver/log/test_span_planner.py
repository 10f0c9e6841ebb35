"""Spans of the log: complete, in order, bounded; whatever lies in which change table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.sqlserver.log.span_planner import (
    Bounds,
    PlannedSpan,
    Share,
    completed,
    current,
    plan_span,
    shares,
)
from adapters.sqlserver.server.position import ZERO, LogPosition, after_lsn, lsn_of_hex
from adapters.sqlserver.server.table import Capture
from engine.errors import SourceError
from engine.model import CollectionId

START = LogPosition(ZERO)


def lsn(number: int) -> str:
    return lsn_of_hex(f"{number:020x}")


def capture(name: str, *, start: int = 0, created: str = "", table: str | None = None) -> Capture:
    return Capture(name, CollectionId(("db", "dbo", table or name)), lsn(start), (), created=created)


@dataclass(frozen=True)
class Logged:
    """Change tables by instance: the commit, the command and the change of each row, in order."""

    rows: dict[str, list[tuple[str, int, str]]]

    def of(self, share: Share) -> list[tuple[str, int, str]]:
        return [
            row
            for row in self.rows[share.capture.name]
            if share.first <= row[0] <= share.last and share.after < LogPosition(*row, 9) <= share.upto
        ]

    def counts(self, asked: Sequence[Share], most: int) -> list[int]:
        return [min(len(self.of(share)), most) for share in asked]

    def commits(self, asked: Sequence[Share], offsets: Sequence[int]) -> list[str | None]:
        found = [(self.of(share), offset) for share, offset in zip(asked, offsets, strict=True)]
        return [rows[offset][0] if offset < len(rows) else None for rows, offset in found]

    def changes(self, asked: Sequence[Share], step: int) -> list[list[tuple[int, str]]]:
        found = [sorted((command, change) for _commit, command, change in self.of(share)) for share in asked]
        return [[rows[at] for at in range(step - 1, len(rows) - 1, step)] for rows in found]


def logged(*commits: dict[str, int]) -> Logged:
    """A log of commits from 10 on, each with so many rows in some change tables; changes by turns.

    The changes' LSNs do not follow their commands.
    """
    rows: dict[str, list[tuple[str, int, str]]] = {}
    for number, commit in enumerate(commits):
        turns = sorted((turn, name) for name, count in commit.items() for turn in range(count))
        for change, (_turn, name) in enumerate(turns):
            rows.setdefault(name, []).append((lsn(10 + number), change, lsn(1000 * (number + 1) - change)))
    return Logged(rows)


def streamed(
    captures: Sequence[Capture], log: Logged, last: int, bounds: Bounds, after: LogPosition = START
) -> list[PlannedSpan]:
    """All spans up to the end."""
    planned = []
    while after < LogPosition(lsn(last)):
        planned.append(plan_span(captures, after, LogPosition(lsn(last)), bounds, log))
        assert planned[-1].end > after
        after = planned[-1].end
    return planned


def told(log: Logged, spans: Sequence[PlannedSpan]) -> list[tuple[str, int, str, str]]:
    """The rows that the spans' tasks read, in the order of the parts, sorted within each."""
    return [
        row
        for span in spans
        for stretch in span.stretches
        for row in sorted((*row, share.capture.name) for share in stretch for row in log.of(share))
    ]


COMMITS = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 9)), max_size=12)


@given(COMMITS, st.integers(1, 12), st.integers(0, 6), st.integers(1, 5), st.integers(1, 4))
def test_spans_tell_every_row_once_and_in_order(
    commits: list[dict[str, int]], rows: int, few: int, part: int, parts: int
):
    log = logged(*commits)
    captures = [capture(name) for name in log.rows]

    spans = streamed(captures, log, 10 + len(commits), Bounds(rows, few, part, parts))

    everything = sorted((*row, name) for name, found in log.rows.items() for row in found)
    assert told(log, spans) == everything


@given(COMMITS, st.integers(3, 12))
def test_a_span_holds_no_more_rows_than_its_bound(commits: list[dict[str, int]], rows: int):
    log = logged(*commits)
    captures = [capture(name) for name in log.rows]

    spans = streamed(captures, log, 10 + len(commits), Bounds(rows, 0, 100))

    assert all(sum(len(log.of(share)) for share in span.shares) <= rows for span in spans)


def test_a_span_ends_between_commits_where_it_can():
    log = logged({"a": 2}, {"a": 2, "b": 1}, {"b": 4})

    spans = streamed([capture("a"), capture("b")], log, 12, Bounds(5, 0, 100))

    assert [str(span.end) for span in spans[:2]] == [lsn(10), lsn(11)]


def test_changes_that_are_cleaned_up_while_they_are_counted_are_an_error_of_the_source():
    log = logged({"a": 5}, {"a": 5})

    class CleanedUp(Logged):
        def commits(self, asked: Sequence[Share], offsets: Sequence[int]) -> list[str | None]:
            found = log.commits(asked, offsets)
            log.rows["a"].clear()
            return found

    with pytest.raises(SourceError, match=r"the changes of db\.dbo\.a were removed"):
        plan_span([capture("a")], START, LogPosition(lsn(11)), Bounds(4, 2, 2), CleanedUp(log.rows))


def test_a_commit_larger_than_a_span_is_cut_between_its_changes():
    log = logged({"a": 1}, {"a": 10}, {"a": 1})

    spans = streamed([capture("a")], log, 12, Bounds(4, 0, 100))

    inside = [span for span in spans if not span.end.whole]
    assert {span.end.commit for span in inside} == {lsn(11)}
    assert max(Counter(row[0] for row in told(log, inside)).values()) == 8


def test_a_restart_inside_a_commit_goes_on_inside_it():
    log = logged({"a": 4, "b": 4}, {"a": 1})
    captures, bounds = [capture("a"), capture("b")], Bounds(2, 0, 100)
    first = plan_span(captures, LogPosition(ZERO), LogPosition(lsn(11)), bounds, log)

    rest = streamed(captures, log, 11, bounds, after=first.end)

    assert not first.end.whole
    assert told(log, [first, *rest]) == told(log, streamed(captures, log, 11, bounds))


def test_few_rows_are_told_with_their_number():
    planned = plan_span(
        [capture("a")], LogPosition(ZERO), LogPosition(lsn(11)), Bounds(9, 5, 9), logged({"a": 3})
    )

    assert planned.rows == 3


def test_a_silent_table_takes_no_part():
    log = logged({"a": 3})
    log.rows["b"] = []

    planned = plan_span(
        [capture("a"), capture("b")], LogPosition(ZERO), LogPosition(lsn(11)), Bounds(9, 0, 9), log
    )

    assert [share.capture.name for share in planned.shares] == ["a"]


def test_many_small_tables_leave_a_large_one_its_room():
    log = logged({"a": 1, "b": 1, "c": 1}, *({"d": 1} for _row in range(100)))
    captures = [capture(name) for name in "abcd"]

    first = plan_span(captures, LogPosition(ZERO), LogPosition(lsn(110)), Bounds(40, 10, 100), log)

    assert len(told(log, [first])) > 30


class TestInstances:
    def test_the_younger_takes_over_at_its_start(self):
        old, new = capture("t_1", table="t"), capture("t_2", start=15, table="t", created="2")

        found = shares([old, new], LogPosition(lsn(5)), LogPosition(lsn(20)))

        assert [(span.capture.name, span.first, span.last) for span in found] == [
            ("t_1", lsn(6), lsn(14)),
            ("t_2", lsn(15), lsn(20)),
        ]

    def test_after_the_switch_the_older_is_not_asked(self):
        old, new = capture("t_1", table="t"), capture("t_2", start=15, table="t", created="2")

        assert [
            share.capture.name for share in shares([new, old], LogPosition(lsn(15)), LogPosition(lsn(20)))
        ] == ["t_2"]

    def test_two_whose_starts_were_raised_by_cleaning_up_are_told_by_their_making(self):
        old = capture("t_1", start=9, table="t", created="1")
        new = capture("t_2", start=9, table="t", created="2")

        assert [
            share.capture.name for share in shares([new, old], LogPosition(lsn(8)), LogPosition(lsn(20)))
        ] == ["t_2"]

    def test_a_table_enabled_later_is_asked_from_its_start_on(self):
        (found,) = shares([capture("t", start=15)], LogPosition(lsn(5)), LogPosition(lsn(20)))

        assert found.first == lsn(15)

    def test_the_current_instance_is_the_one_of_the_next_commit(self):
        old, new = capture("t_1", table="t"), capture("t_2", start=15, table="t", created="2")

        assert [instance.name for instance in current([old, new], LogPosition(lsn(13)))] == ["t_1"]
        assert [instance.name for instance in current([old, new], LogPosition(lsn(14)))] == ["t_2"]

    def test_a_table_that_begins_later_has_a_current_instance_all_the_same(self):
        assert [instance.name for instance in current([capture("t", start=15)], LogPosition(lsn(3)))] == ["t"]


def test_a_share_inside_a_commit_asks_for_that_commit_again():
    (found,) = shares([capture("a")], LogPosition(lsn(10), 1, lsn(1000), 9), LogPosition(lsn(10)))

    assert (found.first, found.last) == (lsn(10), lsn(10))
    assert after_lsn(found.first) > found.last


@given(st.lists(st.integers(1, 40), max_size=6), st.integers(1, 30))
def test_an_instance_is_left_behind_once_however_the_log_is_cut(cuts: list[int], start: int):
    captures = [
        capture("old", table="t", created="1"),
        capture("young", table="t", created="2", start=start),
        capture("alone", start=3),
    ]
    positions = [START, *(LogPosition(lsn(number)) for number in sorted(cuts))]

    found = [
        (instance.name, stop, upto.commit)
        for after, upto in pairwise(positions)
        for instance, stop in completed(captures, after, upto)
    ]

    passed = [position.commit for position in positions if position.commit > lsn(start)]
    assert found == ([("old", lsn(start), passed[0])] if passed else [])


def test_a_commit_that_is_still_being_read_leaves_nothing_behind_again():
    captures = [capture("old", table="t"), capture("young", table="t", created="2", start=5)]
    inside = LogPosition(lsn(7), 1, lsn(6), 2)

    assert [instance.name for instance, _stop in completed(captures, LogPosition(lsn(5)), inside)] == ["old"]
    assert not completed(captures, inside, LogPosition(lsn(7)))
