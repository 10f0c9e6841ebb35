"""When the signal table is looked into, and what counts as new there."""

from __future__ import annotations

import pytest

from adapters.source.signals.stop_watch import StopWatch


class Table:
    """A signal table whose rows, or None, can be set, and a clock."""

    def __init__(self) -> None:
        self.rows: frozenset[str] | None = frozenset({"old"})
        self.now_s = self.looks = 0
        self.watch = StopWatch(self.read, lambda: float(self.now_s))
        self.watch.begin()

    def read(self) -> frozenset[str] | None:
        self.looks += 1
        return self.rows

    def found(self, *rows: str) -> bool:
        """Whether something is found a second later, when the table has these rows besides."""
        self.now_s += 1
        self.rows = frozenset({"old", *rows})
        return self.watch.look()


@pytest.fixture
def table() -> Table:
    return Table()


def test_a_row_that_was_there_before_is_not_found(table):
    assert not table.found()


def test_a_new_row_is_found_once(table):
    assert [table.found("new"), table.found("new"), table.found("new", "newer")] == [True, False, True]


def test_a_row_that_is_removed_is_nothing_new(table):
    table.found("new")

    assert not table.found()


def test_a_table_that_cannot_be_read_tells_nothing(table):
    table.now_s, table.rows = 1, None

    assert not table.watch.look()
    assert table.found("new")


def test_it_looks_only_when_it_is_time_to(table):
    assert not table.watch.look()
    assert table.looks == 1
