"""Judging a partition of a table that somebody else keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.verify.partitions import write_partitions
from adapters.verify.tables.foreign_partition import JudgePartition, SortedRows
from engine.verify.seen_row import SeenRow
from engine.verify.settled import DIFFERENCES, TOUCHED, Since
from tests.unit.engine.verify.test_settled import held_rows, seen_rows


@pytest.mark.parametrize(("most", "named", "more"), [(9, 5, 0), (3, 3, 2)])
def test_only_so_many_keys_are_named_that_must_be_looked_at_again(
    tmp_path: Path, most: int, named: int, more: int
):
    """The driver gets no list that grows with the table."""
    write_partitions(str(tmp_path / "seen"), seen_rows([(1, SeenRow.ROW, "a"), (2, SeenRow.ROW, "b")]), 1)
    write_partitions(str(tmp_path / "held"), held_rows([(3, "c"), (4, "d"), (5, "e")]), 1)
    files = SortedRows((str(tmp_path / "seen"),), (str(tmp_path / "held"),), (), ())
    since = Since(DIFFERENCES.empty_table(), TOUCHED.empty_table())

    found = JudgePartition(files, str(tmp_path / "differ"), since, most)(0).findings

    assert (len(found.undecided), found.more, found.undecided_rows) == (named, more, 5)
