"""Where the parts of a turn wait until it is committed, and how they reach the disk.

Owns the attempt directories, the part files, and what is forced to disk. What a committed turn is, each
sink decides.

    <root>/turn-000000000042.<attempt>/part-00000.jsonl         a finished part
                                      /.part-00001.<task>       a part being written

Every attempt has a directory of its own, and nobody but `begin` creates one: a task left over from
an earlier attempt fails, instead of adding to a turn that is not its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.disk import force_directory
from engine.errors import InvariantError
from engine.events.text import text_parts
from engine.files import sink_errors, write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa


def turn_name(turn: int) -> str:
    """The name of a turn's directory; sorts as the turns do."""
    return f"turn-{turn:012d}"


class Staging:
    """The attempt directories under one hidden root; held by the driver."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._begun: tuple[int, Path] | None = None

    def begin(self, turn: int) -> Path:
        """Remove what earlier attempts left and make a directory for a new one."""
        with sink_errors(self._root):
            self._root.mkdir(parents=True, exist_ok=True)
        self.clear()
        path = self._root / f"{turn_name(turn)}.{uuid.uuid4().hex}"
        with sink_errors(path):
            path.mkdir()
        self._begun = (turn, path)
        return path

    def begun(self, turn: int) -> Path:
        """The directory of the attempt in progress; raises InvariantError if there is none."""
        if self._begun is None or self._begun[0] != turn:
            raise InvariantError(f"turn {turn} is committed without having been begun")
        return self._begun[1]

    def clear(self) -> None:
        """Remove every attempt. One that a stray task still writes to may stay until next time."""
        self._begun = None
        with (
            sink_errors(self._root),
            contextlib.suppress(FileNotFoundError),
            os.scandir(self._root) as entries,
        ):
            for entry in entries:
                shutil.rmtree(entry.path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class StagedWriter:
    """Writes parts into an attempt's directory, each event rendered by `render`."""

    directory: Path
    render: Callable[[pa.RecordBatch], pa.LargeStringArray]

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> None:
        """Render the part and write it; memory: one batch and its text at a time."""
        self.write_texts(part, map(self.render, batches))

    def write_texts(self, part: int, texts: Iterable[pa.LargeStringArray]) -> None:
        """Write the part under a name of its own, force it to disk, then give it its real name.

        A part without events leaves no file.
        """
        with replacing(self._path(part)) as partial:
            if not _write(partial, texts):
                partial.unlink()

    def take(self, part: int, path: str) -> None:
        """Give a file, which is on disk, the part's name as well; copy it where that can't be."""
        with replacing(self._path(part)) as partial, sink_errors(partial):
            try:
                partial.hardlink_to(path)
            except OSError:
                shutil.copyfile(path, partial)
                with partial.open("rb") as copy:
                    os.fsync(copy.fileno())

    def _path(self, part: int) -> Path:
        return self.directory / f"part-{part:05d}.jsonl"


def _write(path: Path, texts: Iterable[pa.LargeStringArray]) -> int:
    with sink_errors(path):
        file = path.open("xb", buffering=0)
    size = 0
    # Only the file's own errors are the sink's: `texts` may fail for reasons of its own.
    with file:
        for some in texts:
            ends, data = text_parts(some)
            if len(some):
                with sink_errors(path):
                    size += write_all(file, data[ends[0] : ends[-1]].data)
        with sink_errors(path):
            os.fsync(file.fileno())
    return size


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name to write to, of nobody else's, which becomes `path`; no file there: none here either.

    So a part appears whole, and one that is written again replaces itself.
    """
    partial = path.with_name(f".{path.stem}.{uuid.uuid4().hex}")
    try:
        yield partial
        with sink_errors(path):
            if partial.exists():
                partial.replace(path)
            else:
                path.unlink(missing_ok=True)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def parts(directory: Path) -> list[Path]:
    """The finished parts of an attempt, in the order of their numbers.

    An attempt whose directory was taken away is a SinkError, not an attempt without parts.
    """
    with sink_errors(directory):
        found = [path for path in directory.iterdir() if path.name.startswith("part-")]
    return sorted(found, key=number)


def number(path: Path) -> int:
    """The number of a part, by its file's name."""
    return int(path.stem.removeprefix("part-"))


def force(directory: Path) -> None:
    """Force a directory's entries to disk; a failure is a SinkError."""
    with sink_errors(directory):
        force_directory(directory)
