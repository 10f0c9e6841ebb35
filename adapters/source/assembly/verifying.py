"""What a job compares its collections with: what its sink holds, if nothing speaks against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.verify.kept_events import KeepsCopy
from adapters.verify.seen_rows import SeenRowsFiles
from adapters.verify.tables import foreign_copy
from adapters.verify.tables.marker import Marker
from engine.events.names import topic_of
from engine.job.verify.copies import Copies
from engine.job.verify.course import always_settled
from engine.job.verify.verification import Verification
from engine.verify.copy import HoldsRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.verify.events.copied_events import Traits
    from adapters.verify.kept_events import CopyTools
    from adapters.verify.tables.foreign_tables import ForeignTables
    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.config.sinks.against import Against
    from engine.model import CollectionId
    from engine.ports.sink import Sink
    from engine.verify.copy import Copy, Settled
    from engine.verify.deletes import DeleteEvents


def _no_others(_target: Against) -> str:
    return "with this source, tables that somebody else keeps can't be compared"


@dataclass(frozen=True, slots=True)
class Verifiable:
    """What must be known of a source's events to compare them.

    `deletes` says how delete events are written of rows that only a copy has. `settled` and `settled_then`
    are `Verification`'s.
    `why` says why nothing can be compared, if the source's settings speak against it. `others` gives the
    tables of a target that somebody else keeps, or says why they can't be compared. `mark` inserts a row with
    an id into a table; None: it can't. `truncates`: captured tables can be truncated.
    """

    traits: Traits
    deletes: Callable[[CollectionId], DeleteEvents]
    settled: Callable[[], Settled] = lambda: always_settled
    settled_then: Callable[[str], Settled] = lambda _saved: always_settled
    why: str = ""
    others: Callable[[Against], ForeignTables | str] = _no_others
    mark: Callable[[CollectionId, str], None] | None = None
    truncates: bool = True


def verification_of(
    settings: Settings, sink: Sink, tools: CopyTools, told: Verifiable | None
) -> Verification:
    """The verifications of a job.

    `told` is what the source says of its events; None: its rows can't be compared.
    """
    if told is None:
        return Verification(Copies(why="this source does not tell how its events can be compared"))
    copy = told.why or _refusal(settings) or _copy(sink, tools, told.traits)
    if isinstance(copy, str):
        return Verification(Copies(why=copy))
    return Verification(
        Copies(copy, others=_others(settings, tools, told, copy)),
        SeenRowsFiles(tools.verified),
        deletes=told.deletes,
        settled=told.settled,
        settled_then=told.settled_then,
    )


def _others(settings: Settings, tools: CopyTools, told: Verifiable, own: Copy) -> dict[str, Copy | str]:
    """The copies that somebody else keeps, by name, or why one can't be compared."""
    if isinstance(own, HoldsRows):
        # Only rendered rows can be compared with them.
        why = "tables that somebody else keeps are compared in jobs with the sink files or kafka"
        return dict.fromkeys(settings.job.against, why)
    place = foreign_copy.ForeignCopyTools(own, tools.executors)
    settle_s = settings.job.verify_settle_ms / 1000
    found: dict[str, Copy | str] = {}
    for name, target in settings.job.against.items():
        tables, work = told.others(target), f"{tools.staging}/against/{name}"
        if isinstance(tables, str):
            found[name] = tables
        else:
            marker = _marker(settings, tools.clock, told, target.marker)
            found[name] = foreign_copy.ForeignCopy(tables, settle_s, work, place, marker)
    return found


def _marker(
    settings: Settings, clock: Clock, told: Verifiable, collection: CollectionId | None
) -> Marker | None:
    """The markers of a target. Without the truncates that the log has, differences would be false."""
    if told.mark is None or collection is None:
        return None
    skipped = told.truncates and "t" in settings.events.skipped_operations
    why = "with a marker, events need the truncates: set skipped.operations=none" if skipped else ""
    return Marker(collection, topic_of(collection, settings.events), told.mark, clock, why)


def _refusal(settings: Settings) -> str:
    if settings.events.kept_faults:
        return "tidemark.keep.debezium.faults makes streamed rows differ from rows that are read"
    if left_out := sorted(settings.events.skipped_operations & {"c", "u", "d"}):
        return f"skipped.operations leaves changes out: {', '.join(left_out)}"
    return ""


def _copy(sink: Sink, tools: CopyTools, traits: Traits) -> Copy | str:
    if isinstance(sink, KeepsCopy):
        return sink.copy(tools, traits)
    sinks = "files, kafka, jdbc, delta and iceberg"
    return f"only the sinks {sinks} keep what they were sent where it can be compared"
