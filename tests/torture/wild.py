"""What an administrator does beside the writers: tables leave the publication and return, names are swapped.

Owns which of these acts a script gets. `statements` defines the verbs.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING

from tests.torture.publication import create
from tests.torture.script import Transaction
from tests.torture.tables import TableShape

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.script import Script

_OFTEN = 0.35
_ROWS = 40


def wild(script: Script, *, certain: bool = False) -> Script:
    """The script with an administrator's acts inserted between its transactions.

    If `certain`, a table leaves the publication in every round, and two swap their names.
    """
    draw = Random(f"{script.seed}/wild")
    script = replace(script, listed=draw.random() < 0.6 or script.listed or certain)
    if certain:
        script = _identified(_paired(script))
    rounds = []
    for number, round_ in enumerate(script.rounds):
        writers = [list(writer) for writer in round_.writers]
        # An initial snapshot begins in the first round, and needs its publication.
        for make in _acts(draw, script, calm=script.initial and number == 0, certain=certain):
            writer = draw.choice(writers)
            writer.insert(draw.randint(0, len(writer)), make())
        rounds.append(replace(round_, writers=writers))
    return replace(script, rounds=rounds)


def _acts(draw: Random, script: Script, *, calm: bool, certain: bool) -> list[Callable[[], Transaction]]:
    chosen: list[Callable[[], Transaction]] = []
    # Such a partition's deletes are possible while it is not published, and the log does not say of what.
    anonymous = any(shape.leaf == "n" for shape in script.tables)
    if not anonymous and script.listed and (draw.random() < _OFTEN or certain):
        chosen.append(lambda: _unpublished(draw, script))
    if not anonymous and not calm and draw.random() < _OFTEN / 3:
        chosen.append(lambda: _retracted(draw, script))
    if _pairs(script) and (draw.random() < _OFTEN or certain):
        chosen.append(lambda: _exchanged(draw, script))
    return chosen


def _unpublished(draw: Random, script: Script) -> Transaction:
    """A table leaves the publication, is written to, and returns."""
    place = draw.randrange(len(script.tables))
    return Transaction([["unpublish", place], *_writes(draw, script, place), ["publish", place]], "apart")


def _retracted(draw: Random, script: Script) -> Transaction:
    """The publication is dropped and created again."""
    place = draw.randrange(len(script.tables))
    names = ", ".join(["signals", *(shape.name for shape in script.tables)])
    return Transaction(
        [["retract", 0, names], *_writes(draw, script, place), ["republish", 0, names, create(script)]],
        "apart",
    )


def _writes(draw: Random, script: Script, place: int) -> list[list[object]]:
    shape = script.tables[place]
    if shape.appends_only:
        return [["put", place, [30_000 + draw.randrange(1_000)]]]
    some = sorted({draw.randrange(max(3, shape.rows)) for _ in range(3)})
    return [["touch", place, some], ["remove", place, some[:1]], ["put", place, some[:1]]][
        : draw.randint(0, 3)
    ]


def _exchanged(draw: Random, script: Script) -> Transaction:
    """Two tables swap names."""
    one, other = draw.choice(_pairs(script))
    return Transaction([["exchange", one, other]])


def _identified(script: Script) -> Script:
    """The script without partitions whose deletes the log does not tell apart."""
    tables = [replace(shape, leaf="f") if shape.leaf == "n" else shape for shape in script.tables]
    return replace(script, tables=tables)


def _paired(script: Script) -> Script:
    """The script with two tables that can swap names."""
    if _pairs(script):
        return script
    tables = list(script.tables)
    if all(shape.kind.partitions for shape in tables):
        tables.append(TableShape(f"t{len(tables)}", "int", "d", _ROWS))
    shape = next(shape for shape in tables if not shape.kind.partitions)
    return replace(script, tables=[*tables, replace(shape, name=f"t{len(tables)}")])


def _pairs(script: Script) -> list[tuple[int, int]]:
    """Tables of the same shape, which can swap names."""
    shapes = [replace(shape, name="", rows=0) for shape in script.tables]
    return [
        (one, other)
        for one, other in combinations(range(len(shapes)), 2)
        if shapes[one] == shapes[other] and not shapes[one].kind.partitions
    ]
