"""Emitting staged runs: to the sink, without the superseded rows.

How the rows are staged, and so how they are written, is the form's affair (`engine/staging/event_rows.py`,
`engine/staging/text_rows.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.snapshot.markers import NO_MARKERS, Markers

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.model import Part, StagedRun
    from engine.ports.sink import PartWriter
    from engine.snapshot.merge import NewerKeys


@dataclass(frozen=True, slots=True)
class EmissionResult:
    """The result of an emission: the part written, and keys dropped for entries that lack a value.

    `digest_sum` and `compared` are `Survivors`'.
    """

    part: Part
    lacking: tuple[bytes, ...] = ()
    digest_sum: int | None = None
    compared: pa.Table | None = None

    @property
    def rows(self) -> int:
        """How many READ events were written."""
        return self.part.events


@dataclass(frozen=True, slots=True)
class Emission:
    """A staged run to be written as part `part` of a turn. Goes to the executors."""

    staged: StagedRun
    newer: NewerKeys
    part: int
    marks: Markers = NO_MARKERS

    def write(self, writer: PartWriter) -> EmissionResult:
        """Write the survivors. Raises SourceError if the staged rows are gone or damaged, else SinkError."""
        part, left = self.staged.content.emit(self.newer, self.marks, writer, self.part)
        return EmissionResult(part, tuple(left.lacking), left.digest_sum, left.compared)


@dataclass(frozen=True, slots=True)
class EmitTo:
    """The task that writes one emission. Goes to the executors."""

    writer: PartWriter

    def __call__(self, emission: Emission) -> EmissionResult:
        """Write the emission."""
        return emission.write(self.writer)
