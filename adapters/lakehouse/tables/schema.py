"""What a table's columns must become so that it can take a batch. Pure.

| the table's column | what happens |
|---|---|
| is missing | it is added |
| has the type of the values, or a wider one | nothing |
| has a narrower type that can be widened | it is widened |
| any other | its table is refused, or the values go to a new column, `<name>__<type>` |

A column that the source has no more stays, and is null in new rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from adapters.lakehouse.properties import EVOLUTION, TYPE_CHANGE
from adapters.lakehouse.settings import TypeChange
from adapters.lakehouse.tables.widening import holds
from engine.config.sinks.settings import SchemaEvolution
from engine.errors import SinkRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NO_WORD: Final = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class Evolution:
    """What is to be done: columns to add or widen, with types, and columns that take another's values."""

    added: Mapping[str, str] = field(default_factory=dict)
    widened: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)

    def after(self, columns: Mapping[str, str]) -> dict[str, str]:
        """The columns of a table to which this was done."""
        return {**columns, **self.added, **self.widened}


@dataclass(frozen=True, slots=True)
class Rules:
    """What may be done, and which types a format can widen."""

    evolution: SchemaEvolution
    type_change: TypeChange
    widens: Callable[[str, str], bool]


def plan_evolution(
    found: Mapping[str, str], wanted: Mapping[str, str], key: tuple[str, ...], rules: Rules
) -> Evolution:
    """What a table with the columns `found` needs to take those that are wanted.

    Names are compared as Spark does, without regard to case. Raises SinkRefused if it can't have them.
    """
    there = {name.lower(): kind for name, kind in found.items()}
    spelled = {name.lower(): name for name in found}
    added: dict[str, str] = {}
    widened: dict[str, str] = {}
    renamed: dict[str, str] = {}
    _refuse_twins(wanted)
    for name, kind in wanted.items():
        has = there.get(name.lower())
        if has is None:
            added[name] = kind
        elif not holds(has, kind):
            if rules.widens(has, kind):
                widened[spelled[name.lower()]] = kind
            else:
                other = _elsewhere(name, has, kind, key, rules)
                renamed[name] = other
                if other.lower() not in there:
                    added[other] = kind
    if (added or widened) and rules.evolution is SchemaEvolution.NONE:
        shown = ", ".join(f"{name} {kind}" for name, kind in {**added, **widened}.items())
        raise SinkRefused(f"it needs other columns: {shown}", hint=f"change it, or set {EVOLUTION}=basic")
    return Evolution(added, widened, renamed)


def _refuse_twins(wanted: Mapping[str, str]) -> None:
    seen: dict[str, str] = {}
    for name in wanted:
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise SinkRefused(
                f"the columns {other!r} and {name!r} differ only in case, which Spark does not tell apart",
                hint="leave one of them out by column.exclude.list",
            )


def _elsewhere(name: str, has: str, kind: str, key: tuple[str, ...], rules: Rules) -> str:
    if rules.type_change is TypeChange.REFUSE or name in key:
        raise SinkRefused(
            f"the column {name!r} is {has}, and can't become {kind}",
            hint="give it that type, or drop the table and take a snapshot"
            + ("" if name in key else f"; or set {TYPE_CHANGE}=column, which adds a column for new values"),
        )
    return f"{name}__{_NO_WORD.sub('_', kind).strip('_')}"
