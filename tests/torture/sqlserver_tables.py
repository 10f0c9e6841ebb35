"""The tables of a history on SQL Server, what its writers do to them, and values as texts. Pure.

Tables are created in T-SQL. Rows are written in the SQL of the stand-in's PostgreSQL, since writing is not
under test. A row's ordinal and version mean the same as on PostgreSQL.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.torture.statements import Step
    from tests.torture.tables import TableShape

VERSION = "nextval('public.versions')"
LARGE = f"repeat(md5({VERSION}::text) || ' ', 20)"
_AWAY = 1_000_000
HEAP = "heap"
_MOMENT = (
    "mssql.to_datetime2_7(to_char(timestamp '2024-03-30 22:00' + {} * interval '37.000123 min',"
    " 'YYYY-MM-DD HH24:MI:SS.US') || '7')"
)


@dataclass(frozen=True, slots=True)
class KeyKind:
    """A primary key: its columns with their T-SQL types, and each one's value for the ordinal `n`."""

    columns: tuple[tuple[str, str], ...]
    values: tuple[str, ...]


_WORD = "(ARRAY['a', 'B', 'ä', 'Z', '_', 'aa', 'É'])[n % 7 + 1]"
KEYS = {
    "number": KeyKind((("k", "int"),), ("n",)),
    "sparse": KeyKind((("k", "bigint"),), ("n::bigint * 1000003 - 170000",)),
    "guid": KeyKind((("k", "uniqueidentifier"),), ("mssql.to_uniqueidentifier(md5(n::text))",)),
    "words": KeyKind((("k", "varchar(20)"),), (f"{_WORD} || n",)),
    "wide": KeyKind((("k", "nvarchar(20)"),), (f"{_WORD} || n",)),
    "cased": KeyKind((("k", "nvarchar(20) COLLATE Latin1_General_BIN2"),), (f"{_WORD} || n",)),
    "stamp": KeyKind((("k", "datetime2(7)"),), (_MOMENT.format("n"),)),
    "digits": KeyKind((("k", "decimal(12, 3)"),), ("(n - 50) / 8.0",)),
    "raw": KeyKind((("k", "varbinary(16)"),), ("decode(md5(n::text), 'hex')",)),
    "trio": KeyKind(
        (("k", "varchar(20)"), ("l", "int"), ("m", "date")),
        (_WORD, "n / 7 % 3", "date '2024-02-20' + n / 21"),
    ),
    "pair": KeyKind(
        (("k", "uniqueidentifier"), ("l", "nvarchar(10)")),
        ("mssql.to_uniqueidentifier(md5((n / 4)::text))", "'Ab' || n % 4"),
    ),
    HEAP: KeyKind((), ()),
}
COLUMNS = {
    "ver": ("bigint NOT NULL", VERSION),
    "v": (
        "nvarchar(60) NULL",
        "CASE n % 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'it''s' || chr(31) || n ELSE 'v' || n END",
    ),
    "big": ("nvarchar(max) NULL", LARGE),
    "also": ("varchar(max) NOT NULL", LARGE),
    "at": ("datetime2(7) NULL", _MOMENT.format("n")),
    "f": ("float NOT NULL", "coalesce(n, -1) / 7.0::float8"),
    "x": ("decimal(12, 3) NULL", "n / 8.0"),
    "b": ("varbinary(40) NULL", "CASE WHEN n % 3 > 0 THEN decode(md5(n::text), 'hex') END"),
}
LARGES = frozenset({"big", "also"})


def key_of(shape: TableShape) -> tuple[str, ...]:
    """The columns that identify rows."""
    return tuple(name for name, _ in KEYS[shape.key].columns) or ("n",)


def kinds(shape: TableShape) -> dict[str, str]:
    """Each column's type, without arguments. Added columns are missing."""
    declared = {**dict(KEYS[shape.key].columns), **{name: type_ for name, (type_, _) in COLUMNS.items()}}
    return {name: type_.split("(")[0].split(" ")[0] for name, type_ in declared.items()}


def create(shape: TableShape) -> list[str]:
    """The T-SQL that creates a table. Without a key, one row has no surrogate key value either."""
    key = KEYS[shape.key]
    nullable = "NOT NULL" if key.columns else "NULL"
    columns = [f"{name} {type_} NOT NULL" for name, type_ in key.columns]
    columns += [f"n int {nullable}", *(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())]
    if key.columns:
        columns.append(f"PRIMARY KEY ({', '.join(name for name, _ in key.columns)})")
    made = [f"CREATE TABLE dbo.{shape.name} ({', '.join(columns)})"]
    unique = "" if key.columns else "UNIQUE "
    return [*made, f"CREATE {unique}INDEX ix_{shape.name} ON dbo.{shape.name} (n)"]


def first_rows(shape: TableShape) -> list[str]:
    """The rows that are there at the start."""
    filled = [_insert(shape, f"generate_series(0, {shape.rows - 1}) n")] if shape.rows else []
    return filled if KEYS[shape.key].columns else [*filled, _insert(shape, "(SELECT NULL::int AS n) q")]


def statements(step: Step, tables: Sequence[TableShape]) -> list[str]:  # noqa: C901, PLR0911  one for each verb
    """The stand-in's SQL for one step of a transaction."""
    verb, place, *rest = step
    shape = tables[place]
    match verb, rest:
        case "put", [ordinals]:
            return [_insert(shape, f"unnest(ARRAY{ordinals}) n")]
        case "fill", [first, count]:
            return [_insert(shape, f"generate_series({first}, {first + count - 1}) n")]
        case "touch", [ordinals]:
            return [_update(shape, {"v": f"'touched ' || {VERSION}"}, f"n = ANY (ARRAY{ordinals})")]
        case "fatten", [ordinals]:
            return [_update(shape, {"big": LARGE}, f"n = ANY (ARRAY{ordinals})")]
        case "renew", [ordinals]:
            values = {"v": f"'renewed ' || {VERSION}", "big": LARGE, "also": LARGE, "b": "NULL"}
            return [_update(shape, values, f"n = ANY (ARRAY{ordinals})")]
        case "bulk", [modulus, remainder]:
            return [_update(shape, {"v": "left(v::text, 50) || 'x'"}, f"n % {modulus} = {remainder}")]
        case "remove", [ordinals]:
            return [f"DELETE FROM dbo.{shape.name} WHERE n = ANY (ARRAY{ordinals})"]
        case "shift", [first, count]:
            return [_shift(shape, first, count)]
        case "move", [old, new]:
            return [_move(shape, old, new)]
        case "swap", [one, other]:
            return [_move(shape, one, _AWAY), _move(shape, other, one), _move(shape, _AWAY, other)]
        case "respell", [ordinal]:
            other = "CASE WHEN k::text = upper(k::text) THEN lower(k::text) ELSE upper(k::text) END"
            return [_update(shape, {"k": other}, f"n = {ordinal}")]
    raise ValueError(f"no step {step!r}")


def _insert(shape: TableShape, source: str) -> str:
    key = KEYS[shape.key]
    names = [*(name for name, _ in key.columns), "n", *COLUMNS]
    values = [*key.values, "n", *(value for _, value in COLUMNS.values())]
    # not ON CONFLICT, which does not work with deferrable constraints such as the keys
    there = f"SELECT FROM dbo.{shape.name} there WHERE there.n = given.n"
    return (
        f"INSERT INTO dbo.{shape.name} ({', '.join(names)}) SELECT {', '.join(values)}"
        f" FROM (SELECT * FROM {source}) AS given (n) WHERE NOT EXISTS ({there})"
    )


def _update(shape: TableShape, values: dict[str, str], where: str) -> str:
    changes = ", ".join(f"{name} = {value}" for name, value in {**values, "ver": VERSION}.items())
    return f"UPDATE dbo.{shape.name} SET {changes} WHERE {where}"


def _move(shape: TableShape, old: int, new: int) -> str:
    return _moved(shape, f"(SELECT {old} AS old_n, {new} AS n)")


def _shift(shape: TableShape, first: int, count: int) -> str:
    """One statement that gives rows the keys of their neighbours, the last one that of the first."""
    following = f"{first} + (place + 1) % {count}"
    pairs = f"SELECT {first} + place AS old_n, {following} AS n FROM generate_series(0, {count - 1}) place"
    return _moved(shape, f"({pairs})")


def _moved(shape: TableShape, ordinals: str) -> str:
    """Give rows the keys of other ordinals. `ordinals` are pairs (old_n, n)."""
    key = KEYS[shape.key]
    pairs = [(name, value) for (name, _), value in zip(key.columns, key.values, strict=True)]
    selected = ", ".join(["old_n", "n AS new_n", *(f"{value} AS new_{name}" for name, value in pairs)])
    changes = ", ".join(f"{name} = new_{name}" for name in ("n", *(name for name, _ in pairs)))
    return (
        f"UPDATE dbo.{shape.name} t SET {changes}, ver = {VERSION}"
        f" FROM (SELECT {selected} FROM {ordinals} o) moved WHERE t.n = old_n"
    )


# Values as texts.

_STYLES = {"float": 3, "varbinary": 2}
_NANOS, _TICKS = 1_000_000_000, 100


def text_of(column: str, kind: str) -> str:
    """The expression for a value's text. `column` is quoted."""
    return f"mssql.text_of({column}, {_STYLES.get(kind, 121)})"


def stored(value: str | None, kind: str) -> str | None:
    """The text from `text_of`, normalized where differences do not matter."""
    return repr(float(value)) if kind == "float" and value is not None else value


def told(value: Any, kind: str) -> str | None:
    """An event's value as the same text."""
    if value is None:
        return None
    match kind:
        case "float":
            return repr(float(value))
        case "date":
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        case "varbinary":
            return base64.b64decode(value).hex().upper()
        case "datetime2":
            moment = datetime(1970, 1, 1) + timedelta(seconds=value // _NANOS)  # noqa: DTZ001  no zone
            return f"{moment:%Y-%m-%d %H:%M:%S}.{value % _NANOS // _TICKS:07d}"
    return str(value)
