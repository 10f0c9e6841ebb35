"""Translates T-SQL into PostgreSQL's SQL through sqlglot's tree: queries, DML and session settings.

Names keep their case and are quoted. T-SQL's functions and types become those of the schema `mssql`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from tests.servers.sqlserver.collations import check_collations
from tests.servers.sqlserver.kinds import SCALED, TEXTS, Kind, kind_of

_NOTHING = "DO $$ BEGIN END $$"
_ISOLATION = re.compile(r"\s*SET\s+TRANSACTION\s+ISOLATION\s+LEVEL\s+([A-Z ]+?)\s*;?\s*", re.IGNORECASE)
_LOCK_TIMEOUT = re.compile(r"\s*SET\s+LOCK_TIMEOUT\s+(-?\d+)\s*;?\s*", re.IGNORECASE)
_SWITCHES = re.compile(r"(?is)\s*SET\s+(NOCOUNT|XACT_ABORT|IDENTITY_INSERT|DEADLOCK_PRIORITY)\b.*")
_LEVELS = {
    "SNAPSHOT": "REPEATABLE READ",
    "REPEATABLE READ": "REPEATABLE READ",
    "SERIALIZABLE": "SERIALIZABLE",
}
_CASTS = {
    "bit": "smallint",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "real": "real",
    "float": "double precision",
    "money": "decimal(19,4)",
    "smallmoney": "decimal(10,4)",
}


_BYTES = frozenset({"binary", "varbinary", "image", "timestamp", "hierarchyid", "geometry", "geography"})
_OTHER_NAMES = {"nchar": "chr"}
PARAMETER = "\0"
"""Stands for a `?` in a translated statement. No other character of it can be this one."""


@dataclass(frozen=True, slots=True)
class Translated:
    """One statement, and those that must run before it on the same connection."""

    sql: str
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Translator:
    """Translates statements for one database. `nullable` says whether any column of a name may be NULL.

    `collations` gives the collations of the columns of a name.
    """

    nullable: Callable[[str], bool]
    collations: Callable[[str], frozenset[str]] = lambda _column: frozenset()

    def __call__(self, text: str) -> Translated:
        """One statement. Raises if the text is not exactly one statement of T-SQL."""
        if steered := steering(text):
            return Translated(steered)
        return self.tree(one_statement(text))

    def tree(self, tree: exp.Expr) -> Translated:
        """A parsed statement. Raises if it combines texts of different collations."""
        check_collations(tree, self.collations)
        locks: list[str] = []
        root = exp.Paren(this=tree)  # so that the statement itself can be replaced
        for node in reversed(list(tree.walk(bfs=True))):
            self._change(node, locks)
        _type_written_values(root.this)
        return Translated(_sql(root.this), tuple(locks))

    def expression(self, tree: exp.Expr) -> str:
        """An expression, for a default or a computed column."""
        return self.tree(tree.copy()).sql

    def _change(self, node: exp.Expr, locks: list[str]) -> None:
        match node:
            case exp.Table():
                _table(node, locks)
            case exp.Ordered():
                column = node.this
                if isinstance(column, exp.Column) and not self.nullable(column.name):
                    node.set("nulls_first", not node.args.get("desc"))
                    node.replace(
                        exp.Ordered(
                            this=column, desc=node.args.get("desc"), nulls_first=bool(node.args.get("desc"))
                        )
                    )
            case exp.Dot() if _is_function(node.expression):
                schema = node.this.name if not isinstance(node.this, exp.Dot) else node.this.expression.name
                node.set("this", exp.to_identifier(schema))
            case _:
                changed = _changed(node)
                if changed is not node:
                    node.replace(changed)


def one_statement(text: str) -> exp.Expr:
    """The tree of a text. Raises if it is not exactly one statement that sqlglot fully understands."""
    found = sqlglot.parse(text, read="tsql", error_level=sqlglot.ErrorLevel.RAISE)
    if len(found) != 1 or found[0] is None or any(found[0].find_all(exp.Command)):
        raise ValueError(f"not one statement of T-SQL: {text[:500]}")
    return found[0]


def statements(text: str) -> list[exp.Expr]:
    """The parsed statements of a script."""
    return [tree for tree in sqlglot.parse(text, read="tsql") if tree is not None]


def steering(text: str) -> str:
    if found := _ISOLATION.fullmatch(text):
        level = _LEVELS.get(" ".join(found[1].upper().split()), "READ COMMITTED")
        return f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}"
    if found := _LOCK_TIMEOUT.fullmatch(text):
        return f"SET lock_timeout = {max(int(found[1]), 0)}"
    return _NOTHING if _SWITCHES.fullmatch(text) else ""


def _sql(tree: exp.Expr) -> str:
    return tree.sql(dialect="postgres", identify=True, normalize_functions=False)


def _is_function(node: object) -> bool:
    return isinstance(node, exp.Func)


def _table(node: exp.Table, locks: list[str]) -> None:
    node.set("catalog", None)
    hints = {
        str(expression).upper() for hint in node.args.get("hints") or () for expression in hint.expressions
    }
    node.set("hints", None)
    if "TABLOCKX" in hints:
        locks.append(f"LOCK TABLE {_sql(exp.table_(node.name, db=node.db))} IN EXCLUSIVE MODE")


def _changed(node: exp.Expr) -> exp.Expr:
    """The replacement for one node of the tree; by default the node itself."""
    changed: exp.Expr = node
    match node:
        case exp.National():
            changed = exp.Literal.string(node.name)
        case exp.Placeholder():
            changed = exp.Var(this=PARAMETER)
        case exp.HexString():
            changed = _call("decode", exp.Literal.string(node.name), exp.Literal.string("hex"))
        case exp.Convert():
            convert = _tried if node.args.get("safe") else _converted
            changed = convert(kind_of(node.this), node.expression, node.args.get("style"))
        case exp.Cast() if not node.meta.get("ours"):
            changed = _converted(kind_of(node.to), node.this, None)
        case exp.Collate():
            changed = _collated(node.this, node.expression.name)
        case exp.Like() if "[" in node.expression.name:
            pattern = exp.Literal.string(_pattern(node.expression.name))
            changed = exp.RegexpLike(this=node.this, expression=pattern)
        case exp.CurrentTimestamp() | exp.CurrentTimestampLTZ() | exp.Extract() | exp.Parameter():
            changed = _of_the_session(node)
        case exp.Anonymous():
            node.set("this", _function(str(node.this)))
    return changed


def _of_the_session(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Extract) and node.name.upper() == "TIMEZONE_MINUTE":
        return _call("tzoffset")
    if isinstance(node, (exp.CurrentTimestamp, exp.CurrentTimestampLTZ)):
        return _call("getdate")
    if isinstance(node.this, exp.Var) and node.name.upper() == "TRANCOUNT":
        return _call("trancount")
    # the outer of the two signs before a name; the inner one is already replaced
    return node.this if isinstance(node.this, exp.Anonymous) else node


def _function(name: str) -> str:
    """Function names ignore case, except CDC's, which contain a table's name."""
    if name.lower().startswith("fn_cdc_get_all_changes_"):
        return name
    return _OTHER_NAMES.get(name.lower(), name.lower())


def _call(name: str, *arguments: exp.Expr | None) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[argument for argument in arguments if argument is not None])


def _cast(value: exp.Expr, to: str) -> exp.Expr:
    described = exp.DataType.build(to, dialect="postgres", udt=True)
    cast = exp.Cast(this=value, to=described)
    cast.meta["ours"] = True
    return cast


def _collated(value: exp.Expr, collation: str) -> exp.Expr:
    if isinstance(value, exp.Cast) and value.meta.get("citext"):
        value = value.this
    if not Kind("nvarchar", (), collation).sensitive:
        found = _cast(value, "citext")
        found.meta["citext"] = True
        return found
    return exp.Collate(this=_cast(value, "text"), expression=exp.to_identifier("C", quoted=True))


def _converted(kind: Kind, value: exp.Expr, style: exp.Expr | None) -> exp.Expr:
    if kind.name in TEXTS:
        return _as_text(kind, value, style)
    if kind.name == "bit" and not isinstance(value, (exp.Literal, exp.Null)):
        value = _call("sign", _call("abs", _cast(value, "numeric")))
    if kind.name in _CASTS:
        return _cast(value, _CASTS[kind.name])
    if kind.name in {"decimal", "numeric"}:
        return _cast(value, f"decimal({kind.arguments[0]},{kind.arguments[1]})")
    if kind.name in _BYTES:
        if isinstance(value, exp.Literal):
            value = _call("decode", value, exp.Literal.string("hex"))
        size = 8 if kind.name == "timestamp" else kind.arguments[0] if kind.name == "binary" else 0
        value = value if isinstance(value, exp.Null) else _call("bytes_of", value)
        return _call("padded", value, exp.Literal.number(size)) if size else value
    text = _cast(value, "text") if isinstance(value, (exp.Literal, exp.Null)) else _call("text_of", value)
    if kind.name == "date":
        return _cast(_call("substr", text, exp.Literal.number(1), exp.Literal.number(10)), "date")
    return _call(f"to_{kind.name}_{kind.arguments[0]}" if kind.name in SCALED else f"to_{kind.name}", text)


def _tried(kind: Kind, value: exp.Expr, style: exp.Expr | None) -> exp.Expr:
    """NULL for a value that can't be converted. The conversion is tried as text, with the value as $1."""
    attempt = _sql(_call("text_of", _converted(kind, exp.Var(this="$1"), style)))
    return _converted(kind, _call("tried", value, exp.Literal.string(attempt)), None)


def _pattern(like: str) -> str:
    """A pattern of LIKE with sets of characters, as a regular expression."""
    parts = re.findall(r"\[[^\]]*\]|.", like, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return (
        "^" + "".join(wild.get(part) or (part if len(part) > 1 else re.escape(part)) for part in parts) + "$"
    )


def _as_text(kind: Kind, value: exp.Expr, style: exp.Expr | None) -> exp.Expr:
    if isinstance(value, exp.Literal) and value.is_string:
        found = _cast(value, "citext")
        found.meta["citext"] = True
        return found
    if isinstance(value, exp.Collate) or value.meta.get("citext"):
        return value
    if isinstance(value, exp.Null):
        return _cast(value, "text")
    text = _call("text_of", value, style)
    length = kind.arguments[0] if kind.arguments else -1
    if length <= 0:
        return text
    if kind.name in {"char", "nchar"}:
        return _call("rpad", text, exp.Literal.number(length))
    return _call("substr", text, exp.Literal.number(1), exp.Literal.number(length))


def _type_written_values(tree: exp.Expr) -> None:
    """Make stored strings text, which can be assigned to any type."""
    written: list[exp.Expr] = []
    if isinstance(tree, exp.Insert):
        if isinstance(tree.expression, exp.Values):
            written = [value for row in tree.expression.expressions for value in row.expressions]
        elif isinstance(tree.expression, exp.Select):
            written = [expression.unalias() for expression in tree.expression.expressions]
    elif isinstance(tree, exp.Update):
        written = [expression.expression for expression in tree.expressions if isinstance(expression, exp.EQ)]
    for value in written:
        if isinstance(value, exp.Literal) and value.is_string:
            value.replace(_cast(value.copy(), "text"))
