"""The columns and keys of a parsed CREATE TABLE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from tests.servers.sqlserver.kinds import Kind, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class Column:
    """A column. `identity` is its start and step."""

    name: str
    kind: Kind
    nullable: bool = True
    identity: tuple[str, str] | None = None
    default: exp.Expr | None = None
    computed: exp.Expr | None = None
    primary: bool = False
    unique: bool = False

    @property
    def definition(self) -> str:
        """The default as SQL Server shows it: numbers in two pairs of parentheses, all else in one."""
        inner = self.default
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if inner is None:
            return ""
        number = inner.this if isinstance(inner, exp.Neg) else inner
        text = inner.sql("tsql")
        text = text.lower() if isinstance(inner, exp.Func) else text
        return f"(({text}))" if isinstance(number, exp.Literal) and not number.is_string else f"({text})"


@dataclass(slots=True)
class Key:
    """An index: its columns, and whether each is descending. `condition` is a filter in PostgreSQL's SQL."""

    columns: list[tuple[str, bool]]
    primary: bool = False
    unique: bool = True
    name: str = ""
    condition: str = ""


@dataclass(slots=True)
class Table:
    """A table's columns and keys."""

    columns: list[Column] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)


def table_of(parts: Iterable[exp.Expr], collation: str) -> Table:
    """The content of CREATE TABLE's parentheses, or what follows ADD CONSTRAINT."""
    made = Table()
    for part in parts:
        match part:
            case exp.ColumnDef():
                column = column_of(part, collation)
                made.columns.append(column)
                if column.primary or column.unique:
                    made.keys.append(Key([(column.name, False)], primary=column.primary))
            case exp.Constraint():
                for key in table_of(part.expressions, collation).keys:
                    key.name = part.name
                    made.keys.append(key)
            case exp.PrimaryKey():
                made.keys.append(Key(_ordered(part.expressions), primary=True))
            case exp.UniqueColumnConstraint():
                made.keys.append(Key(_ordered(part.this.expressions)))
            case _:
                raise NotImplementedError(part.sql("tsql"))
    return made


def _ordered(parts: Iterable[exp.Expr]) -> list[tuple[str, bool]]:
    return [
        (part.this.name if isinstance(part, exp.Ordered) else part.name, bool(part.args.get("desc")))
        for part in parts
    ]


def column_of(part: exp.ColumnDef, collation: str) -> Column:
    """One column's definition; a computed column is an int unless it is a CONVERT."""
    constraints = [constraint.kind for constraint in part.args.get("constraints") or ()]
    for constraint in constraints:
        if isinstance(constraint, exp.CollateColumnConstraint):
            collation = constraint.this.name
    described = part.args.get("kind")
    column = Column(part.name, kind_of(described, collation) if described else Kind("int"))
    for rule in constraints:
        _constrain(column, rule, collation)
    if column.kind.name == "timestamp":
        column.nullable = False
    return column


def _constrain(column: Column, constraint: exp.Expr, collation: str) -> None:
    match constraint:
        case exp.NotNullColumnConstraint():
            column.nullable = bool(constraint.args.get("allow_null"))
        case exp.PrimaryKeyColumnConstraint():
            column.primary, column.nullable = True, False
        case exp.UniqueColumnConstraint():
            column.unique = True
        case exp.GeneratedAsIdentityColumnConstraint():
            start, step = constraint.args.get("start"), constraint.args.get("increment")
            column.identity = (start.name if start else "1", step.name if step else "1")
            column.nullable = False
        case exp.DefaultColumnConstraint():
            column.default = constraint.this
        case exp.ComputedColumnConstraint():
            column.computed = constraint.this
            inner = constraint.this.unnest()
            if isinstance(inner, exp.Convert):
                column.kind = kind_of(inner.this, collation)
