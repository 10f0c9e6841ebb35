"""SQL Server's world whose job recovers: change tables are emptied, databases restored, copies repaired."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from adapters.source.assembly.verifying import Verifiable
from adapters.verify.events.copied_events import Traits
from tests.simulation.generator import Generator
from tests.simulation.recovering_source import RecoveringSourceWorld, with_repairs
from tests.simulation.script import History
from tests.simulation.sqlserver import script
from tests.simulation.sqlserver.script import SqlServerSetup
from tests.simulation.sqlserver.tables import SIGNALS, TABLES, T, U
from tests.simulation.sqlserver.world import SqlServerWorld

if TYPE_CHECKING:
    from engine.job.saved.state import State
    from engine.model import CollectionId
    from tests.simulation.world import Life

_LOSSES: Final = (
    (("back-up",), ("restore",)),
    (("back-up",), ("fail-over",)),
    (("clean-up",),),
    (("lose-state",),),
)


@dataclass(frozen=True, slots=True)
class RecoveringSqlServerSetup(SqlServerSetup):
    """A job that recovers, over a sink that knows its turns."""

    world: str = "sqlserver-recover"


def draw(seed: int) -> History:
    """The history of a seed: one of SQL Server's, with verifications, faults and losses."""
    choose, drawn = Generator(seed ^ 0x9E9A15), script.draw(seed)
    known = asdict(drawn.setup)
    if known["marks"] != "read_only":
        # Each window writes two rows into the signal table, which a recovery repairs, too.
        known |= {"chunk_rows": 4, "window_rows": 12}
    steps = with_repairs(choose, drawn.steps, _LOSSES)
    setup = RecoveringSqlServerSetup(**known | {"world": "sqlserver-recover", "knows": True})
    return History(setup, tuple(steps))


class RecoveringSqlServer(RecoveringSourceWorld, SqlServerWorld):
    """Plays one history of this world."""

    captured: ClassVar[tuple[CollectionId, ...]] = (*TABLES, SIGNALS)
    keyed: ClassVar[tuple[CollectionId, ...]] = (T, U)

    def told_of(self, life: Life) -> Verifiable:
        """What the source says of its events, as `adapters/sqlserver/job.py` puts it together."""
        return Verifiable(Traits(), life.source.deletes, truncates=False)

    def began(self, state: State) -> None:
        """The log was opened: perhaps a new one."""
        if state.awaits_log:
            self.begun(self.entries_before(state))
        else:
            super().began(state)
