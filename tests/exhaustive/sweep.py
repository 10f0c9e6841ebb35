"""Searches many logs, in this process or in one of a pool, with one memory of the engine's steps."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tests.exhaustive.engine_steps import EngineSteps
from tests.exhaustive.logs import Log
from tests.exhaustive.search import Found, Search


def tried(
    some: Iterable[Log], *, keys: int, faults: int, everywhere: bool, engine: EngineSteps | None = None
) -> Found:
    """Search some logs, up to the first violation, which is searched again to be told."""
    engine = engine or _engine(keys)
    total = Found()
    for log in some:
        found = Search(engine, log, faults, everywhere=everywhere).run()
        total.states += found.states
        total.transitions += found.transitions
        if found.violation:
            told = Search(engine, log, faults, everywhere=everywhere, told=True).run()
            total.violation, total.steps = told.violation, [f"first rows {log.first}", *told.steps]
            break
    return total


_ENGINES: dict[int, EngineSteps] = {}


def _engine(keys: int) -> EngineSteps:
    """This process's engine, which remembers what it has run."""
    logging.disable(logging.CRITICAL)
    return _ENGINES.setdefault(keys, EngineSteps(keys))
