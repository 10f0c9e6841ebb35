"""PostgreSQL's world whose job recovers: slots are lost, servers restored, and the copy is repaired."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from adapters.postgres.events.columns.placeholders import placeholders
from adapters.postgres.events.settled import settled_then
from adapters.source.assembly.verifying import Verifiable
from adapters.verify.events.copied_events import Traits
from tests.simulation.generator import Generator
from tests.simulation.postgres import script
from tests.simulation.postgres.script import PostgresSetup
from tests.simulation.postgres.tables import SIGNALS, TABLES, P, T, U
from tests.simulation.postgres.world import PostgresWorld, settings_of
from tests.simulation.recovering_source import RecoveringSourceWorld, with_repairs
from tests.simulation.script import History

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import CollectionId
    from tests.simulation.world import Life

_LOSSES: Final = (
    (("back-up",), ("restore",)),
    (("back-up",), ("fail-over",)),
    (("drop-slot",),),
    (("invalidate-slot",),),
    (("advance-slot",),),
    (("lose-state",),),
)


@dataclass(frozen=True, slots=True)
class RecoveringPostgresSetup(PostgresSetup):
    """A job that recovers, over a sink that knows its turns."""

    world: str = "postgres-recover"


def draw(seed: int) -> History:
    """The history of a seed: one of PostgreSQL's, with verifications, faults and losses."""
    choose, drawn = Generator(seed ^ 0x9E9A14), script.draw(seed)
    known = asdict(drawn.setup)
    known |= {"world": "postgres-recover", "knows": True, "identities": choose.pick(("dddd", "fdff", "dfdf"))}
    steps = with_repairs(choose, drawn.steps, _LOSSES)
    return History(RecoveringPostgresSetup(**known), tuple(steps))


class RecoveringPostgres(RecoveringSourceWorld, PostgresWorld):
    """Plays one history of this world."""

    captured: ClassVar[tuple[CollectionId, ...]] = (*TABLES, SIGNALS)
    keyed: ClassVar[tuple[CollectionId, ...]] = (T, U, P)

    def __init__(self, history: History, *, story: bool = False) -> None:
        self._forgotten: set[int] = set()
        """The oids of tables that had left the publication when the state was lost."""
        super().__init__(history, story=story)

    def told_of(self, life: Life) -> Verifiable:
        """What the source says of its events, as `adapters/postgres/job.py` puts it together."""
        source = life.source
        traits = Traits(tuple(placeholders(settings_of("never", "0").events)))
        return Verifiable(traits, source.deletes, source.settled, settled_then)

    def streamed(self) -> Sequence[CollectionId]:
        """The tables with keys that are published now, or were in a saved state that is still there.

        Asked when a new log begins. It notes what a state that is lost, or an old one, does not know.
        """
        tables = {table: self.database.named(table) for table in self.keyed}
        published = {it.oid for it in tables.values() if self.database.publishes(it)}
        self._forgotten -= published
        if self.blow in {"lost states", "stale states"}:
            self._forgotten = self.database.watched - published
        known = published | (self.database.watched - self._forgotten)
        return [table for table, it in tables.items() if it.oid in known]
