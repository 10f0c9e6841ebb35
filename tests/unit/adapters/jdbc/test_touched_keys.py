"""The keys that turns have touched, noted while somebody compares their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapters.jdbc.touched_keys import TouchedKeys
from tests.typed_batches import MISSING, TOPIC, change, typed
from tests.unit.adapters.jdbc.test_fold import fold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa


@pytest.fixture
def touched(tmp_path: Path) -> Iterator[TouchedKeys]:
    made = TouchedKeys(tmp_path / "touched")
    yield made
    made.clear()


def commit(touched: TouchedKeys, turn: int, *batches: pa.RecordBatch) -> None:
    touched.begin()
    touched.note(turn, [TOPIC], fold(*batches))
    touched.note_commit(turn)


def noted(touched: TouchedKeys, after: int = 0, upto: int = 99) -> list[tuple[Any, ...]]:
    rows = [row for batch in touched.since(TOPIC, after, upto) for row in batch.to_pylist()]
    return sorted((row["turn"], row["key"], row["lacks"], row["update"]) for row in rows if row["key"])


def test_each_keys_last_event_of_a_turn_is_noted(touched: TouchedKeys):
    touched.follow([TOPIC])
    commit(touched, 1, typed(change("c", 1), change("d", 1), change("u", 2, "b", MISSING)))
    commit(touched, 2, typed(change("u", 2), change("r", 3)))

    assert noted(touched) == [
        (1, "1", False, False),
        (1, "2", True, True),
        (2, "2", False, True),
        (2, "3", False, False),
    ]
    assert [row[:2] for row in noted(touched, 1)] == [(2, "2"), (2, "3")]
    assert [row[:2] for row in noted(touched, 0, 1)] == [(1, "1"), (1, "2")]
    assert touched.key(TOPIC) == ("id",)


def test_a_turn_that_is_not_committed_is_not_noted(touched: TouchedKeys):
    touched.follow([TOPIC])
    touched.begin()
    touched.note(1, [TOPIC], fold(typed(change("c", 1))))
    commit(touched, 1, typed(change("c", 2)))

    assert [row[:2] for row in noted(touched)] == [(1, "2")]


def test_only_what_is_followed_is_noted(touched: TouchedKeys):
    commit(touched, 1, typed(change("c", 1)))
    touched.follow([TOPIC])
    commit(touched, 2, typed(change("c", 2)))
    seen = noted(touched)
    touched.follow(["other"])
    touched.follow([TOPIC])

    assert [row[:2] for row in seen] == [(2, "2")]
    assert noted(touched) == []
    assert list(touched.directory.iterdir()) == []


def test_a_truncate_is_noted(touched: TouchedKeys):
    touched.follow([TOPIC])
    commit(touched, 1, typed(change("c", 1)))
    before = touched.last_truncate(TOPIC)
    commit(touched, 2, typed(change("c", 1), change("t", 0), change("c", 2)))

    assert (before, touched.last_truncate(TOPIC)) == (-1, 2)
    assert [row[:2] for row in noted(touched, 1)] == [(2, "2")]
