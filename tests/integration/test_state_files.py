"""The files of a checkpoint: what is kept, what is passed over, what stops the job."""

from __future__ import annotations

import errno
import json
import os

import pytest

from adapters.storage.directory import storage
from adapters.storage.state import KEPT, FileStateStore
from engine.errors import StateError
from engine.ports.state_store import SavedState
from tests.hadoop_storage import through_hadoop

pytestmark = pytest.mark.integration


@pytest.fixture
def store(spark, tmp_path):
    return FileStateStore(storage(spark, str(tmp_path)))


def save(store, *turns):
    for turn in turns:
        store.save_pending(turn, f'{{"turn": {turn}}}'.encode())
        store.promote(turn)


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_the_last_few_promoted_states_are_kept_and_nothing_else(store, tmp_path):
    save(store, *range(1, 9))
    store.save_pending(9, b"{}")

    kept = [f"turn-{turn:012d}.json" for turn in range(9 - KEPT, 9)]
    assert names(tmp_path) == [*kept, "turn-000000000009.pending.json"]


def test_states_of_an_earlier_process_are_counted_among_the_kept(spark, store, tmp_path):
    save(store, *range(1, 7))
    save(FileStateStore(storage(spark, str(tmp_path))), 7, 8)

    assert names(tmp_path) == [f"turn-{turn:012d}.json" for turn in range(9 - KEPT, 9)]


def test_a_file_is_json_that_a_person_can_read(store, tmp_path):
    save(store, 3)

    content = json.loads((tmp_path / "turn-000000000003.json").read_bytes())
    assert content["turn"] == 3
    assert content["state"] == {"turn": 3}


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:40],
        lambda _content: b"",
        lambda _content: b"{}",
        lambda content: content.replace(b'"state":{"turn"', b'"state":{"turm"'),
        lambda content: content + b"\n",
        lambda content: content[:-2] + b"]\n",
        lambda content: content.replace(b'{"turn":2,"bytes"', b'{"turn":1,"bytes"'),
    ],
    ids=[
        "cut",
        "cut in the head",
        "empty",
        "no state",
        "edited",
        "longer",
        "of another end",
        "of another turn",
    ],
)
def test_a_damaged_newest_state_stops_and_is_named(store, tmp_path, damage, pending):
    save(store, 1)
    store.save_pending(2, b'{"turn": 2}')
    if not pending:
        store.promote(2)
    path = tmp_path / f"turn-000000000002{'.pending' if pending else ''}.json"
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(StateError, match=path.name):
        store.load()


def test_what_is_not_a_state_is_passed_over_and_left_alone(store, tmp_path):
    save(store, 1)
    foreign = ["notes.txt", "turn-2.json", "turn-000000000009.json.bak", "turn-x.json", ".hidden"]
    for name in foreign:
        (tmp_path / name).write_text("not ours")

    assert store.load().promoted == SavedState(1, b'{"turn": 1}')
    assert set(foreign) <= set(names(tmp_path))


def test_what_a_crash_left_half_written_is_removed(store, tmp_path):
    save(store, 1)
    partial = tmp_path / f".turn-000000000002.pending.json.{'a' * 32}.partial"
    partial.write_bytes(b'{"turn":2,"byt')

    assert store.load().pending is None
    assert not partial.exists()


def test_a_pending_state_that_was_promoted_already_is_removed(store, tmp_path):
    save(store, 1)
    promoted = (tmp_path / "turn-000000000001.json").read_bytes()
    (tmp_path / "turn-000000000001.pending.json").write_bytes(promoted)

    assert store.load().pending is None
    assert names(tmp_path) == ["turn-000000000001.json"]


def test_an_object_store_gets_its_objects_whole_under_their_own_names(spark, tmp_path):
    store = FileStateStore(through_hadoop(spark, str(tmp_path), renames=False))
    store.save_pending(1, b"first")
    store.save_pending(1, b"second")
    written = names(tmp_path)
    store.promote(1)

    assert written == ["turn-000000000001.pending.json"]
    assert store.load().promoted == SavedState(1, b"second")


def test_storage_that_refuses_is_a_state_error(spark, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(StateError, match="file"):
        storage(spark, str(tmp_path / "file"))
    with pytest.raises(StateError, match="file"):
        through_hadoop(spark, str(tmp_path / "file"), renames=True)


def test_a_write_that_fails_leaves_nothing_behind(store, tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateError, match="No space left"):
        store.save_pending(1, b"{}")

    assert names(tmp_path) == []


def test_a_write_that_fails_in_the_jvm_leaves_nothing_behind(spark, tmp_path):
    class Full:
        def write(self, _content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class FullSystem:
        """The local file system, on which files can be made and not written."""

        def __init__(self, system):
            self.system = system

        def __getattr__(self, name):
            return getattr(self.system, name)

        def create(self, *args):
            self.system.create(*args).close()
            return Full()

    hadoop = through_hadoop(spark, str(tmp_path), renames=True)
    hadoop._system = FullSystem(hadoop._system)
    with pytest.raises(StateError, match="No space left"):
        FileStateStore(hadoop).save_pending(1, b"{}")

    assert names(tmp_path) == []


@pytest.mark.parametrize("directory", ["nosuch://bucket/checkpoint", "", "c:heck:point", "hdfs://"])
def test_a_directory_that_hadoop_does_not_understand_is_a_state_error(spark, directory):
    with pytest.raises(StateError, match="check that the storage"):
        storage(spark, directory)


def test_storage_that_went_away_is_a_state_error(spark, tmp_path):
    store = FileStateStore(storage(spark, str(tmp_path / "checkpoint")))
    (tmp_path / "checkpoint").rmdir()

    with pytest.raises(StateError, match="checkpoint"):
        store.load()


def queues(directory):
    return [name for name in names(directory) if name.startswith("queue")]


def save_naming(store, queue, *turns):
    for turn in turns:
        store.save_pending(turn, f'{{"queue_document": "{queue}"}}'.encode())
        store.promote(turn)


def test_a_queue_is_kept_beside_the_states_that_tell_of_it(store, tmp_path):
    for turn in (1, 2, 8):
        save_naming(store, store.save_beside(turn, b"{}"), turn)
    save_naming(store, "queue-000000000008.0.json", *range(9, 8 + KEPT))
    kept = queues(tmp_path)
    save(store, *range(8 + KEPT, 7 + 2 * KEPT))

    assert kept == queues(tmp_path) == ["queue-000000000008.0.json"]
    save(store, 7 + 2 * KEPT)
    assert queues(tmp_path) == []


def test_a_damaged_queue_is_refused(store, tmp_path):
    name = store.save_beside(1, b'{"tables": []}')
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes().replace(b"tables", b"tablet"))

    with pytest.raises(StateError, match="is damaged"):
        store.load_beside(name)
