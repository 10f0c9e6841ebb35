"""A history of SQL Server's world as data: its setup, and how its steps are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.simulation.generator import Generator
from tests.simulation.script import (
    History,
    Setup,
    Step,
    Vocabulary,
    drawn_alike,
    opening_late,
    with_blow,
    with_duel,
)


@dataclass(frozen=True, slots=True)
class SqlServerSetup(Setup):
    """What holds for a history, besides what holds for every world.

    `marks` and `isolation` are settings: the strategy of watermarks, and `snapshot.isolation.mode`. `local`:
    so many change rows are read through the metadata connection. `minutes` is how far the server's clock is
    ahead of UTC. `eager`: the log is read ahead at every step, and not only when the job waits for it.
    """

    world: str = "sqlserver"
    marks: str = "insert_insert"
    isolation: str = "repeatable_read"
    local: int = 2
    minutes: int = 0
    eager: bool = False


_VERBS: Final = (
    *(["go"] * 40),
    *(["tx"] * 16),
    *(["hit"] * 26),
    *(["change"] * 8),
    *(["commit"] * 7),
    *(["deliver"] * 8),
    *(["execute"] * 9),
    *(["block"] * 2),
    *(["execute-some"] * 4),
    "stop-snapshot",
    "stop-blocking",
    *(["crash"] * 3),
    *(["fault"] * 6),
    *(["end-session"] * 2),
    "straggle",
    "poison",
    "heal",
    *(["alter"] * 4),
    "abort",
    "jump",
    "freeze",
    "bad-signal",
    "rival",
    "switch",
    "switch",
)
_BLOWS: Final = (
    *(("heal", "clean-up"), ("keep-state", "stale-state"), ("back-up", "restore"), ("back-up", "fail-over")),
)
_ALTERED: Final = ("instance", "instance", "column", "column", "drop", "early", "clean")
_WORDS: Final = Vocabulary(
    verbs=_VERBS,
    tables=("t", "t", "t", "u", "b"),
    changes=("put", "put", "put", "delete", "touch", "touch", "grow", "move", "slide", "shift"),
    hits=("put", "put", "delete", "touch", "touch", "grow", "move", "slide", "slide", "shift"),
    faults=(
        *("commit", "create", "rename", "write", "writer", "executors", "open_log", "take", "mark"),
        *("failed", "failed", "busy", "login", "room", "ask", "ask", "connect", "reading"),
    ),
    masks=7,
    some=("t", "t", "u"),
    forms=4,
    longest=130,
    truncates=0,
    more={
        "alter": lambda choose, _setup: (choose.pick(("t", "t", "u", "b")), choose.pick(_ALTERED)),
        "end-session": lambda choose, _setup: (choose.below(4),),
    },
)


def draw(seed: int) -> History:
    """The history of a seed."""
    choose = Generator(seed)
    setup = opening_late(_setup(choose), seed)
    length = choose.between(40, 80)
    # A signal that comes before the log's beginning is known is in no log.
    steps: list[Step] = [("go", 60), ("execute", 7)] if not setup.initial or choose.chance(30) else []
    steps += [_WORDS.step(choose, setup) for _ in range(length)]
    steps = with_duel(choose, steps, percent=10)
    return History(setup, with_blow(choose, steps, _BLOWS, percent=40, length=length))


def _setup(choose: Generator) -> SqlServerSetup:
    return SqlServerSetup(
        **drawn_alike(choose, late=50),
        marks=choose.pick(("insert_insert", "insert_delete", "read_only")),
        isolation=choose.pick(("repeatable_read", "exclusive", "snapshot", "read_committed")),
        local=choose.pick((1, 2, 100)),
        minutes=choose.pick((0, 0, 120, -330)),
        eager=choose.chance(50),
    )
