"""The port of tables, or collections, that somebody else keeps, as a verification reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.verify.threaded_comparison import Cancellable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.model import CollectionId
    from engine.verify.settled import HeldPlace, HeldRows


class ForeignTable(Cancellable, Protocol):
    """One of them. Used by one thread; `cancel` by any."""

    def begin(self) -> int:
        """Begin to read it, in one snapshot if its server has them; returns about how many bytes it has.

        Raises SourceError if it can't be compared, SinkError if the server can't be asked.
        """

    def rows(self) -> Iterator[HeldRows]:
        """All rows. Raises SinkError."""

    def keys(self, places: Sequence[HeldPlace]) -> tuple[str, ...]:
        """The keys of these rows, as JSON. Raises SinkError."""


@runtime_checkable
class HasMarkers(Protocol):
    """A table whose server can be asked for markers."""

    def has(self, marker: str) -> bool:
        """Whether the server has this marker now. Call it before `begin`. Raises SinkError."""


class ForeignTables(Protocol):
    """All of them at one target."""

    def check(self, topic: str, collection: CollectionId) -> None:
        """Raise SinkError if no table there can be of this collection."""

    def table(self, topic: str, collection: CollectionId, owner: str) -> ForeignTable:
        """The table of a topic with this collection's events. `owner` names the session there."""


def keys_found(
    places: Sequence[HeldPlace], digested: Iterable[tuple[pa.Array, pa.Array]]
) -> dict[bytes, str]:
    """The keys as JSON by their digests, of those of the places that are among digests and keys.

    Reads no further than it must: rows may have gone, and others may have come before them.
    """
    wanted = {place.key for place in places}
    found: dict[bytes, str] = {}
    for digests, shown in digested if wanted else ():
        for at in np.flatnonzero(pc.is_in(digests, pa.array(list(wanted), digests.type))).tolist():
            found[digests[at].as_py()] = shown[at].as_py()
        if found.keys() >= wanted:
            break
    return found
