"""The merge rule on sets of keys: what a window's rows lose to the log."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model import CollectionId
from engine.snapshot.key_hashes import KeyHashing
from engine.snapshot.merge import NewerKeys, SupersededKeys
from engine.snapshot.merge_key import KEY_TYPE

T, U = CollectionId(("public", "t")), CollectionId(("public", "u"))


def array(*keys: bytes) -> pa.LargeBinaryArray:
    return pa.array(keys, KEY_TYPE)


def kept(superseded: SupersededKeys, collection: CollectionId, *read: bytes) -> list[bytes]:
    """The keys of a window's rows that are left."""
    keys = pa.chunked_array([array(*read[:1]), array(*read[1:])])
    mask = superseded.of(collection).survivors(keys)
    return list(read) if mask is None else keys.filter(mask).to_pylist()


@pytest.mark.parametrize(
    ("superseded", "expected"),
    [
        pytest.param(SupersededKeys(), [b"1", b"2", b"3"], id="nothing streamed"),
        pytest.param(SupersededKeys({T: (array(b"2"),)}), [b"1", b"3"], id="a change drops the row read"),
        pytest.param(SupersededKeys({T: (array(b"9"),)}), [b"1", b"2", b"3"], id="a key that was not read"),
        pytest.param(
            SupersededKeys({T: (array(b"1", b"1"), array(b"3"))}), [b"2"], id="keys that come twice"
        ),
        pytest.param(SupersededKeys({T: (array(b"1", b"2", b"3"),)}), [], id="every key"),
        pytest.param(SupersededKeys({T: (array(),)}), [b"1", b"2", b"3"], id="no keys"),
        pytest.param(SupersededKeys({U: (array(b"1"),)}), [b"1", b"2", b"3"], id="another collection's key"),
        pytest.param(SupersededKeys(truncated=frozenset([T])), [], id="a truncate drops every row"),
        pytest.param(SupersededKeys(truncated=frozenset([U])), [b"1", b"2", b"3"], id="another's truncate"),
    ],
)
def test_a_row_is_dropped_for_a_newer_entry_of_its_key(superseded, expected):
    assert kept(superseded, T, b"1", b"2", b"3") == expected


def test_what_several_turns_superseded_adds_up():
    first = SupersededKeys({T: (array(b"1"),)})
    second = SupersededKeys({T: (array(b"2"),), U: (array(b"1"),)}, frozenset([U]))

    assert kept(first | second, T, b"1", b"2", b"3") == [b"3"]
    assert kept(first | second, U, b"9") == []
    assert kept(first, T, b"1", b"2") == [b"2"]


def test_lacking_rows_of_several_turns_add_up():
    first = SupersededKeys(lacking={T: ((b"1", b"1"),)})
    second = SupersededKeys(lacking={T: ((b"2", b"2"),), U: ((b"1", b"3"),)})

    assert (first | second).lacking == {T: ((b"1", b"1"), (b"2", b"2")), U: ((b"1", b"3"),)}


@pytest.mark.parametrize(
    ("lacking", "dropped", "expected"),
    [
        pytest.param((), [b"1"], [], id="every entry had all values"),
        pytest.param(((b"1", b"1"),), [b"1"], [b"1"], id="under the same key"),
        pytest.param(((b"1", b"1"),), [b"2"], [], id="not read in this window"),
        pytest.param(((b"1", b"2"),), [b"1"], [b"2"], id="moved to another key"),
        pytest.param(((b"1", b"2"), (b"2", b"3")), [b"1"], [b"2", b"3"], id="moved on and on"),
        pytest.param(((b"2", b"3"), (b"1", b"2")), [b"1"], [b"2", b"3"], id="in any order"),
        pytest.param(((b"1", b"2"), (b"2", b"1")), [b"1"], [b"1", b"2"], id="there and back"),
    ],
)
def test_a_dropped_row_is_read_again_where_the_log_lacks_a_value(lacking, dropped, expected):
    assert sorted(SupersededKeys(lacking={T: lacking}).unsent(T, dropped)) == expected


@pytest.mark.parametrize(
    ("superseded", "expected"),
    [
        pytest.param(SupersededKeys({T: (array(b"1"),)}), [], id="dropped for a complete row"),
        pytest.param(
            SupersededKeys({T: (array(b"1"),)}, lacking={T: ((b"1", b"2"),)}), [b"1"], id="for another"
        ),
        pytest.param(
            SupersededKeys({T: (array(b"1"),)}, lacking={T: ((b"9", b"9"),)}), [], id="of another key"
        ),
        pytest.param(
            SupersededKeys({T: (array(b"1"),)}, frozenset([T]), {T: ((b"1", b"1"),)}), [], id="then truncated"
        ),
    ],
)
def test_dropped_rows_are_named_where_the_log_lacks_a_value(superseded, expected):
    newer, read = superseded.of(T), array(b"1", b"2")

    assert newer.dropped_lacking(read, newer.survivors(read)) == expected


def test_no_mask_is_made_where_all_rows_survive():
    assert NewerKeys(array(b"1")).survivors(array(b"2", b"3")) is None


def test_keys_are_told_apart_by_all_their_bytes():
    assert kept(SupersededKeys({T: (array(b"", b"a\0"),)}), T, b"", b"a", b"a\0", b"a\0\0") == [
        b"a",
        b"a\0\0",
    ]


def test_no_rows_are_no_trouble():
    assert kept(SupersededKeys({T: (array(b"1"),)}, frozenset([T])), T) == []


def test_the_keys_of_a_collection_travel_to_executors():
    newer = SupersededKeys({T: (array(b"1", b"1"),)}, frozenset([T])).of(T)
    there = pickle.loads(pickle.dumps(newer))  # noqa: S301  our own bytes

    assert (there.keys.to_pylist(), there.truncated) == ([b"1", b"1"], True)


def test_a_key_that_changes_again_and_again_takes_no_more_room():
    found = SupersededKeys()
    for turn in range(2_000):
        found |= SupersededKeys({T: (array(b"hot", b"%d" % (turn % 50)),)})

    assert sum(map(len, found.keys[T])) <= 200
    assert kept(found, T, b"hot", b"7", b"cold") == [b"cold"]


def test_a_million_superseded_keys_take_no_more_than_their_own_size_a_few_times():
    keys, at_once = 1_000_000, 10_000
    found, before = SupersededKeys(), pa.total_allocated_bytes()
    for turn in range(3 * keys // at_once):
        start = turn * at_once % keys
        numbers = pa.array(range(start, start + at_once)).cast(pa.string()).cast(pa.large_binary())
        found |= SupersededKeys({T: (numbers,)})
    newer = found.of(T)

    own_bytes = newer.keys.nbytes / len(newer.keys) * keys
    assert pa.total_allocated_bytes() - before < 5 * own_bytes
    assert len(newer.keys) <= 2 * keys


@given(st.lists(st.binary(max_size=3)), st.lists(st.binary(max_size=3)))
def test_what_concerns_a_run_says_the_same_of_its_rows_as_everything(rows, changed):
    hashing = KeyHashing()
    hashing.add(array(*rows))
    everything = SupersededKeys(
        {T: (array(*changed),)}, lacking={T: tuple((key, key) for key in changed)}
    ).of(T)
    newer, keys = everything.within(hashing.all), pa.chunked_array([array(*rows)])
    masks = [one.survivors(keys) for one in (everything, newer)]

    assert masks[0] == masks[1]
    assert newer.dropped_lacking(keys, masks[1]) == everything.dropped_lacking(keys, masks[0])


def test_of_a_million_superseded_keys_a_run_takes_along_those_of_its_rows():
    hashing = KeyHashing()
    hashing.add(array(b"17", b"none"))
    numbers = pa.array(range(1_000_000)).cast(pa.string()).cast(pa.large_binary())
    newer = SupersededKeys({T: (numbers,)}).of(T).within(hashing.all)

    assert b"17" in newer.keys.to_pylist()
    assert len(newer.keys) < 10


def test_many_different_keys_stay_few_arrays_for_a_slice_to_join():
    found = SupersededKeys()
    for turn in range(2_000):
        found |= SupersededKeys({T: (array(*(b"%d" % (10 * turn + at) for at in range(10))),)})

    # Each time that they are merged there are twice as many as the last time, so they are merged few times.
    assert sum(map(len, found.keys[T])) == 20_000
    assert kept(found, T, b"0", b"19999", b"20000") == [b"20000"]
