"""The keys that turns have touched, for as long as somebody compares their tables.

A table of the target shows its present rows only. Whoever compares it must know in which turn each row was
last written or deleted. The sink knows the keys when it folds a turn, so it notes them here once the turn is
committed, by topic, in files of the job's own. Keys are fields of COPY, or what a sink makes of its own.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from adapters.jdbc.folding.fold import Fold
    from engine.events.values.text import Ints

_TEXT: Final = pa.large_string()


def touched_schema(key: pa.DataType) -> pa.Schema:
    """Keys of a type, in the order of their turns; a null key: the table was truncated before them.

    `lacks`: the key's last event in the turn lacks a value. `update`: it is an update.
    """
    return pa.schema([("turn", pa.int64()), ("key", key), ("lacks", pa.bool_()), ("update", pa.bool_())])


def _as_copied(fold: Fold, rows: Ints) -> pa.Array:
    return fold.keys_of(rows)


@dataclass(slots=True)
class _Journal:
    """The file of a topic: `size` bytes of it are complete."""

    path: Path
    file: Any = None
    stream: Any = None
    size: int = 0
    truncated: int = -1
    key: tuple[str, ...] = ()


@dataclass(slots=True)
class TouchedKeys:
    """Notes keys below `directory`, which is made when it is needed.

    `keys_of` gives the keys of a fold's events, of the type `kind`. All turns up to the one `newest`
    are noted.

    `follow`, `note` and `note_commit` are called by the thread of the turns, `since` by any.
    """

    directory: Path
    kind: pa.DataType = _TEXT
    keys_of: Callable[[Fold, Ints], pa.Array] = _as_copied
    newest: int = 0
    _journals: dict[str, _Journal] = field(default_factory=dict)
    _noted: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def follow(self, topics: Collection[str]) -> None:
        """Note the keys of these topics from now on, and forget those of all others."""
        with self._lock:
            for topic in self._journals.keys() - set(topics):
                journal = self._journals.pop(topic)
                if journal.file is not None:
                    journal.file.close()
                journal.path.unlink(missing_ok=True)
            for topic in set(topics) - self._journals.keys():
                name = sha256(topic.encode()).hexdigest()[:16]
                self._journals[topic] = _Journal(self.directory / f"touched-{name}.arrow")

    def begin(self) -> None:
        """Forget what was noted of a turn that was not committed."""
        self._noted = {}

    def note(self, turn: int, topics: Sequence[str], fold: Fold) -> None:
        """Note what a turn does to a table, which has the events of these topics."""
        for topic in self._journals.keys() & set(topics):
            self._journals[topic].key = tuple(name for name, _schema in fold.events.columns.key)
            noted = self._noted.setdefault(topic, [])
            if fold.events.truncated:
                noted.append(self._emptied(turn))
            rows, lacks, updates = fold.touched()
            noted.append(_batch(turn, self.keys_of(fold, rows), lacks, updates))

    def note_all(self, turn: int, topic: str) -> None:
        """Note that a turn may have touched each key of a topic."""
        if topic in self._journals:
            self._noted.setdefault(topic, []).append(self._emptied(turn))

    def _emptied(self, turn: int) -> pa.RecordBatch:
        return _batch(turn, pa.nulls(1, self.kind), [False], [False])

    @property
    def followed(self) -> frozenset[str]:
        """The topics whose keys are noted."""
        return frozenset(self._journals)

    def note_commit(self, turn: int) -> None:
        """Note that the turn is committed. Raises SinkError if there is no room."""
        for topic, batches in self._noted.items():
            self._append(self._journals[topic], batches)
            if any(batch.column("key").null_count for batch in batches):
                self._journals[topic].truncated = turn
        self._noted = {}
        self.newest = turn

    def _append(self, journal: _Journal, batches: Sequence[pa.RecordBatch]) -> None:
        with sink_errors(journal.path):
            if journal.file is None:
                self.directory.mkdir(parents=True, exist_ok=True)
                journal.file = journal.path.open("wb")
                journal.stream = pa.ipc.new_stream(journal.file, touched_schema(self.kind))
            for batch in batches:
                journal.stream.write_batch(batch)
            journal.file.flush()
            journal.size = journal.file.tell()

    def last_truncate(self, topic: str) -> int:
        """The last turn that has truncated a topic's table; -1 if none has."""
        journal = self._journals.get(topic)
        return -1 if journal is None else journal.truncated

    def key(self, topic: str) -> tuple[str, ...]:
        """The columns of the keys that were noted; none before the first."""
        journal = self._journals.get(topic)
        return () if journal is None else journal.key

    def since(self, topic: str, after: int, upto: int) -> Iterator[pa.RecordBatch]:
        """The keys of a topic in the turns after `after`, up to `upto`, as batches of `touched_schema`."""
        with self._lock:
            journal = self._journals.get(topic)
            if journal is None or not journal.size:
                return
            path, size = journal.path, journal.size
        with sink_errors(path), pa.memory_map(str(path)) as file:
            content = file.read_buffer(size)
        with pa.ipc.open_stream(content) as stream:
            for batch in stream:
                turn = batch.column("turn")[0].as_py() if batch.num_rows else -1
                if after < turn <= upto:
                    yield batch

    def clear(self) -> None:
        """Forget everything."""
        self.follow(())
        shutil.rmtree(self.directory, ignore_errors=True)


def _batch(turn: int, keys: pa.Array, lacks: Any, updates: Any) -> pa.RecordBatch:
    """A batch of `touched_schema`; all of it is of one turn."""
    flags = [pa.array(lacks, pa.bool_()), pa.array(updates, pa.bool_())]
    turns = pa.repeat(pa.scalar(turn, pa.int64()), len(keys))
    return pa.RecordBatch.from_arrays([turns, keys, *flags], schema=touched_schema(keys.type))
