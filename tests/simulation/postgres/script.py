"""A history of PostgreSQL's world as data: its setup, and how its steps are drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tests.simulation.generator import Generator
from tests.simulation.script import History, Setup, Step

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class PostgresSetup(Setup):
    """What holds for a history, besides what holds for every world.

    `identities` are the replica identities of t, u and the partitions of p. `xid` is the first transaction's
    id. `eager`: the log is read ahead at every step, and not only when the job waits for it.
    A window takes its snapshot after `opening_polls` turns, and is open `joining_polls` turns later.
    """

    world: str = "postgres"
    identities: str = "dfdd"
    xid: int = 700
    eager: bool = False
    joining_polls: int = 0


_KEYS: Final = 8
_TABLES: Final = ("t", "t", "t", "u", "b", "p")
_CHANGES: Final = ("put", "put", "put", "delete", "touch", "touch", "move", "slip", "shift", "recode")
_HITS: Final = ("put", "put", "delete", "touch", "touch", "move", "slip", "shift", "recode", "truncate")
_FAULTS: Final = (
    *("commit", "create", "rename", "write", "writer", "open_window", "executors", "open_log"),
    *("failed", "failed", "busy", "login", "room", "ask", "ask", "connect", "reading"),
)
_HOW: Final = ("before", "before", "after", "torn")
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


def draw(seed: int) -> History:
    """The history of a seed."""
    choose = Generator(seed)
    setup = replace(_setup(choose), opening_polls=seed % 4, joining_polls=seed // 4 % 3)
    length = choose.between(40, 80)
    steps: list[Step] = [("execute", 15)] if not setup.initial or choose.chance(30) else []
    steps += [_step(choose, setup) for _ in range(length)]
    if choose.chance(40):
        # Late, because what is lost ends the history.
        before, after = choose.pick(_BLOWS)
        at = choose.between(length // 3, length - 1)
        steps.insert(at + choose.between(1, len(steps) - at), (after,))
        steps.insert(at, (before,))
    return History(setup, tuple(steps))


def _setup(choose: Generator) -> PostgresSetup:
    return PostgresSetup(
        rows=choose.between(4, 9),
        initial=choose.chance(30),
        knows=choose.chance(75),
        late=choose.chance(40),
        span_rows=choose.between(1, 6),
        reading_polls=choose.between(2, 5),
        chunk_rows=choose.between(1, 2),
        window_rows=choose.between(1, 4),
        whole_rows=choose.pick((0, 0, 0, 3)),
        slice_bytes=choose.pick((1, 1, 1000)),
        tasks=choose.between(1, 2),
        most_reread=choose.pick((100, 100, 3)),
        window_retries=choose.between(0, 2),
        call_ms=choose.pick((1, 5, 20, 100)),
        identities=choose.pick(("d", "d", "i", "f"))
        + choose.pick(("d", "f", "i"))
        + choose.pick(("dd", "dd", "ff", "df", "di")),
        xid=choose.pick((700, 700, (1 << 32) - 30, (1 << 33) - 20)),
        eager=choose.chance(50),
    )


def _step(choose: Generator, setup: Setup) -> Step:
    verb = choose.pick(_VERBS)
    if verb == "deliver" and not setup.late:
        verb = "settle"
    more = _ARGUMENTS.get(verb)
    return (verb, *more(choose, setup)) if more else (verb,)


_ARGUMENTS: Final[dict[str, Callable[[Generator, Setup], Step]]] = {
    "go": lambda choose, _setup: (1 + choose.below(1 + choose.below(120)),),
    "tx": lambda choose, setup: (*_changes(choose, setup.rows), int(choose.chance(60))),
    "hit": lambda choose, _setup: (
        choose.below(2),
        choose.pick(_HITS),
        choose.below(8),
        choose.between(-1, 9),
        int(choose.chance(60)),
    ),
    "change": lambda choose, setup: (choose.below(3), *_changes(choose, setup.rows, 2)),
    "commit": lambda choose, _setup: (choose.below(3), int(choose.chance(60))),
    "settle": lambda choose, _setup: (choose.below(3),),
    "abort": lambda choose, _setup: (choose.below(3),),
    "deliver": lambda choose, _setup: (choose.between(0, 6),),
    "execute": lambda choose, _setup: (choose.between(1, 15),),
    "block": lambda choose, _setup: (choose.between(1, 15),),
    "stop-blocking": lambda choose, _setup: (choose.below(16),),
    "execute-some": lambda choose, _setup: (
        choose.pick(("t", "t", "u", "p")),
        choose.below(4),
        *(choose.below(_KEYS + 1) for _ in range(3)),
        choose.pick((0, 0, 0, 1, -1)),
        choose.pick((0, 0, 1, 3)),
    ),
    "stop-snapshot": lambda choose, _setup: (choose.below(16),),
    "fault": lambda choose, _setup: (choose.pick(_FAULTS), choose.pick(_HOW), choose.between(1, 2)),
    "straggle": lambda choose, _setup: (choose.between(1, 4),),
    "poison": lambda choose, _setup: (choose.pick(("t", "u", "b")), choose.below(_KEYS)),
    "alter": lambda choose, _setup: (choose.pick(("t", "u", "b", "p")), choose.pick(_ALTERED)),
    "unpublish": lambda choose, _setup: (choose.pick(("t", "u", "b", "all")),),
    "publish": lambda choose, _setup: (choose.pick(("t", "u", "b", "all")),),
    "end-session": lambda choose, _setup: (choose.below(4),),
    "jump": lambda choose, _setup: (choose.between(-20, 20),),
    "freeze": lambda choose, _setup: (choose.between(1, 16),),
    "bad-signal": lambda choose, _setup: (choose.below(4),),
}


def _changes(choose: Generator, rows: int, most: int = 3) -> list[Step]:
    return [_change(choose, rows) for _ in range(choose.between(1, most))]


def _change(choose: Generator, rows: int) -> Step:
    table, what = choose.pick(_TABLES), choose.pick(_CHANGES)
    if choose.chance(2):
        return (table, "truncate")
    if what in {"move", "slip"}:
        return (table, what, choose.below(rows + 1), choose.below(rows + 3))
    if what == "shift":
        return (table, what, choose.below(rows + 1), choose.between(-2, 9))
    return (table, what, choose.below(rows + 2))
