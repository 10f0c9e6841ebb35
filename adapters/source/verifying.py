"""What a job compares its collections with: the directory of its files sink, if nothing speaks against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.verify.files_copy import FilesCopy
from adapters.verify.seen_rows import SeenRowsFiles
from engine.config.settings import SinkKind
from engine.job.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.config.settings import Settings
    from engine.ports import Executors


def verification_of(
    settings: Settings,
    executors: Executors,
    staging: str,
    placeholders: Sequence[bytes] | None,
    *,
    shared_disk: bool,
) -> Verification:
    """The verifications of a job.

    `placeholders` are the texts that stand in its events for values that the log left out; None: its rows
    can't be compared. What is compared waits below `staging`.
    """
    if why := _refusal(settings, placeholders, shared_disk=shared_disk):
        return Verification(why=why)
    copy = FilesCopy(settings.sink.directory, f"{staging}/compared", executors, placeholders or ())
    return Verification(copy, SeenRowsFiles(f"{staging}/seen"))


def _refusal(settings: Settings, placeholders: Sequence[bytes] | None, *, shared_disk: bool) -> str:
    if placeholders is None:
        return "only collections of PostgreSQL can be verified so far"
    if settings.sink.custom is not None or settings.sink.kind != SinkKind.FILES:
        return "only the files sink keeps what it was sent where it can be compared"
    if not shared_disk:
        return "executors must share the sink's directory"
    if settings.events.kept_faults:
        return "tidemark.keep.debezium.faults makes streamed rows differ from rows that are read"
    if left_out := sorted(settings.events.skipped_operations & {"c", "u", "d"}):
        return f"skipped.operations leaves changes out: {', '.join(left_out)}"
    return ""
