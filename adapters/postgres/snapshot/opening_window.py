"""What the stream carries while a window opens on PostgreSQL (`adapters/source/opening_window.py`).

The thread may wait for a lock or for transactions to become visible. Spans are taken meanwhile, and the rule
for them is this:

    turns      ──── opens ──────── span 1 ──────── span 2 ──────── joins ──── span 3 ──►
    thread              └── settles ── locks ── snapshot S ── catalog ──┘
    pending    P ───────┘   P of the moment when it opens, less what S shows: streamed before, not in S
    watched             ├── what spans 1 and 2 touched, less what S shows: streamed meanwhile, not in S

- What was streamed before `open` and is not in S is in the pending transactions of that moment: a transaction
  leaves that set only when a snapshot taken before S shows it, and S shows it, too.
- What is streamed while the window opens is watched for its tables, under a visibility V that is taken before
  S. S shows all that V shows, so what V shows needs no watching. The rest is judged by S once it is known.
- So both together are what superseded rows before the window was open, each entry once, in log order, and
  `join` gives the window just these. From then on the window is watched as any other.

The catalog is looked up under the locks, so it describes the tables as S shows them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from engine.events.batch import EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.postgres.events.decode import DecodedPart
    from adapters.postgres.log.pending_visibility import PendingVisibility
    from adapters.postgres.server.visibility import Visibility
    from adapters.postgres.snapshot.eligibility import CatalogAnswer
    from adapters.postgres.snapshot.watermark import ExportedSnapshot
    from adapters.postgres.snapshot.window import PostgresWindow
    from adapters.source.opening_window import ShownOpeningWindow

_NO_EVENTS = pa.RecordBatch.from_pylist([], EVENTS)


@dataclass(slots=True)
class OpeningWatch:
    """What the stream carries while a window over the relations `oids` opens.

    `pending` are the transactions that were not visible when it began to open, `visibility` is V. `decoded`
    are the spans since then. `looked` is what the thread was told of the tables, once it gives it back.
    """

    oids: frozenset[int]
    pending: PendingVisibility
    visibility: Visibility
    decoded: list[DecodedPart] = field(default_factory=list)
    looked: CatalogAnswer | None = None

    def pending_for(self, visibility: Visibility) -> PendingVisibility:
        """The transactions streamed before it began to open that its snapshot does not show."""
        return self.pending.without_visible(visibility)

    def note_span(self, decoded: Sequence[DecodedPart]) -> None:
        """Note a span, without its events."""
        self.decoded += [replace(part, events=_NO_EVENTS, columns=()) for part in decoded]


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """What the thread gives back: the snapshot with its locks, and what the catalog says of the tables."""

    held: ExportedSnapshot
    looked: CatalogAnswer

    def close(self) -> None:
        """Release the snapshot of a window that was given up."""
        self.held.close()


PostgresOpening: TypeAlias = "ShownOpeningWindow[TakenSnapshot, PostgresWindow]"
"""A window whose snapshot is being taken."""
