"""What runs of a benchmark come to: medians and ranges of lines that measured the same. Pure.

A line is what a benchmark prints; two lines measured the same if they agree in all that is not measured.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Line: TypeAlias = dict[str, Any]

SAME = (
    *("bench", "case", "peer", "chunk", "table", "tables", "rows", "sink", "schemas"),
    *("at_once", "writes_per_s", "snapshot", "certificate"),
)
"""The fields that say what was measured; every other number is a measurement."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the median and the most of some runs."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured, by its fields; how often; and each measurement's spread."""

    what: Line
    runs: int
    measured: dict[str, Spread]

    def mid(self, name: str) -> float:
        """The median of a measurement. Raises KeyError if it was not made."""
        return self.measured[name].mid


def spread(values: Sequence[float]) -> Spread:
    """Of at least one value."""
    return Spread(min(values), median(values), max(values))


def identity(line: Line) -> tuple[tuple[str, Any], ...]:
    """What the line measured."""
    return tuple((name, line[name]) for name in SAME if name in line)


def results(lines: Iterable[Line]) -> list[Result]:
    """A result for each thing measured, in the order in which they first came."""
    groups: dict[tuple[tuple[str, Any], ...], list[Line]] = defaultdict(list)
    for line in lines:
        groups[identity(line)].append(line)
    return [_result(dict(what), group) for what, group in groups.items()]


def _result(what: Line, group: list[Line]) -> Result:
    names = [name for name in group[0] if name not in SAME and isinstance(group[0][name], int | float)]
    measured = {name: spread([line[name] for line in group]) for name in names}
    return Result(what, len(group), measured)


def chosen(found: Iterable[Result], **fields: Any) -> list[Result]:
    """The results that measured this, whatever else they say."""
    return [
        result for result in found if all(result.what.get(name) == value for name, value in fields.items())
    ]


def paired(lines: Iterable[Line], name: str, above: Line, below: Line) -> Spread | None:
    """How many times the one measured the other, run by run; None if either was not measured."""
    lines = list(lines)
    over, under = (
        [line[name] for line in lines if line.items() >= fields.items()] for fields in (above, below)
    )
    ratios = [one / other for one, other in zip(over, under, strict=False)]
    return spread(ratios) if ratios else None
