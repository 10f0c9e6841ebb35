"""Where the parts of a turn wait until it is committed, and how they get to disk.

Owns the attempt directories, the part files, and what is forced to disk. Each sink decides what a committed
turn is.

    <root>/turn-000000000042.<attempt>/part-00000.jsonl         a finished part (.arrow for some sinks)
                                      /.part-00001.<task>       a part being written

Every attempt has its own directory, and only `begin` creates one. So a task left over from an earlier attempt
fails instead of adding to a turn that is not its own. `begin` does not create the root either: if the next
job has removed a job's root, that job fails, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from adapters.staging.turn_names import turn_name
from adapters.storage.disk import force_directory, make_private
from engine.errors import InvariantError, SinkError, StateError
from engine.events.values.text import text_parts
from engine.model import NO_FILE, Checksum, Part
from engine.staging.checksum import ChecksumFile, checksum_of
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

RESTORE: Final = "restore it with the rest of the journal, from the same backup"
_DAMAGED: Final = "the turn is begun again; if this recurs, look at the disk of the staging directory"


class Staging:
    """The attempt directories under one hidden root, which is created here; used by the driver."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._begun: tuple[int, Path] | None = None
        with sink_errors(root):
            make_private(root)

    def begin(self, turn: int) -> Path:
        """Remove what earlier attempts left, and create a directory for a new one."""
        self.clear()
        path = self._root / f"{turn_name(turn)}.{uuid.uuid4().hex}"
        with sink_errors(path):
            path.mkdir()
        self._begun = (turn, path)
        return path

    def begun(self, turn: int) -> Path:
        """The directory of the attempt in progress. Raises InvariantError if there is none."""
        if self._begun is None or self._begun[0] != turn:
            raise InvariantError(f"turn {turn} is committed without having been begun")
        return self._begun[1]

    def clear(self) -> None:
        """Remove every attempt. One that a stray task still writes to may stay until the next call."""
        self._begun = None
        with (
            sink_errors(self._root),
            contextlib.suppress(FileNotFoundError),
            os.scandir(self._root) as entries,
        ):
            for entry in entries:
                shutil.rmtree(entry.path, ignore_errors=True)


class Forcing:
    """Forces an attempt's parts and their names to disk in a thread, while the turn goes on.

    An fsync waits for the file system's journal, beside a snapshot for tens of milliseconds. Those that run
    at the same time share one write of it: here, the parts' and the state's.

        turn's thread    write part   rename  |  force state    rename, force its directory  |  commit
        this thread                  force part  ───────────    force the parts' directory
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tidemark-force")
        self._begun: list[Future[None]] = []
        self._named: list[Path] = []
        self._left_out: set[Path] = set()

    def begin(self, file: ChecksumFile) -> None:
        """Begin to force what was written to a file, which may be closed and renamed meanwhile."""
        self._begun.append(self._pool.submit(_force_and_close, os.dup(file.fileno())))

    def begin_name(self, path: Path) -> None:
        """Begin to force the name of a file that has just got it. Several threads may call this at once.

        Whoever appends last counts all names, so the directory is forced after the last of them.
        """
        self._named.append(path)
        self._begun.append(self._pool.submit(self._force_names, path.parent, len(self._named)))

    def forget_name(self, path: Path) -> None:
        """Note that a part has no file any more. A task may give another one its name."""
        self._left_out.add(path)

    def _force_names(self, directory: Path, named: int) -> None:
        if named == len(self._named):  # else a later call forces the directory for both
            force_directory(directory)

    def wait(self) -> frozenset[Path]:
        """Wait until all is on disk; returns the files whose names are.

        Raises the first OSError, and again each time: what could not be forced must not be committed.
        """
        wait(self._begun)
        for forced in self._begun:
            forced.result()
        return frozenset(self._named) - self._left_out

    def clear(self) -> None:
        """Begin with another attempt; waits until the last one's files are left alone."""
        wait(self._begun)
        self._begun, self._named, self._left_out = [], [], set()

    def close(self) -> None:
        """End the thread, once it has forced what was begun; errors don't matter."""
        self._pool.shutdown()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A task gets None, and forces what it writes before it ends."""
        return type(None), ()


def _force_and_close(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class StagedWriter:
    """Writes parts into an attempt's directory; `render` turns events into text.

    `mode` is the parts' file mode; None: as the umask says. With `forcing`, whoever commits waits for it.
    """

    directory: Path
    render: Callable[[pa.RecordBatch], pa.LargeStringArray]
    mode: int | None = None
    forcing: Forcing | None = None

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Render the part and write it. Holds one batch and its text in memory at a time."""
        return self.write_texts(part, map(self.render, batches))

    def write_texts(self, part: int, texts: Iterable[pa.LargeStringArray]) -> Part:
        """Write the part under a temporary name, force it to disk or begin to, then rename it.

        A part without events leaves no file.
        """
        with replacing(self._path(part)) as partial:
            events, checksum = _write(partial, texts, self.mode, self.forcing)
            if not events:
                partial.unlink()
        if events:
            self._begin_name(part)
        elif self.forcing is not None:
            self.forcing.forget_name(self._path(part))
        return Part(part, events, checksum if events else NO_FILE)

    def take(self, part: int, path: str, events: int, checksum: Checksum) -> Part:
        """Link the part's name to a file that is on disk already; copy the file if linking fails."""
        with replacing(self._path(part)) as partial, sink_errors(partial):
            try:
                partial.hardlink_to(path)
            except OSError:
                _copy(path, partial, checksum, self.mode)
        self._begin_name(part)
        return Part(part, events, checksum, staged=True)

    def _begin_name(self, part: int) -> None:
        if self.forcing is not None:
            self.forcing.begin_name(self._path(part))

    def _path(self, part: int) -> Path:
        return self.directory / f"part-{part:05d}.jsonl"


@dataclass(frozen=True, slots=True)
class ArrowParts:
    """Writes parts as Arrow files into an attempt's directory, for a sink that reads them when it commits.

    A file holds streams, one after another: each batch with another schema begins the next. Only the process
    that has begun the turn needs it, so nothing is forced to disk.
    """

    directory: Path

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Write the part; one without events leaves no file."""
        events = 0
        with replacing(self.directory / f"part-{part:05d}.arrow") as partial:
            with sink_errors(partial):
                file = ChecksumFile(partial)
            # Only the file's own errors are the sink's: `batches` may fail for other reasons.
            with contextlib.closing(file), contextlib.closing(_Streams(file)) as streams:
                for batch in batches:
                    if batch.num_rows:
                        events += batch.num_rows
                        with sink_errors(partial):
                            streams.write(batch)
            if not events:
                partial.unlink()
        return Part(part, events, file.checksum if events else NO_FILE)


class _Streams:
    """Streams in one file; a batch with another schema begins the next."""

    def __init__(self, file: ChecksumFile) -> None:
        self._file = file
        self._stream: Any = None
        self._schema: pa.Schema | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._schema is None or not batch.schema.equals(self._schema, check_metadata=True):
            self.close()
            self._stream, self._schema = pa.ipc.new_stream(self._file, batch.schema), batch.schema
        self._stream.write_batch(batch)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


@dataclass(frozen=True, slots=True)
class ArrowPart:
    """The file of a part with its checksum."""

    path: Path
    checksum: Checksum

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its batches, memory-mapped. Raises SinkError if they are not what was written."""
        with self._content() as content:
            if checksum_of(content) != self.checksum:
                raise SinkError("is damaged: its checksum is wrong", where=str(self.path), hint=_DAMAGED)
            yield from _batches_in(content)

    def committed(self) -> Iterator[pa.RecordBatch]:
        """As `batches`, of a turn that is not begun again. Raises StateError if it is damaged."""
        with self._content() as content:
            if checksum_of(content) != self.checksum:
                raise StateError("is damaged: its checksum is wrong", where=str(self.path), hint=RESTORE)
            yield from _batches_in(content)

    @contextlib.contextmanager
    def _content(self) -> Iterator[pa.Buffer]:
        with sink_errors(self.path), pa.memory_map(str(self.path)) as source:
            yield source.read_buffer()


def _batches_in(content: pa.Buffer) -> Iterator[pa.RecordBatch]:
    """The batches of streams that stand one after another."""
    reader = pa.BufferReader(content)
    while reader.tell() < content.size:
        with pa.ipc.open_stream(reader) as stream:
            yield from stream


def _write(
    path: Path, texts: Iterable[pa.LargeStringArray], mode: int | None, forcing: Forcing | None
) -> tuple[int, Checksum]:
    """Write texts; returns how many there are, and the file's checksum."""
    events = 0
    with sink_errors(path):
        file = ChecksumFile(path, mode)
    # Only the file's own errors are the sink's: `texts` may fail for other reasons.
    with contextlib.closing(file):
        for some in texts:
            ends, data = text_parts(some)
            if len(some):
                events += len(some)
                with sink_errors(path):
                    file.write(data[ends[0] : ends[-1]].data)
        with sink_errors(path):
            if forcing is None:
                file.force()
            else:
                forcing.begin(file)
    return events, file.checksum


def _copy(source: str, target: Path, checksum: Checksum, mode: int | None) -> None:
    with open(source, "rb") as original, contextlib.closing(ChecksumFile(target, mode)) as copy:  # noqa: PTH123
        while piece := original.read(1 << 20):
            copy.write(piece)
        copy.force()
        if copy.checksum != checksum:
            raise SinkError("rows that were staged are damaged", where=source, hint="they are read again")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a unique name to write to, which then replaces `path`; if no file was written, `path` is removed.

    So a part appears complete or not at all, and writing it again replaces it.
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


def part_files(directory: Path) -> list[Path]:
    """The finished parts of an attempt, in the order of their numbers.

    If the attempt's directory was removed, this raises SinkError: that is not an attempt without parts.
    """
    with sink_errors(directory):
        found = [path for path in directory.iterdir() if path.name.startswith("part-")]
    return sorted(found, key=number)


def written_files(directory: Path, parts: Sequence[Part]) -> list[Path]:
    """The finished parts of an attempt. Raises SinkError unless they are exactly those that were written."""
    found = part_files(directory)
    expected = {part.number: part.checksum.bytes for part in parts if part.events}
    with sink_errors(directory):
        sizes = {number(path): path.stat().st_size for path in found}
    for part in sorted(expected.keys() | sizes.keys()):
        if part not in sizes or part not in expected:
            how = "is missing" if part not in sizes else "was written by somebody else"
            raise SinkError(f"part {part} {how}", where=str(directory), hint="the turn is begun again")
        if expected[part] != sizes[part]:
            how = f"has {sizes[part]} bytes of {expected[part]}"
            raise SinkError(f"part {part} {how}", where=str(directory), hint="the turn is begun again")
    return found


def number(path: Path) -> int:
    """The number of a part, from its file's name."""
    return int(path.stem.removeprefix("part-"))


def force(directory: Path) -> None:
    """Force a directory's entries to disk. Raises SinkError on failure."""
    with sink_errors(directory):
        force_directory(directory)
