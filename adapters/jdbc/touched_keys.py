"""The keys that turns have touched, for as long as somebody compares their tables.

A table of the target shows its present rows only. Whoever compares it must know in which turn each row was
last written or deleted. The sink knows the keys when it folds a turn, so it notes them here once the turn is
committed, by topic, in files of the job's own.
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
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from adapters.jdbc.fold import Fold

TOUCHED: Final = pa.schema(
    [("turn", pa.int64()), ("key", pa.large_string()), ("lacks", pa.bool_()), ("update", pa.bool_())]
)
"""Keys as fields of COPY, in the order of their turns; a null key: the table was truncated before them.

`lacks`: the key's last event in the turn lacks a value. `update`: it is an update.
"""


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

    `follow`, `note` and `committed` are called by the thread of the turns, `since` by any.
    """

    directory: Path
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
                noted.append(_batch(turn, pa.nulls(1, pa.large_string()), [False], [False]))
            keys, lacks, updates = fold.touched()
            noted.append(_batch(turn, keys, lacks, updates))

    def committed(self, turn: int) -> None:
        """Note that the turn is committed. Raises SinkError if there is no room."""
        for topic, batches in self._noted.items():
            self._append(self._journals[topic], batches)
            if any(batch.column("key").null_count for batch in batches):
                self._journals[topic].truncated = turn
        self._noted = {}

    def _append(self, journal: _Journal, batches: Sequence[pa.RecordBatch]) -> None:
        with sink_errors(journal.path):
            if journal.file is None:
                self.directory.mkdir(parents=True, exist_ok=True)
                journal.file = journal.path.open("wb")
                journal.stream = pa.ipc.new_stream(journal.file, TOUCHED)
            for batch in batches:
                journal.stream.write_batch(batch)
            journal.file.flush()
            journal.size = journal.file.tell()

    def truncated(self, topic: str) -> int:
        """The last turn that has truncated a topic's table; -1 if none has."""
        journal = self._journals.get(topic)
        return -1 if journal is None else journal.truncated

    def key(self, topic: str) -> tuple[str, ...]:
        """The columns of the keys that were noted; none before the first."""
        journal = self._journals.get(topic)
        return () if journal is None else journal.key

    def since(self, topic: str, after: int, upto: int) -> Iterator[pa.RecordBatch]:
        """The keys of a topic in the turns after `after`, up to `upto`, as batches of TOUCHED."""
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
    """A batch of TOUCHED; all of it is of one turn."""
    count = len(keys)
    flags = [pa.array(lacks, pa.bool_()), pa.array(updates, pa.bool_())]
    return pa.RecordBatch.from_arrays(
        [pa.repeat(pa.scalar(turn, pa.int64()), count), keys, *flags], schema=TOUCHED
    )
