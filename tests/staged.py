"""Where tests stage rows, in the form of a sink that takes events or of the memory sink's texts; and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from adapters.staging.file_blocks import FileBlocks
from engine.model import CollectionId, Part, StagedRun
from engine.snapshot.merge import NewerKeys
from engine.snapshot.merge_key import KEY_TYPE
from engine.staging.affixes import Affixes
from engine.staging.event_rows import EventRows
from engine.staging.rows import STAGED, StagingArea
from engine.staging.text_rows import TextRows
from tests.batches import numbered
from tests.fakes import MemorySink, memory_ending, memory_text
from tests.turns import Turns

if TYPE_CHECKING:
    from pathlib import Path

    from engine.job.snapshots.emission import Emission, EmissionResult

T = CollectionId(("public", "t"))
NO_AFFIXES = Affixes()

EVENT_ROWS = EventRows()
TEXT_ROWS = TextRows(memory_text, memory_ending)


def files_in(directory: Path | str) -> StagingArea:
    """Events in files below a directory."""
    return StagingArea(FileBlocks(str(directory)), EVENT_ROWS)


def texts_in(directory: Path | str) -> StagingArea:
    """Texts in files below a directory."""
    return StagingArea(FileBlocks(str(directory)), TEXT_ROWS)


def rows(*numbers: int) -> pa.RecordBatch:
    keys = pa.array([str(number).encode() for number in numbers], KEY_TYPE)
    return pa.RecordBatch.from_arrays([*numbered(*numbers).columns, keys], schema=STAGED)


def newer(*numbers: int, truncated: bool = False) -> NewerKeys:
    return NewerKeys(pa.array([str(number).encode() for number in numbers], KEY_TYPE), truncated=truncated)


def staged(
    area: StagingArea, *batches: pa.RecordBatch, run: int = 0, affixes: Affixes = NO_AFFIXES
) -> StagedRun:
    with area.run(run, affixes) as staging:
        for batch in batches:
            staging.write(batch)
    return StagedRun(1, T, staging.complete, staging.rows, staging.bytes, run)


def part(events: int) -> Part:
    """Part 0 with so many events, as the memory sink writes it."""
    return Part(0, events)


def emitted(emission: Emission) -> tuple[EmissionResult, list[str]]:
    """What the emission says it did, and the keys of the events that came."""
    sink = Turns(MemorySink())
    said = emission.write(sink.writer(1))
    sink.commit(1)
    return said, [event["key"] for event in sink.events()]
