"""Which entries of a publication are younger than a slot, and which tables than their entries."""

from __future__ import annotations

import pytest

from adapters.postgres.server.watches.membership import Members, _written_since, newly_published


@pytest.mark.parametrize(
    ("mark", "oldest", "since"),
    [
        ("16500 700 16501 700", 701, False),
        ("16500 700 16501 701", 701, True),
        ("16500 702 16501 700", 701, True),
        ("16500 700", 700, True),
        ("16500 700", 701, False),
        ("16500 700 16501 690, 16500 700 16502 705", 701, True),
        ("16500 700 16501 690 16507 702", 701, True),
        ("16500 2 16501 1", 701, False),
        ("16500 4294967290", 5, False),
        ("16500 5", 4294967290, True),
    ],
)
def test_an_entry_counts_as_written_since_by_its_newest_transaction(mark, oldest, since):
    assert _written_since(mark, oldest) is since


ALL = Members.of({1: "16500 740", 2: "16500 740"})
SOME = Members.of({1: "16500 740 16501 741"})


@pytest.mark.parametrize(
    ("before", "now", "existing", "expected"),
    [
        pytest.param(ALL, ALL, {1, 2}, {}, id="nothing"),
        pytest.param(ALL, Members.of({1: "16500 740", 3: "16500 740"}), {1, 2}, {3: True}, id="created"),
        pytest.param(ALL, Members.of({3: "16500 740"}), {1, 2, 3}, {3: False}, id="renamed into the lists"),
        pytest.param(ALL, Members.of({3: "16500 740"}), None, {3: False}, id="nobody looked before"),
        pytest.param(
            SOME, Members.of({3: "16500 740 16502 750"}), {1}, {3: False}, id="created, then published"
        ),
        pytest.param(
            SOME, Members.of({3: "16500 740 16501 741"}), {1}, {3: True}, id="a new partition of a member"
        ),
        pytest.param(
            ALL, Members.of({1: "16600 760", 3: "16600 760"}), {1, 2}, {3: False}, id="another publication"
        ),
    ],
)
def test_a_table_is_told_if_it_is_younger_than_what_publishes_it(before, now, existing, expected):
    assert newly_published(before, now, existing, unchanged={1, 2, 3}) == expected


def test_a_table_that_was_something_else_before_is_read():
    now = Members.of({1: "16500 740", 3: "16500 740"})

    assert newly_published(ALL, now, {1, 2}, unchanged={1, 2}) == {3: False}
