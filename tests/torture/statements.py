"""What the writers do: turns each step of a script into SQL. Pure.

A step is a list: its verb, the table's place in the script, and the verb's arguments. Rows are named by
ordinal. A step on a missing row does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from tests.torture.bags import bag_statements
from tests.torture.publication import publish, republish, retract, told, unpublish
from tests.torture.tables import LARGE, VERSION, key_columns, row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.torture.tables import TableShape

Step: TypeAlias = list[Any]
_RELABEL = """DO $$ DECLARE label text; BEGIN
    SELECT enumlabel INTO label FROM pg_enum WHERE enumtypid = 'mood'::regtype ORDER BY random() LIMIT 1;
    EXECUTE format('ALTER TYPE mood RENAME VALUE %L TO %L', label,
                   split_part(label, '_', 1) || '_' || split_part(label, '_', 2)::int + 1);
END $$"""
"""Renames one of the labels, which no table's log shows."""
_AWAY = 1_000_000
"""An ordinal that no script uses, for the moment in which two rows swap places."""


def statements(  # noqa: C901, PLR0911, PLR0912  one case for each verb
    step: Step, tables: Sequence[TableShape]
) -> list[str]:
    """The SQL of one step. Several statements run in sequence."""
    verb, place, *rest = step
    shape = tables[place]
    name = shape.name
    if shape.kind.alike and (found := bag_statements(name, verb, rest)):
        return found
    match verb, rest:
        case "put", [ordinals]:
            return [_insert(shape, f"unnest(ARRAY{ordinals}) n", "ON CONFLICT DO NOTHING")]
        case "fill", [first, count]:
            return [
                _insert(shape, f"generate_series({first}, {first + count - 1}) n", "ON CONFLICT DO NOTHING")
            ]
        case "touch", [ordinals]:
            return [_update(name, {"v": f"'touched ' || {VERSION}"}, f"n = ANY (ARRAY{ordinals})")]
        case "fatten", [ordinals]:
            return [_update(name, {"big": LARGE}, f"n = ANY (ARRAY{ordinals})")]
        case "renew", [ordinals]:
            values = {"v": f"'renewed ' || {VERSION}", "big": LARGE, "also": LARGE}
            return [_update(name, values, f"n = ANY (ARRAY{ordinals})")]
        case "bulk", [modulus, remainder]:
            return [_update(name, {"v": "v || 'x'"}, f"n % {modulus} = {remainder}")]
        case "remove", [ordinals]:
            return [f"DELETE FROM {name} WHERE n = ANY (ARRAY{ordinals})"]
        case "move", [old, new]:
            return [_move(shape, old, new)]
        case "swap", [one, other]:
            return [_move(shape, one, _AWAY), _move(shape, other, one), _move(shape, _AWAY, other)]
        case "slide", [old, new]:
            return [_update(name, {"n": str(new)}, f"n = {old}")]
        case "rekey", [old, new]:
            return [_rekey(shape, old, new)]
        case "empty", [part]:
            return [f"TRUNCATE {shape.leaves[part]}"]
        case "relabel", []:
            return [_RELABEL]
        case "respell", [ordinal]:
            return [
                _update(
                    name,
                    {"k": "CASE WHEN scale(k) > 6 THEN trim_scale(k) ELSE k + 0.0000000000 END"},
                    f"n = {ordinal}",
                )
            ]
        case "unpublish", []:
            return unpublish(shape)
        case "publish", []:
            return publish(shape)
        case "retract", [names]:
            return retract(names)
        case "republish", [names, created]:
            return republish(names, created)
        case "exchange", [other]:
            return _exchange(name, tables[other].name)
        case "truncate", []:
            return [f"TRUNCATE {name}"]
        case "sql", [text]:
            return [text.format(table=name)]
    raise ValueError(f"no step {step!r}")


def _exchange(one: str, other: str) -> list[str]:
    return [
        f"LOCK TABLE {one}, {other} IN ACCESS EXCLUSIVE MODE",
        f"ALTER TABLE {one} RENAME TO exchanged",
        f"ALTER TABLE {other} RENAME TO {one}",
        f"ALTER TABLE exchanged RENAME TO {other}",
        told(f"exchange public.{one},public.{other}"),
    ]


def _insert(shape: TableShape, source: str, conflict: str) -> str:
    names, values = row(shape)
    return (
        f"INSERT INTO {shape.name} ({', '.join(names)}) SELECT {', '.join(values)} FROM {source} {conflict}"
    )


def _update(table: str, values: dict[str, str], where: str) -> str:
    changes = ", ".join(f"{name} = {value}" for name, value in {**values, "ver": VERSION}.items())
    return f"UPDATE {table} SET {changes} WHERE {where}"


def _rekey(shape: TableShape, old: int, new: int) -> str:
    """Changes the primary key and nothing else."""
    columns, values = [name for name, _type in shape.kind.columns], shape.kind.values
    selected = ", ".join(f"{value} AS {name}" for name, value in zip(columns, values, strict=True))
    moved = ", ".join(f"moved.{name}" for name in columns)
    return (
        f"UPDATE {shape.name} t SET ({', '.join(columns)}, ver) = ROW({moved}, {VERSION})"
        f" FROM (SELECT {selected} FROM (SELECT {new} AS n) o) moved WHERE t.n = {old}"
    )


def _move(shape: TableShape, old: int, new: int) -> str:
    names, values = key_columns(shape)
    moved = ", ".join(f"moved.{name}" for name in names)
    selected = ", ".join(
        f"{value} AS {name}" for name, value in zip(names, values, strict=True) if name != "n"
    )
    return (
        f"UPDATE {shape.name} t SET ({', '.join(names)}, ver) = ROW({moved}, {VERSION})"
        f" FROM (SELECT n, {selected} FROM (SELECT {new} AS n) o) moved WHERE t.n = {old}"
    )
