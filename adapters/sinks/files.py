"""The files sink: JSON lines, one directory per turn, exactly once.

Owns the layout of the directory, and decides when a turn counts as committed. A reader sees a turn whole or
not at all, and may read the directories in the order of their names:

    <directory>/turn-000000000042/part-00000.jsonl    a committed turn
                                 /.manifest.json      sizes and checksums of a snapshot's rows
               /.staging/000000000007/…               a turn being written by the job of epoch 7
               /.windows/000000000007/…               rows that wait for their turn
               /.empty-turn                           the number of the last turn without events
               /.lease-000000000007.json              which job may write
               /.id                                   distinguishes the directory from every other one

A line is an event. Blanks may precede it where a row was superseded while it waited.

Driver and executors must share the directory. It must be on one file system, which renames atomically and
which `fsync` forces to disk.

A job that has lost its lease without knowing it can't commit: committing renames something out of the
directory of its epoch, and the next job removes that directory.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from adapters.sinks.lines import json_ending, json_lines
from adapters.staging.turn_names import turn_name
from adapters.staging.turn_parts import Forcing, StagedWriter, Staging, force, written_files
from adapters.storage.disk import make_private, take_over
from engine.errors import LeaseLost, SinkRefused
from engine.events.batch import EventForm
from engine.staging.files import sink_errors
from engine.staging.text_rows import TextRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.model import Part
    from engine.ports.sink import PartWriter

MANIFEST: Final = ".manifest.json"
_TURN: Final = re.compile(r"turn-(\d{12,})")
_EPOCH: Final = re.compile(r"\d{12,}")


class FilesSink:
    """Writes turns below one directory, which is created if missing, as the job of an epoch.

    What jobs of other epochs have begun there can't be committed from now on. `mode` is the file mode of a
    committed turn's files; None: as the umask says.
    """

    form: Final = EventForm.RECORDS
    knows_turns: Final = True

    def __init__(self, directory: Path | str, epoch: int = 0, mode: int | None = None) -> None:
        # Executors may run in another working directory.
        self._directory = Path(directory).absolute()
        self._epoch, self._mode = epoch, mode
        with sink_errors(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
        with sink_errors(self._directory):
            for mine in (self._root, self._windows):
                take_over(mine)
        self._staging, self._empty = Staging(self._root), _EmptyTurn(self._directory, self._root)
        self._forcing = Forcing()
        self._committed: int | None = None

    @property
    def row_form(self) -> TextRows:
        """Rows wait as rendered text, on the file system where they will stay."""
        return TextRows(json_lines, json_ending, str(self._windows), self._mode)

    def writer(self, turn: int) -> PartWriter:
        """Begin a turn."""
        return StagedWriter(self.begin(turn), json_lines, self._mode, self._forcing)

    def begin(self, turn: int) -> Path:
        """Begin a turn; returns the directory of its parts."""
        if self.resolve_commit(turn):
            raise SinkRefused(
                f"turn {turn} is committed already",
                where=str(self._directory),
                hint="use the checkpoint that this directory belongs to, or an empty directory",
            )
        self.ensure_epoch()
        self._forcing.clear()
        return self._staging.begin(turn)

    def withhold(self, parts: Sequence[Part], topic: str) -> tuple[()]:  # noqa: ARG002  it refuses none
        """Do nothing: no topic refuses events here."""
        return ()

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        """Rename the attempt's directory to the turn's."""
        if self._committed == turn:
            return
        staged = self._staging.begun(turn)
        if files := written_files(staged, parts):
            if any(part.staged for part in parts):
                self._describe(staged, turn, parts)
            with sink_errors(staged):
                on_disk = self._forcing.wait()
            if not on_disk.issuperset(files):  # a task has written some of them
                force(staged)
            with sink_errors(self._path(turn)):
                if self._mode is not None:
                    # Whoever may read a file may list its directory.
                    staged.chmod(self._mode | (self._mode & 0o444) >> 2)
                staged.rename(self._path(turn))
        else:
            self._empty.mark(turn)
        force(self._directory)
        self._committed = turn

    def resolve_commit(self, turn: int) -> bool:
        """Find out whether the turn's directory exists, or it was the last turn without events."""
        with sink_errors(self._directory):
            found = self._path(turn).is_dir() or self._empty.last() == turn
        if found:
            # The process that renamed it may have died before forcing the name to disk.
            force(self._directory)
        return found

    def newest_turn(self) -> int | None:
        """The newest turn that has a directory or had no events."""
        with sink_errors(self._directory):
            found = [int(match[1]) for match in map(_TURN.fullmatch, _names(self._directory)) if match]
            empty = self._empty.last()
        return max([*found, *([] if empty is None else [empty])], default=None)

    def resume(self, saved: Mapping[str, str]) -> None:
        """Do nothing: this sink keeps nothing in the state."""

    def memory(self) -> Mapping[str, str]:
        """Nothing to save."""
        return {}

    def identity(self) -> str:
        """The directory's own id, created at the first call; it stays when the directory is moved."""
        path = self._directory / ".id"
        with sink_errors(path):
            with contextlib.suppress(FileNotFoundError):
                if name := path.read_text("ascii").strip():
                    return name
            self.ensure_epoch()
            partial = self._root / ".id"
            with partial.open("w", encoding="ascii") as file:
                file.write(f"{uuid.uuid4()}\n")
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
            force(self._directory)
            return path.read_text("ascii").strip()

    def close(self) -> None:
        """Remove what was not committed."""
        self._forcing.close()
        self._staging.clear()

    @property
    def _root(self) -> Path:
        return self._directory / ".staging" / f"{self._epoch:012d}"

    @property
    def _windows(self) -> Path:
        return self._directory / ".windows" / f"{self._epoch:012d}"

    def _path(self, turn: int) -> Path:
        return self._directory / turn_name(turn)

    def ensure_epoch(self) -> None:
        """Recreate the epoch's directory if somebody removed it.

        Raises LeaseLost if that was the next job.
        """
        with sink_errors(self._root):
            if self._root.is_dir():
                return
            with contextlib.suppress(FileNotFoundError):
                epochs = filter(_EPOCH.fullmatch, _names(self._root.parent))
                if any(name > self._root.name for name in epochs):
                    raise LeaseLost("another job has taken over", where=str(self._directory))
            make_private(self._root)

    def _describe(self, staged: Path, turn: int, parts: Sequence[Part]) -> None:
        """Write the parts' checksums beside them, for whoever doubts a file that lay elsewhere before.

        It is not forced to disk, which would delay the snapshot and the changes beside it. So after a power
        failure it may be empty or missing; nothing is known of the turn's files then. Turns of streamed
        changes alone have none.
        """
        listed = [
            {
                "name": f"part-{part.number:05d}.jsonl",
                "events": part.events,
                "bytes": part.checksum.bytes,
                "xxh3": part.checksum.digest,
            }
            for part in parts
            if part.events
        ]
        path = staged / MANIFEST
        with sink_errors(path):
            path.write_bytes(orjson.dumps({"turn": turn, "parts": listed}))
            if self._mode is not None:
                path.chmod(self._mode)


class _EmptyTurn:
    """The file that names the last turn without events, written by way of another in `partials`.

    An idle job turns every second: one file with a number, not a directory for each turn.
    """

    def __init__(self, directory: Path, partials: Path) -> None:
        self._marker, self._partial = directory / ".empty-turn", partials / ".empty-turn"

    def last(self) -> int | None:
        """The turn. A damaged marker names none: at worst, a turn without events is begun again."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(self._marker.read_text("ascii"))
        return None

    def mark(self, turn: int) -> None:
        """Name this turn. Raises SinkError."""
        with sink_errors(self._marker):
            with self._partial.open("w", encoding="ascii") as file:
                file.write(f"{turn}\n")
                file.flush()
                os.fsync(file.fileno())
            self._partial.replace(self._marker)


def _names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]
