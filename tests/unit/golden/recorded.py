"""Recorded cases for tests of the comparer, loaded once, and copies that may be spoilt."""

from __future__ import annotations

import copy
from functools import cache
from typing import TYPE_CHECKING

from tests.golden.case import OWN_CASES, load_case

if TYPE_CHECKING:
    from tests.golden.case import Case
    from tests.golden.event import Event


@cache
def recorded(name: str) -> Case:
    return load_case(OWN_CASES / "postgres" / name)


def copied(events: tuple[Event, ...]) -> list[Event]:
    return copy.deepcopy(list(events))
