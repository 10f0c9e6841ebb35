"""A history of PostgreSQL's world as data: its setup, and how its steps are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

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
class PostgresSetup(Setup):
    """What holds for a history, besides what holds for every world.

    `identities` are the replica identities of t, u and the partitions of p. `xid` is the first transaction's
    id. `eager`: the log is read ahead at every step, and not only when the job waits for it.
    """

    world: str = "postgres"
    identities: str = "dfdd"
    xid: int = 700
    eager: bool = False


_VERBS: Final = (
    *(["go"] * 40),
    *(["tx"] * 16),
    *(["hit"] * 24),
    *(["change"] * 8),
    *(["commit"] * 5),
    *(["settle"] * 5),
    *(["deliver"] * 5),
    *(["execute"] * 8),
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
    *(["alter"] * 2),
    "unpublish",
    "publish",
    "abort",
    "jump",
    "freeze",
    "bad-signal",
    "rival",
    "switch",
    "switch",
)
_BLOWS: Final = (
    *(("back-up", "restore"), ("back-up", "fail-over"), ("back-up", "restore"), ("back-up", "fail-over")),
    *(("heal", "drop-slot"), ("heal", "invalidate-slot"), ("heal", "advance-slot")),
    ("keep-state", "stale-state"),
)
"""What may happen to the log, and what comes a while before it."""
_ALTERED: Final = ("rewrite", "rewrite", "identity", "key", "truncate")
_WORDS: Final = Vocabulary(
    verbs=_VERBS,
    tables=("t", "t", "t", "u", "b", "p"),
    changes=("put", "put", "put", "delete", "touch", "touch", "move", "slip", "shift", "recode"),
    hits=("put", "put", "delete", "touch", "touch", "move", "slip", "shift", "recode", "truncate"),
    faults=(
        *("commit", "create", "rename", "write", "writer", "open_window", "executors", "open_log"),
        *("failed", "failed", "busy", "login", "room", "ask", "ask", "connect", "reading"),
    ),
    masks=15,
    some=("t", "t", "u", "p"),
    forms=4,
    longest=120,
    more={
        "alter": lambda choose, _setup: (choose.pick(("t", "u", "b", "p")), choose.pick(_ALTERED)),
        "unpublish": lambda choose, _setup: (choose.pick(("t", "u", "b", "all")),),
        "publish": lambda choose, _setup: (choose.pick(("t", "u", "b", "all")),),
        "end-session": lambda choose, _setup: (choose.below(4),),
    },
)


def draw(seed: int) -> History:
    """The history of a seed."""
    choose = Generator(seed)
    setup = opening_late(_setup(choose), seed)
    length = choose.between(40, 80)
    steps: list[Step] = [("execute", 15)] if not setup.initial or choose.chance(30) else []
    steps += [_WORDS.step(choose, setup) for _ in range(length)]
    steps = with_duel(choose, steps, percent=10)
    return History(setup, with_blow(choose, steps, _BLOWS, percent=40, length=length))


def _overlapping(choose: Generator) -> dict[str, Any]:
    """What makes windows overlap: many rows and chunks, that are emitted in many slices."""
    return {
        "rows": choose.between(7, 12),
        "chunk_rows": choose.pick((1, 1, 1, 2)),
        "window_rows": choose.pick((2, 3, 4)),
        "slice_bytes": choose.pick((1, 1, 1, 1, 1000)),
    }


def _setup(choose: Generator) -> PostgresSetup:
    return PostgresSetup(
        **drawn_alike(choose, reading_polls=(1, 3)) | _overlapping(choose),
        identities=choose.pick(("d", "d", "i", "f"))
        + choose.pick(("d", "f", "i"))
        + choose.pick(("dd", "dd", "ff", "df", "di")),
        xid=choose.pick((700, 700, (1 << 32) - 30, (1 << 33) - 20)),
        eager=choose.chance(50),
    )
