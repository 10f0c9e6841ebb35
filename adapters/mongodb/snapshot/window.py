"""A window in progress: its watermark, and the rows read in the background."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from adapters.source.window_reader import Background
from engine.errors import SnapshotGone
from engine.snapshot.merge import SupersededKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from adapters.mongodb.events.facts import CollectionRemoval
    from adapters.mongodb.snapshot.watermark import Watermark
    from adapters.source.window_reader import WindowTasks
    from engine.model import CollectionId, Position, StagedRun


class MongoWindow:
    """The engine's `OpenWindow` on MongoDB. Nothing streamed before it opened is newer than its rows."""

    def __init__(
        self, collections: frozenset[CollectionId], watermark: Watermark, reading: WindowTasks
    ) -> None:
        self.collections, self.watermark, self.superseded = collections, watermark, SupersededKeys()
        self._rows = Background(reading, watermark.seal)

    @property
    def visible(self) -> str:
        """The cluster time of the window's documents: seconds, and the number within the second."""
        return "{}.{}".format(*self.watermark.at)

    def watch(self, changed: Callable[[], object]) -> None:
        """Call `changed` once all rows are read."""
        self._rows.watch(changed)

    def poll(self) -> Sequence[StagedRun] | None:
        """The staged rows; None while they are being read."""
        try:
            return self._rows.staged()
        except SnapshotGone as error:
            raise self.watermark.handle_gone(error) from error

    def emptied_collections(self, emptied: Iterable[CollectionRemoval]) -> frozenset[CollectionId]:
        """The window's collections that were emptied after its time. Its rows reflect what came before."""
        found = (emptying.among(self.collections) for emptying in emptied if emptying.at > self.watermark.at)
        return frozenset(chain.from_iterable(found))

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed the watermark."""
        return self.watermark.reached(position)

    def close(self) -> None:
        """Stop reading, and remove what was staged."""
        self._rows.close()
