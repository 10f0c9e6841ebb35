"""Adds transactions above `logical_decoding_work_mem` to a PostgreSQL script; drawn from its seed.

The server can't hold the changes of such a transaction in memory until it ends. Some of them end with a
rollback, and some roll back a part that is as large as the rest.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tests.torture.script import Transaction

if TYPE_CHECKING:
    from tests.torture.script import Ending, Script
    from tests.torture.statements import Step

WORK_MEM = "64kB"
"""The servers' `logical_decoding_work_mem`, the least that PostgreSQL allows."""
_OFTEN = 0.4
_ENDINGS: dict[Ending, int] = {"commit": 8, "rollback": 2, "prepare": 1, "prepare-rollback": 1}
_FRESH = 20_000
"""Ordinals from here on, and up to twice as many, are in no table at the start."""
_LEAST, _MOST = 30, 90


def large(script: Script) -> Script:
    """The script with such transactions between its own."""
    draw = Random(f"{script.seed}/large")
    rounds = []
    for round_ in script.rounds:
        writers = [list(writer) for writer in round_.writers]
        for writer in writers:
            if draw.random() < _OFTEN:
                writer.insert(draw.randint(0, len(writer)), _transaction(draw, script))
        rounds.append(replace(round_, writers=writers))
    return replace(script, rounds=rounds)


def is_large(transaction: Transaction) -> bool:
    """Whether it is such a transaction."""
    return any(
        step[0] == "fill" and _FRESH <= step[2] < 2 * _FRESH and step[3] >= _LEAST
        for step in transaction.steps
    )


def _transaction(draw: Random, script: Script) -> Transaction:
    steps = [_fill(draw, script) for _ in range(draw.choice([1, 2, 2]))]
    savepoint = 1 if len(steps) > 1 and draw.random() < 0.5 else None
    ending = draw.choices(list(_ENDINGS), list(_ENDINGS.values()))[0]
    return Transaction(steps, ending, savepoint)


def _fill(draw: Random, script: Script) -> Step:
    """New rows of about 6 kB each."""
    first = _FRESH + draw.randrange(_FRESH)
    return ["fill", draw.randrange(len(script.tables)), first, draw.randint(_LEAST, _MOST)]
