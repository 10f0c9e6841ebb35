"""What every state store must promise; see `engine.ports.state_store.StateStore`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from adapters.storage.directory import storage
from adapters.storage.state import FileStateStore
from engine.errors import InvariantError
from engine.ports.state_store import SavedState, SavedStates
from tests.fakes import MemoryStateStore
from tests.hadoop_storage import through_hadoop


@dataclass
class MemoryBench:
    """A store to open as often as a job restarts."""

    promoted: dict[int, bytes] = field(default_factory=dict)
    pending: dict[int, bytes] = field(default_factory=dict)
    beside: dict[str, bytes] = field(default_factory=dict)

    def open(self):
        return MemoryStateStore(self.promoted, self.pending, self.beside)


@dataclass
class LocalBench:
    spark: Any
    directory: str

    def open(self):
        return FileStateStore(storage(self.spark, self.directory))


@dataclass
class HadoopBench:
    """The local file system as any other of Hadoop's; in an object store's clothes if not `renames`."""

    spark: Any
    directory: str
    renames: bool

    def open(self):
        return FileStateStore(through_hadoop(self.spark, self.directory, renames=self.renames))


STORES = [
    "memory",
    *(
        pytest.param(name, marks=pytest.mark.integration)
        for name in ("local path", "file uri", "hadoop", "object store")
    ),
]


@pytest.fixture(params=STORES)
def bench(request, tmp_path):
    if request.param == "memory":
        return MemoryBench()
    spark = request.getfixturevalue("spark")
    directory = tmp_path / "check point%20" / "ü"
    if request.param in {"hadoop", "object store"}:
        return HadoopBench(spark, str(directory), renames=request.param == "hadoop")
    return LocalBench(spark, str(directory) if request.param == "local path" else directory.as_uri())


@pytest.fixture
def store(bench):
    return bench.open()


def test_a_new_store_holds_nothing(store):
    assert store.load() == SavedStates(None, None)


@pytest.mark.parametrize("document", [b'{"position": [1, "\xc3\xa9"]}', b"", b"}\n\x00\xff{" * 1000])
def test_a_document_comes_back_as_it_was_saved(bench, store, document):
    store.save_pending(1, document)
    pending = bench.open().load()
    store.promote(1)

    assert pending == SavedStates(None, SavedState(1, document))
    assert bench.open().load() == SavedStates(SavedState(1, document), None)


def test_a_pending_state_stands_beside_the_promoted_one(bench, store):
    store.save_pending(1, b"one")
    store.promote(1)
    store.save_pending(2, b"two")

    assert bench.open().load() == SavedStates(SavedState(1, b"one"), SavedState(2, b"two"))


def test_the_newest_promoted_state_counts(bench, store):
    for turn in (8, 9, 10, 11):
        store.save_pending(turn, str(turn).encode())
        store.promote(turn)

    assert bench.open().load().promoted == SavedState(11, b"11")


def test_a_turn_saved_again_replaces_what_was_saved(bench, store):
    store.save_pending(1, b"first")
    store.save_pending(1, b"second")

    assert bench.open().load().pending == SavedState(1, b"second")


def test_a_promotion_twice_is_one(bench, store):
    store.save_pending(1, b"one")
    store.promote(1)
    store.promote(1)
    bench.open().promote(1)

    assert bench.open().load() == SavedStates(SavedState(1, b"one"), None)


def test_another_process_promotes_what_was_saved(bench, store):
    store.save_pending(1, b"one")
    bench.open().promote(1)

    assert bench.open().load() == SavedStates(SavedState(1, b"one"), None)


def test_what_was_not_saved_is_not_promoted(store):
    store.save_pending(1, b"one")

    with pytest.raises(InvariantError, match="turn 2"):
        store.promote(2)


def test_a_discarded_state_is_gone_and_its_turn_may_come_again(bench, store):
    store.save_pending(1, b"one")
    store.promote(1)
    store.save_pending(2, b"two")
    store.discard(2)
    after = bench.open().load()
    store.save_pending(2, b"again")
    store.promote(2)

    assert after == SavedStates(SavedState(1, b"one"), None)
    assert bench.open().load() == SavedStates(SavedState(2, b"again"), None)


def test_discarding_nothing_does_nothing(bench, store):
    store.discard(1)
    store.save_pending(1, b"one")
    store.promote(1)
    store.discard(1)

    assert bench.open().load() == SavedStates(SavedState(1, b"one"), None)


def naming(name):
    return f'{{"queue_document": "{name}"}}'.encode()


def test_what_is_kept_beside_comes_back_as_long_as_states_tell_of_it(bench, store):
    name = store.save_beside(3, b"waits")
    for turn in range(3, 20):
        store.save_pending(turn, naming(name))
        store.promote(turn)
    other = store.save_beside(20, b"others wait")

    assert name != other
    assert bench.open().load_beside(name) == b"waits"
    assert bench.open().load_beside(other) == b"others wait"


def test_what_is_kept_beside_outlives_a_newer_one_whose_turn_failed(bench, store):
    name = store.save_beside(2, b"waits")
    store.save_pending(2, naming(name))
    store.promote(2)
    store.save_pending(3, naming(store.save_beside(3, b"waits and is measured")))
    for turn in range(3, 20):
        store.save_pending(turn, naming(name))
        store.promote(turn)

    assert store.load_beside(name) == bench.open().load_beside(name) == b"waits"


def test_what_is_kept_beside_outlives_a_restart_after_a_turn_that_failed(bench, store):
    name = store.save_beside(2, b"waits")
    store.save_pending(2, naming(name))
    store.promote(2)
    store.save_pending(3, naming(store.save_beside(3, b"waits and is measured")))
    store = bench.open()
    store.load()
    for turn in range(3, 20):
        store.save_pending(turn, naming(name))
        store.promote(turn)

    assert bench.open().load_beside(name) == b"waits"
