"""What the view of a blocking snapshot does not show."""

from __future__ import annotations

from typing import Any, cast

from adapters.postgres.snapshot.blocking import BlockingView
from engine.model import CollectionId
from engine.snapshot.merge import SupersededKeys

T, U = CollectionId(("public", "t")), CollectionId(("public", "u"))
TOUCHED, MOVED = (b"1", b"1"), (b"5", b"12")


def test_rows_that_moved_behind_a_view_are_told_to_whoever_measures_in_it():
    """Another view may read them: a row that moved beyond the measured end is not in any range."""
    lacking = {T: (TOUCHED, MOVED), U: (TOUCHED,)}
    view = BlockingView(cast("Any", None), {7: T, 8: U}, 0, SupersededKeys(lacking=lacking))

    assert view.moved_keys(untold=()) == {T: {MOVED}, U: frozenset()}
    assert view.moved_keys(untold={7}) == {T: {TOUCHED, MOVED}, U: frozenset()}
