"""A history of MongoDB's world as data: its setup, and how its steps are drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class MongoSetup(Setup):
    """What holds for a history, besides what holds for every world.

    `mode`, `scope`, `oversize` and `marks` are settings: `capture.mode`, `capture.scope`,
    `cursor.oversize.handling.mode` and the strategy of watermarks. `historic`: the server can read
    collections of before a rename. `eager`: the log is read ahead at every step, and not only when the job
    waits for it.
    """

    world: str = "mongodb"
    mode: str = "change_streams_update_full"
    scope: str = "deployment"
    oversize: str = "split"
    marks: str = "visibility"
    historic: bool = True
    eager: bool = False


_TABLES: Final = ("t", "t", "t", "u", "c", "w")
_NAMED: Final = ("t", "u", "c", "w")
_VERBS: Final = (
    *(["go"] * 40),
    *(["tx"] * 16),
    *(["hit"] * 24),
    *(["change"] * 8),
    *(["commit"] * 5),
    *(["settle"] * 5),
    *(["deliver"] * 5),
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
    "drop",
    *(["rename"] * 2),
    *(["out"] * 3),
    "elect",
    "abort",
    "jump",
    "freeze",
    "bad-signal",
    "rival",
    "switch",
    "switch",
)
_BLOWS: Final = (("back-up", "restore"), ("heal", "shorten-log"), ("keep-state", "stale-state"))


def _words(setup: Setup) -> Vocabulary:
    assert isinstance(setup, MongoSetup)
    # Whatever is larger than an event can be split or left out, but where the job would stop for it.
    large = ("heavy",) if setup.oversize == "fail" else ("heavy", "huge")
    return Vocabulary(
        verbs=_VERBS,
        tables=_TABLES,
        changes=("put", "put", "put", "delete", "touch", "touch", "grow", *large),
        hits=("put", "put", "delete", "touch", "touch", "grow", "grow", *large),
        faults=(
            *("commit", "create", "rename", "write", "writer", "executors", "open_log", "take"),
            *("failed", "failed", "gone", "login", "room", "ask", "ask", "reading"),
        ),
        masks=7,
        some=("t", "t", "u", "c"),
        forms=3,
        poisoned=("t", "u", "c"),
        longest=120,
        truncates=0,
        more=_ARGUMENTS,
    )


_ARGUMENTS: Final[dict[str, Callable[[Generator, Setup], Step]]] = {
    "drop": lambda choose, _setup: (choose.pick(_NAMED), int(choose.chance(60))),
    "rename": lambda choose, _setup: (
        choose.pick(_NAMED),
        choose.pick(_NAMED),
        int(choose.chance(60)),
    ),
    "out": lambda choose, _setup: (choose.pick(("t", "t", "u", "c")), int(choose.chance(60))),
    "end-session": lambda choose, _setup: (choose.below(4),),
}


def draw(seed: int) -> History:
    """The history of a seed."""
    choose = Generator(seed)
    setup = opening_late(_setup(choose), seed)
    words, length = _words(setup), choose.between(40, 80)
    # A signal that comes before the stream is opened is in no stream.
    steps: list[Step] = [("go", 40), ("execute", 7)] if not setup.initial or choose.chance(30) else []
    steps += [words.step(choose, setup) for _ in range(length)]
    if setup.scope == "database" and choose.chance(40):
        steps.insert(choose.between(length // 2, length), ("drop-database",))
    steps = with_duel(choose, steps, percent=10)
    return History(setup, with_blow(choose, steps, _BLOWS, percent=25, length=length))


def _setup(choose: Generator) -> MongoSetup:
    setup = _drawn_setup(choose)
    if setup.marks == "visibility":
        return setup
    # Each window writes two documents into a collection that windows read, too: it must read more than that.
    return replace(setup, window_rows=max(setup.window_rows, 3))


def _drawn_setup(choose: Generator) -> MongoSetup:
    return MongoSetup(
        **drawn_alike(choose),
        mode=choose.pick(
            (
                "change_streams_update_full",
                "change_streams_update_full",
                "change_streams",
                "change_streams_update_full_with_pre_image",
                "change_streams_with_pre_image",
            )
        ),
        scope=choose.pick(("deployment", "deployment", "database")),
        oversize=choose.pick(("split", "skip", "skip", "fail")),
        marks=choose.pick(("visibility", "visibility", "insert_insert")),
        historic=choose.chance(60),
        eager=choose.chance(50),
    )
