"""Which relations a part of the log holds entries of."""

from __future__ import annotations

import pyarrow as pa
import pytest

from adapters.postgres.log.entries import relations_in
from tests.unit.adapters.postgres.messages import Log

HIGH = 4_000_000_000
"""An oid that a signed number can't hold."""


def relations(log: Log, start: int = 0) -> frozenset[int]:
    return relations_in(pa.array(log.messages, pa.large_binary())[start:])


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        pytest.param(lambda log: log.insert(5, "a"), {5}, id="insert"),
        pytest.param(lambda log: log.update(HIGH, ("b",), ("a",)), {HIGH}, id="update"),
        pytest.param(lambda log: log.delete(6, ("a",)), {6}, id="delete"),
        pytest.param(lambda log: log.truncate(7, HIGH), {7, HIGH}, id="truncate"),
        pytest.param(lambda log: log.message("m", b"IUD"), set(), id="message"),
        pytest.param(
            lambda log: log.add(b"R" + (8).to_bytes(4, "big") + b"s\0t\0d\0\0"), set(), id="relation"
        ),
    ],
)
def test_each_kind_of_entry_names_its_relations(write, expected):
    log = Log()
    log.begin(1)
    write(log)
    log.commit()

    assert relations(log) == expected


def test_a_part_has_those_of_its_own_entries():
    log = Log()
    for oid in (3, 4, 4, 5):
        log.insert(oid, "a")

    assert [sorted(relations(log, start)) for start in (0, 1, 4)] == [[3, 4, 5], [4, 5], []]
