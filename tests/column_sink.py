"""A sink that takes columns: a directory of Arrow files for each turn, and their rows merged."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from adapters.sinks.forgetful import Forgetful
from engine.errors import SinkRefused
from engine.events.batch import EVENTS, EventForm
from engine.model import Part
from engine.staging.column_rows import ColumnRows
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class ColumnWriter:
    """Writes the batches of a part to files of its own, in order."""

    directory: Path

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Write a part, in place of an earlier attempt's."""
        rows = 0
        with sink_errors(self.directory):
            for earlier in self.directory.glob(f"{part:05d}-*"):
                earlier.unlink()
            for number, batch in enumerate(batches):
                rows += batch.num_rows
                path = self.directory / f"{part:05d}-{number:05d}.arrow"
                with path.open("wb") as file, pa.ipc.new_file(file, batch.schema) as stream:
                    stream.write(batch)
        return Part(part, rows)


class ColumnSink(Forgetful):
    """Keeps turns as directories below one directory."""

    form: Final = EventForm.COLUMNS
    row_form: Final = ColumnRows()

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def writer(self, turn: int) -> ColumnWriter:
        """Begin a turn."""
        if self.resolve_commit(turn):
            raise SinkRefused(f"turn {turn} is committed already", where=str(self._directory))
        begun = self._directory / f"{turn}.begun"
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True)
        return ColumnWriter(begun)

    def commit(self, turn: int, parts: Sequence[Part]) -> None:  # noqa: ARG002  it keeps what was written
        """Rename the turn's directory."""
        if not self.resolve_commit(turn):
            (self._directory / f"{turn}.begun").rename(self._path(turn))

    def resolve_commit(self, turn: int) -> bool:
        """Whether the turn is committed."""
        return self._path(turn).is_dir()

    def newest_turn(self) -> int | None:
        """The newest committed turn."""
        return max((int(path.name) for path in self._turns()), default=None)

    def close(self) -> None:
        """Do nothing."""

    def batches(self) -> list[pa.RecordBatch]:
        """Everything that is committed, in order."""
        paths = sorted(self._turns(), key=lambda path: int(path.name))
        return [batch for turn in paths for file in sorted(turn.iterdir()) for batch in _read(file)]

    def _path(self, turn: int) -> Path:
        return self._directory / f"{turn}"

    def _turns(self) -> Iterator[Path]:
        return (path for path in self._directory.glob("*") if path.name.isdigit())


def _read(path: Path) -> list[pa.RecordBatch]:
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        return [reader.get_batch(number) for number in range(reader.num_record_batches)]


def merged(batches: Iterable[pa.RecordBatch], topic: str) -> dict[Any, dict[str, Any]]:
    """The rows of a table by `id`: what its batches make of it one after another, each merged as a whole."""
    rows: dict[Any, dict[str, Any]] = {}
    for batch in batches:
        if batch.schema == EVENTS or batch.schema.metadata[b"topic"].decode() != topic:
            continue
        for event in batch.select(["op", "key", "after"]).to_pylist():
            match event:
                case {"op": "t"}:
                    rows.clear()
                case {"op": "d"}:
                    rows.pop(event["key"]["id"], None)
                case {"op": str()}:
                    rows[event["key"]["id"]] = event["after"]
    return rows
