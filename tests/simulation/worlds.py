"""The worlds by name: how their histories are drawn, saved and played."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation import figures, recovering, recovering_source, script
from tests.simulation.mongodb import recovering as mongodb_recovering
from tests.simulation.mongodb import script as mongodb_script
from tests.simulation.mongodb.world import MongoWorld
from tests.simulation.postgres import recovering as postgres_recovering
from tests.simulation.postgres import script as postgres_script
from tests.simulation.postgres.world import PostgresWorld
from tests.simulation.sqlserver import recovering as sqlserver_recovering
from tests.simulation.sqlserver import script as sqlserver_script
from tests.simulation.sqlserver.world import SqlServerWorld
from tests.simulation.verifying import FLOORS, VerifyingSetup, VerifyingWorld
from tests.simulation.verifying import draw as draw_verifying
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.script import History, Setup
    from tests.simulation.world import Played

CORE = "core"


@dataclass(frozen=True, slots=True)
class Kind:
    """A world: its histories, what plays them, and the floors of a thousand of them."""

    draw: Callable[[int], History]
    setup: type[Setup]
    world: type[World]
    floors: Mapping[str, int]


WORLDS: Mapping[str, Kind] = {
    "verify": Kind(draw_verifying, VerifyingSetup, VerifyingWorld, FLOORS),
    "recover": Kind(
        recovering.draw, recovering.RecoveringSetup, recovering.RecoveringWorld, recovering.FLOORS
    ),
    CORE: Kind(script.draw, script.Setup, World, figures.FLOORS),
    "mongodb": Kind(mongodb_script.draw, mongodb_script.MongoSetup, MongoWorld, figures.MONGODB_FLOORS),
    "postgres": Kind(
        postgres_script.draw, postgres_script.PostgresSetup, PostgresWorld, figures.POSTGRES_FLOORS
    ),
    "postgres-recover": Kind(
        postgres_recovering.draw,
        postgres_recovering.RecoveringPostgresSetup,
        postgres_recovering.RecoveringPostgres,
        recovering_source.FLOORS,
    ),
    "mongodb-recover": Kind(
        mongodb_recovering.draw,
        mongodb_recovering.RecoveringMongoSetup,
        mongodb_recovering.RecoveringMongo,
        recovering_source.FLOORS,
    ),
    "sqlserver-recover": Kind(
        sqlserver_recovering.draw,
        sqlserver_recovering.RecoveringSqlServerSetup,
        sqlserver_recovering.RecoveringSqlServer,
        recovering_source.FLOORS,
    ),
    "sqlserver": Kind(
        sqlserver_script.draw, sqlserver_script.SqlServerSetup, SqlServerWorld, figures.SQLSERVER_FLOORS
    ),
}


def played(history: History, *, story: bool = False) -> Played:
    """Play a history in its world."""
    return WORLDS[history.setup.world].world(history, story=story).play()


def saved(text: str | bytes) -> History:
    """Read a saved history of any world."""
    return script.from_json(text, {name: kind.setup for name, kind in WORLDS.items()})
