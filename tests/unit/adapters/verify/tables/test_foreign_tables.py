"""Finding keys of rows again in a table that somebody else keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from adapters.verify.tables.foreign_tables import keys_found
from engine.verify.compared_digests import key_digests
from engine.verify.settled import HeldPlace


def batches(*keys: Sequence[str], read: list[int]) -> Iterator[tuple[pa.Array, pa.Array]]:
    for number, some in enumerate(keys):
        read.append(number)
        shown = pa.array(some, pa.large_string())
        yield key_digests(shown), shown


def places(*keys: str) -> list[HeldPlace]:
    return [HeldPlace(0, key) for key in key_digests(pa.array(keys, pa.large_string())).to_pylist()]


def test_keys_are_found_by_their_digests_and_no_more_is_read_than_must_be():
    read: list[int] = []

    found = keys_found(places("b", "c"), batches(["a", "b"], ["c"], ["d"], read=read))

    assert list(found.values()) == ["b", "c"]
    assert read == [0, 1]


def test_rows_that_have_gone_have_no_key():
    found = keys_found(places("b", "x"), batches(["a"], ["b"], read=[]))

    assert list(found.values()) == ["b"]


def test_for_no_place_nothing_is_read():
    read: list[int] = []

    assert keys_found([], batches(["a"], read=read)) == {}
    assert read == []
