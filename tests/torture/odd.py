"""Adds unusual tables, and steps on them, to a PostgreSQL script; drawn from its seed.

Tables with identical rows, partitions with different identities, row filters, enum columns. Also rows that
change only one of their keys, truncated partitions, and renamed labels. `statements` defines the verbs.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tests.torture.script import Sent, Transaction, collections
from tests.torture.tables import TableShape

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.script import Round, Script
    from tests.torture.statements import Step

_OFTEN, _MOSTLY = 0.5, 0.8
_ROWS = (40, 120, 300)


def odd(script: Script) -> Script:
    """The script with such tables, and such steps between its transactions."""
    draw = Random(f"{script.seed}/odd")
    if not any(shape.kind.partitions for shape in script.tables):
        script = replace(script, via_root=draw.random() < _MOSTLY)
    tables = _with_odd(draw, script)
    script = replace(
        script,
        tables=tables,
        listed=script.listed or any(shape.filter for shape in tables),
    )
    rounds = [_round(draw, script, round_, f"o{number}") for number, round_ in enumerate(script.rounds)]
    return replace(script, rounds=rounds)


def _with_odd(draw: Random, script: Script) -> list[TableShape]:
    tables = list(script.tables)

    def add(key: str, identity: str, **more: Any) -> None:
        tables.append(TableShape(f"t{len(tables)}", key, identity, draw.choice(_ROWS), **more))

    if draw.random() < _OFTEN:
        add("alike", "f")
    # An initial snapshot reads a table regardless of the identities of its partitions.
    if not script.initial and draw.random() < _MOSTLY:
        add("parts", "d", leaf="a")
    if draw.random() < _OFTEN:
        leaf = draw.choice("fnw")
        tables = [
            replace(shape, leaf=leaf)
            if shape.kind.partitions and shape.identity == "d" and not shape.leaf
            else shape
            for shape in tables
        ]
        if all(shape.leaf != leaf for shape in tables):
            add("parts", "d", leaf=leaf)
    if draw.random() < _OFTEN:
        add("int", "d", filter="key")
    elif draw.random() < _OFTEN:
        add("int", "f", filter="version")
    if draw.random() < _OFTEN:
        add("int", "i")
    labels = draw.random() < _OFTEN
    return [replace(shape, labels=labels and not shape.kind.alike) for shape in tables]


def _round(draw: Random, script: Script, one: Round, label: str) -> Round:
    writers = [list(writer) for writer in one.writers]
    for make in _acts(draw, script):
        writer = draw.choice(writers)
        writer.insert(draw.randint(0, len(writer)), make())
    chosen = [
        place
        for place, shape in enumerate(script.tables)
        if draw.random() < (_MOSTLY if shape.kind.alike or shape.leaf or shape.filter else _OFTEN)
    ]
    places = chosen or [len(script.tables) - 1]
    signals = [*one.signals, _signal(draw, script, f"{label}n", places)]
    return replace(one, writers=writers, signals=signals)


def _signal(draw: Random, script: Script, label: str, places: list[int]) -> Sent:
    """A signal for tables by a surrogate key, which most do not use otherwise."""
    shapes = [script.tables[place] for place in places]
    names = [name for shape in shapes for name in collections(shape, via_root=script.via_root)]
    data: dict[str, Any] = {"type": "incremental", "data-collections": names}
    if draw.random() < _OFTEN or any(shape.surrogate for shape in shapes):
        data["surrogate-key"] = "n"
    return Sent(draw.choice([0.0, 0.1, 0.5]), label, "execute-snapshot", json.dumps(data), "execute", names)


def _acts(draw: Random, script: Script) -> list[Callable[[], Transaction]]:
    chosen: list[Callable[[], Transaction]] = []
    for place, shape in enumerate(script.tables):
        if shape.kind.alike:
            chosen += [partial(_copies, draw, script, place)] * draw.randint(4, 12)
        elif not shape.appends_only:
            chosen += [partial(_slid, draw, script, place)] * draw.randint(2, 6)
        if shape.filter:
            chosen += [partial(_filtered, draw, script, place)] * draw.randint(4, 12)
        if shape.leaf:
            chosen += [partial(_of_leaf, draw, script, place)] * draw.randint(4, 12)
        if shape.kind.partitions and draw.random() < _OFTEN:
            chosen.append(partial(_emptied, draw, script, place))
    if any(shape.labels for shape in script.tables) and draw.random() < _MOSTLY:
        chosen.append(partial(Transaction, [["relabel", 0]], "apart", pause_s=0.1))
    return chosen


def _copies(draw: Random, script: Script, place: int) -> Transaction:
    """Some copies are changed, removed and added."""
    near = max(3, script.tables[place].rows // 3)
    some = [draw.randrange(near) for _ in range(3)]
    steps: list[Step] = [
        ["touch", place, some],
        ["touch", place, some],
        ["remove", place, some[:1]],
        ["put", place, some[:2]],
        ["fatten", place, some[:1]],
        ["move", place, *some[:2]],
        ["bulk", place, 7, draw.randrange(7)],
    ]
    if draw.random() < 0.03:
        return Transaction([["truncate", place], ["fill", place, 0, near]])
    return Transaction(draw.sample(steps, draw.randint(1, 3)), pause_s=draw.choice([0.0, 0.05]))


def _slid(draw: Random, script: Script, place: int) -> Transaction:
    """A row changes one of its keys only, and keeps its large values."""
    shape = script.tables[place]
    one = draw.randrange(max(3, shape.rows))
    away = draw.choice([-1 - draw.randrange(1_000), draw.randrange(max(3, shape.rows)), 40_000 + one])
    verb = "rekey" if shape.identity == "i" and draw.random() < _OFTEN else "slide"
    return Transaction([[verb, place, one, away]], pause_s=draw.choice([0.0, 0.05]))


def _emptied(draw: Random, script: Script, place: int) -> Transaction:
    """A partition is truncated, and mostly filled again."""
    fill = ["fill", place, 0, max(12, script.tables[place].rows)]
    again = [fill] if draw.random() < _MOSTLY else []
    return Transaction([["empty", place, draw.randrange(3)], *again], "apart", pause_s=0.1)


def _of_leaf(draw: Random, script: Script, place: int) -> Transaction:
    """Rows of the partition with another identity are changed, removed and added."""
    near = max(12, script.tables[place].rows)
    some = [3 * draw.randrange(near // 3) + 1 for _ in range(3)]
    steps: list[Step] = [
        ["touch", place, some],
        ["fatten", place, some[:1]],
        ["remove", place, some[:1]],
        ["put", place, some],
        ["move", place, some[0], near + draw.randrange(1_000)],
        ["swap", place, *some[:2]],
    ]
    return Transaction(draw.sample(steps, draw.randint(1, 3)), pause_s=draw.choice([0.0, 0.05]))


def _filtered(draw: Random, script: Script, place: int) -> Transaction:
    """A row enters or leaves the row filter."""
    near = max(8, script.tables[place].rows)
    one = 4 * draw.randrange(near // 4)
    return Transaction(
        draw.choice(
            [
                [["move", place, one, -1 - draw.randrange(1_000)]],
                [["move", place, one, near + draw.randrange(1_000)]],
                [["move", place, one + 1, 4 * (near + draw.randrange(1_000))]],
                [["touch", place, [one, one + 1, one + 2]]],
            ]
        )
    )
