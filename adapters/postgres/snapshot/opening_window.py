"""A window that opens while the stream goes on.

Opening asks the server several questions, and may wait for a lock or for transactions to become visible. A
thread does that, so that the stream does not wait. Spans are taken meanwhile, and the rule for them is this:

    turns      ──── opens ───── span 1 ───── span 2 ───── joins ──── span 3 ──►
    thread              └── settles ── locks ── snapshot S ──┘
    pending    P ───────┘   P of the moment when it opens, less what S shows: streamed before, not in S
    watched             ├── what spans 1 and 2 touched, less what S shows: streamed meanwhile, not in S

- What was streamed before `open` and is not in S is in the pending transactions of that moment: a transaction
  leaves that set only when a snapshot taken before S shows it, and S shows it, too.
- What is streamed while the window opens is watched for its tables, under a visibility V that is taken before
  S. S shows all that V shows, so what V shows needs no watching. The rest is judged by S once it is known.
- So both together are what superseded rows before the window was open, each entry once, in log order, and
  `join` gives the window just these. From then on the window is watched as any other.

The thread gets values and a session of its own, and gives back the snapshot. Everything that others see
changes in `join`, on the job's thread.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.errors import SourceError, TidemarkError
from engine.events.batch import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor, Future

    from adapters.postgres.events.decode import Decoded
    from adapters.postgres.log.pending_visibility import PendingVisibility
    from adapters.postgres.server.visibility import Visibility
    from adapters.postgres.snapshot.watermark import ExportedSnapshot
    from adapters.postgres.snapshot.window import PostgresWindow
    from engine.model import Position, Staged
    from engine.snapshot.merge import Superseded

_NO_EVENTS = pa.RecordBatch.from_pylist([], EVENTS)


@dataclass(slots=True)
class Meanwhile:
    """What the stream carries while a window over the relations `oids` opens.

    `pending` are the transactions that were not visible when it began to open, `visibility` is V. `decoded`
    are the spans since then.
    """

    oids: frozenset[int]
    pending: PendingVisibility
    visibility: Visibility
    decoded: list[Decoded] = field(default_factory=list)

    def seen(self, visibility: Visibility) -> PendingVisibility:
        """The transactions streamed before it began to open that its snapshot does not show."""
        return self.pending.seen(visibility)

    def streamed(self, decoded: Sequence[Decoded]) -> None:
        """Note a span, without its events."""
        self.decoded += [replace(part, events=_NO_EVENTS, columns=()) for part in decoded]


class OpeningWindow:
    """The engine's `OpenWindow`, from its opening on.

    `ask` takes the snapshot, in `pool`. `join` makes the window of it, and closes it where that fails. `over`
    is called once, when the window has joined, failed or been given up.
    """

    def __init__(
        self,
        ask: Callable[[], ExportedSnapshot],
        join: Callable[[ExportedSnapshot], PostgresWindow],
        over: Callable[[], None],
        pool: Executor,
    ) -> None:
        self._join, self._over, self._pool = join, over, pool
        self._asked: Future[ExportedSnapshot] = pool.submit(copy_context().run, ask)
        self._window: PostgresWindow | None = None
        self._ended = False

    @property
    def superseded(self) -> Superseded | None:
        """What superseded rows before the window was open; None until then."""
        return self._window.superseded if self._window else None

    @property
    def visible(self) -> str:
        """The window's snapshot. Raises SourceError while there is none."""
        if self._window is None:
            raise SourceError("the window is not open yet")
        return self._window.visible

    def poll(self) -> Sequence[Staged] | None:
        """Join once the snapshot is taken; then as the window itself."""
        if self._window is not None:
            return self._window.poll()
        self.joined()
        return None

    def joined(self) -> PostgresWindow | None:
        """The window, which joins if its snapshot is taken by now; None while it is not."""
        if self._window is None and self._asked.done():
            try:
                self._window = self._join(self._asked.result())
            finally:
                self._end()
        return self._window

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed the watermark."""
        return self._window is not None and self._window.reached(position)

    def close(self) -> None:
        """Close the window; one that is not open yet lets its snapshot go as soon as it has it."""
        if self._window is not None:
            self._window.close()
        elif not self._ended:
            if not self._asked.cancel():
                self._pool.submit(self._release)  # behind the question, which nobody waits for
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._pool.shutdown(wait=False)
        self._over()

    def _release(self) -> None:
        with suppress(TidemarkError):  # then there is nothing to release
            self._asked.result().close()
