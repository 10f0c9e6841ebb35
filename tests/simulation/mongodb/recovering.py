"""MongoDB's world whose job recovers: oplogs run short, replica sets are restored, the copy is repaired."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import orjson

from adapters.source.assembly.verifying import Verifiable
from adapters.verify.events.copied_events import Traits
from tests.simulation.generator import Generator
from tests.simulation.mongodb import script
from tests.simulation.mongodb.replica_set import SIGNALS, TABLES
from tests.simulation.mongodb.script import MongoSetup
from tests.simulation.mongodb.world import MongoWorld
from tests.simulation.recovering_source import RecoveringSourceWorld, line_of, with_repairs
from tests.simulation.script import History

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.model import CollectionId
    from tests.simulation.record_sink import Record
    from tests.simulation.world import Life

_LOSSES: Final = ((("back-up",), ("restore",)), (("shorten-log",),), (("lose-state",),))
_MODES: Final = ("change_streams_update_full", "change_streams_update_full_with_pre_image")
"""The modes whose events can be compared."""


@dataclass(frozen=True, slots=True)
class RecoveringMongoSetup(MongoSetup):
    """A job that recovers, over a sink that knows its turns."""

    world: str = "mongodb-recover"


def draw(seed: int) -> History:
    """The history of a seed: one of MongoDB's, with verifications, faults and losses."""
    choose, drawn = Generator(seed ^ 0x9E9A16), script.draw(seed)
    known = asdict(drawn.setup)
    known |= {"world": "mongodb-recover", "knows": True, "mode": choose.pick(_MODES)}
    if known["marks"] == "insert_insert":
        # Each window writes two rows into the signal table, which a recovery repairs, too.
        known |= {"chunk_rows": 4, "window_rows": 12}
    steps = with_repairs(choose, drawn.steps, _LOSSES)
    return History(RecoveringMongoSetup(**known), tuple(steps))


class RecoveringMongo(RecoveringSourceWorld, MongoWorld):
    """Plays one history of this world."""

    captured: ClassVar[tuple[CollectionId, ...]] = (*TABLES, SIGNALS)
    keyed: ClassVar[tuple[CollectionId, ...]] = TABLES
    key_name: ClassVar[str] = "_id"

    def _found(self) -> None:
        super()._found()
        self.server.began = self._stream_began

    def _stream_began(self, at: int) -> None:
        """A stream begins at the end of the log."""
        if self.sent.turns:
            self.begun(at)
        else:
            self._began(at)

    def told_of(self, life: Life) -> Verifiable:
        """What the source says of its events, as `adapters/mongodb/job.py` puts it together."""
        return Verifiable(Traits(looked_up=True), life.source.deletes)

    def streamed(self) -> Sequence[CollectionId]:
        """The collections that there are now."""
        return [collection for collection in self.keyed if collection in self.database.newest]

    def key_of_event(self, event: Record) -> Any:
        """The document's `_id`."""
        return orjson.loads((event.key or {})["id"])

    def spoiling(self, collection: CollectionId, key: Any, row: Mapping[str, Any] | None) -> bytes:
        """The line of an event that says of a key that there is this document, or none."""
        document = None if row is None else orjson.dumps(row).decode()
        return line_of(self.topic(collection), {"id": orjson.dumps(key).decode()}, document)

    def observe(self, seen: Any) -> None:
        """A turn was saved, and has passed entries without events."""
        super().observe(seen)
        self.keep_differences(seen.state.turn)

    def _elect(self, life: Life) -> None:
        majority = self.database.majority
        super()._elect(life)
        if self._awaits_repairs and self.oracle.position > majority:
            self.oracle.begin_anew(majority)  # the new log began behind entries that are undone now

    def _drop(self, life: Life, table: str, visible: int) -> None:
        super()._drop(life, table, visible)
        self._forget_gone()

    def _rename(self, life: Life, table: str, to: str, visible: int) -> None:
        super()._rename(life, table, to, visible)
        self._forget_gone()

    def _drop_database(self, life: Life) -> None:
        super()._drop_database(life)
        self._forget_gone()

    def _forget_gone(self) -> None:
        """No state knows the name of a collection that goes before the repairs are queued."""
        if self._awaits_repairs:
            self._lost &= set(self.streamed())
