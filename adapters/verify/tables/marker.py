"""Markers: rows that tell how far a table is that somebody else keeps.

The job inserts a row with a new id into a table of the source. The log carries it, and whoever fills the
target in the order of the log brings it there. Then everything that precedes it in the log is there, too.
Two of them enclose a scan:

    source    ── windows ── insert 1 ───────────────────────── insert 2 ──────────────►
    target    ─────────────────────── 1 is here: snapshot ─────────────── is scanned
    own copy  ─────────────────────────────────────────────────────────── 2 is here, at turn n

The target has all that windows have read. Whatever it may have beyond that is in the own copy up to turn n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson
import pyarrow as pa

from engine.errors import SourceError
from engine.verify.compared_digests import key_digests
from engine.verify.copy import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.clock import Clock
    from engine.model import CollectionId
    from engine.verify.copy import Copy

    Moments = Callable[[float], Iterator[None]]

LONGEST_S: Final = 600.0
"""How long a marker may take to either side."""
_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Marker:
    """The source's table of markers, its topic, and what inserts a row with this id into it.

    `why` says why nothing can be compared by it; empty if something can. Who waits does so between `moments`,
    which end by an error once the comparison is given up.
    """

    collection: CollectionId
    topic: str
    write: Callable[[CollectionId, str], None]
    clock: Clock
    why: str = ""

    def insert(self) -> str:
        """Insert a row; returns its id. Raises SourceError."""
        marker = f"verify-{self.clock.new_id()}"
        self.write(self.collection, marker)
        return marker

    def await_there(self, has: Callable[[str], bool], moments: Moments) -> None:
        """Insert a row, and wait until the target has it."""
        marker = self.insert()
        for _ in self._while(moments, f"the target has not got the row {marker!r}"):
            if has(marker):
                return

    def turn(self, marker: str, own: Copy, begin: int, newest: Callable[[], int], moments: Moments) -> int:
        """Wait until the own copy has this row; returns its turn, which is after `begin`."""
        key = key_digests(pa.array([orjson.dumps({"id": marker}).decode()], pa.large_string()))[0].as_py()
        upto = begin
        for _ in self._while(moments, f"the stream has not carried the row {marker!r}"):
            while upto < (known := newest()):
                touched = own.touched_keys(self.topic, Span(upto, known))
                upto = touched.upto
                if key in touched.keys:
                    return upto
        return upto

    def _while(self, moments: Moments, why: str) -> Iterator[None]:
        """Yield now and then. Raises SourceError once it has taken too long."""
        end = self.clock.monotonic() + LONGEST_S
        for _ in moments(_PAUSE_S):
            yield
            if self.clock.monotonic() > end:
                hint = "is the table captured, and is the target filled in the order of the log?"
                raise SourceError(f"{why} in {LONGEST_S:.0f} s", where=self.collection, hint=hint)
