"""Which producer gets which events of a large turn: the hash of a key, groups of partitions, their shares."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kafka.partitions import Groups, key_hashes, of_groups, shares
from tests.batches import batch


def murmur2(key: bytes) -> int:
    """Java's hash of a key (`org.apache.kafka.common.utils.Utils.murmur2`), byte by byte, made positive."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    found = 0x9747B28C ^ len(key)
    end = len(key) // 4 * 4
    for at in range(0, end, 4):
        word = int.from_bytes(key[at : at + 4], "little") * m & mask
        word = (word ^ word >> 24) * m & mask
        found = (found * m & mask) ^ word
    if end < len(key):
        found = (found ^ int.from_bytes(key[end:], "little")) * m & mask
    found = (found ^ found >> 13) * m & mask
    return (found ^ found >> 15) & 0x7FFFFFFF


# From the tests of Kafka's own murmur2, which has signed hashes.
KNOWN = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


def test_hashes_are_those_of_javas_clients():
    keys = pa.array(list(KNOWN), pa.large_string())

    assert key_hashes(keys).tolist() == [known & 0x7FFFFFFF for known in KNOWN.values()]


@given(st.lists(st.none() | st.text(max_size=40)), st.integers(0, 3))
def test_any_keys_are_hashed_as_one_by_one_also_in_a_slice(keys: list[str | None], start: int):
    hashes = key_hashes(pa.array(keys, pa.large_string()).slice(start)).tolist()

    assert hashes == [0 if key is None else murmur2(key.encode()) for key in keys[start:]]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 50)), max_size=60),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 9)),
    st.integers(1, 5),
)
def test_each_event_has_one_producer_which_has_all_events_of_its_key_in_order(
    drawn: list[tuple[str, int | None]], partitions: dict[str, int], tasks: int
):
    events = [
        (topic, None if key is None else str(key), str(at), None) for at, (topic, key) in enumerate(drawn)
    ]
    counts = {topic: 1 for topic, *_rest in events}
    shared = [of_groups(batch(*events), share).to_pylist() for share in shares(counts, partitions, tasks)]
    owners: dict[tuple[str, str | None], int] = {}
    for number, found in enumerate(shared):
        places = [int(event["value"]) for event in found]
        assert places == sorted(places)
        for event in found:
            assert owners.setdefault((event["topic"], event["key"]), number) == number

    assert sorted(int(event["value"]) for found in shared for event in found) == list(range(len(events)))


def test_a_producer_has_partitions_of_its_own():
    events = batch(*(("t", str(key), "{}", None) for key in range(500)))
    for share in shares({"t": 500}, {"t": 8}, 3):
        mine = of_groups(events, share).column("key").to_pylist()
        others = set(events.column("key").to_pylist()).difference(mine)

        assert {murmur2(key.encode()) % 8 for key in mine}.isdisjoint(
            murmur2(key.encode()) % 8 for key in others
        )


@pytest.mark.parametrize(
    ("events", "partitions", "tasks", "expected"),
    [
        ({"a": 5}, {}, 4, [{"a": {0}}]),
        ({"a": 5, "b": 3, "c": 2}, {}, 2, [{"a": {0}}, {"b": {0}, "c": {0}}]),
        ({"a": 1, "b": 1}, {"a": 1}, 1, [{"a": {0}, "b": {0}}]),
        ({"a": 8}, {"a": 8}, 2, [{"a": {0}}, {"a": {1}}]),
        ({"a": 8}, {"a": 2}, 4, [{"a": {0}}, {"a": {1}}]),
        ({"a": 8, "b": 4}, {"a": 3}, 2, [{"a": {0}, "b": {0}}, {"a": {1}}]),
    ],
)
def test_topics_are_shared_out_by_their_events(events, partitions, tasks, expected):
    found = [
        {topic: set(groups.chosen) for topic, groups in share.items()}
        for share in shares(events, partitions, tasks)
    ]

    assert found == expected


def test_a_share_of_everything_is_the_batch_itself():
    rows = batch(("a", "1", "{}", None), ("b", "2", "{}", None))
    everything = {"a": Groups(4, 2, frozenset([0, 1])), "b": Groups(1, 1, frozenset([0]))}

    assert of_groups(rows, everything) is rows
