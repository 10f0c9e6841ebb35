"""What a job compares its collections with: the directory of its files sink, if nothing speaks against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.verify.files_copy import FilesCopy
from adapters.verify.seen_rows import SeenRowsFiles
from engine.config.sinks.settings import SinkKind
from engine.job.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.config.settings import Settings
    from engine.model import CollectionId
    from engine.ports.executors import Executors
    from engine.verify.copy import Settled
    from engine.verify.deletes import DeleteEvents


@dataclass(frozen=True, slots=True)
class Verifiable:
    """What a source tells of its events, so that they can be compared.

    `placeholders` are the texts that stand in them for values that the log left out. `deletes` says how
    delete events are written of rows that only a copy has. `settled` is `Verification`'s.
    """

    placeholders: Sequence[bytes]
    deletes: Callable[[CollectionId], DeleteEvents]
    settled: Callable[[], Settled]


def verification_of(
    settings: Settings,
    executors: Executors,
    staging: str,
    told: Verifiable | None,
    *,
    shared_disk: bool,
) -> Verification:
    """The verifications of a job.

    `told` is what the source tells of its events; None: its rows can't be compared. What is compared waits
    below `staging`.
    """
    if told is None:
        return Verification(why="only collections of PostgreSQL can be verified so far")
    if why := _refusal(settings, shared_disk=shared_disk):
        return Verification(why=why)
    copy = FilesCopy(settings.sink.directory, f"{staging}/compared", executors, told.placeholders)
    seen_rows = SeenRowsFiles(f"{staging}/seen")
    return Verification(copy, seen_rows, deletes=told.deletes, settled=told.settled)


def _refusal(settings: Settings, *, shared_disk: bool) -> str:
    if settings.sink.custom is not None or settings.sink.kind != SinkKind.FILES:
        return "only the files sink keeps what it was sent where it can be compared"
    if not shared_disk:
        return "executors must share the sink's directory"
    if settings.events.kept_faults:
        return "tidemark.keep.debezium.faults makes streamed rows differ from rows that are read"
    if left_out := sorted(settings.events.skipped_operations & {"c", "u", "d"}):
        return f"skipped.operations leaves changes out: {', '.join(left_out)}"
    return ""
