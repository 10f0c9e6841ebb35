"""Runs T-SQL's DDL: tables, indexes, views and schemas in PostgreSQL, recorded in `sys`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql
from sqlglot import exp

from tests.servers.sqlserver.columns import Column, Key, column_of, table_of
from tests.servers.sqlserver.kinds import kind_of

if TYPE_CHECKING:
    from tests.servers.sqlserver.catalog_writer import CatalogWriter
    from tests.servers.sqlserver.tsql import Translator

_LITERALS = r"""('(?:[^']|'')*'|\[[^\]]*\]|"[^"]*")"""
_WORDS = (
    (r"\b(?:NON)?CLUSTERED\b", ""),
    (r"(?<=\s)real(?=[\s,)])", "float(24)"),
    (r"(?<=\s)numeric(?=[\s,()])", "bignumeric"),
    (r"(?<=\s)(n?text)(?=[\s,)])", r"\1_"),
)


def readable(text: str) -> str:
    """DDL with words replaced that sqlglot does not know or does not distinguish."""
    parts = re.split(_LITERALS, text)
    for index in range(0, len(parts), 2):
        for pattern, replacement in _WORDS:
            parts[index] = re.sub(pattern, replacement, parts[index], flags=re.IGNORECASE)
    return "".join(parts)


def names(table: exp.Expr) -> tuple[str, str]:
    """Schema and name of a table."""
    return table.args["db"].name if table.args.get("db") else "dbo", table.name


def _raw(text: str) -> sql.SQL:
    """SQL of our own making."""
    return sql.SQL(text)


@dataclass(frozen=True, slots=True)
class Definitions:
    """Runs DDL on one connection."""

    told: CatalogWriter
    translate: Translator

    def run(self, tree: exp.Expr) -> bool:
        """Run the statement if it is DDL; whether it was."""
        match tree:
            case exp.Create() if tree.args["kind"] == "TABLE":
                self._create_table(tree)
            case exp.Create() if tree.args["kind"] == "SCHEMA":
                self.told.run(_raw("CREATE SCHEMA {}").format(sql.Identifier(tree.this.db)))
                self.told.run(
                    "INSERT INTO sys.schemas SELECT max(schema_id) + 1, %s FROM sys.schemas", tree.this.db
                )
            case exp.Create() if tree.args["kind"] == "VIEW":
                schema, name = names(tree.this)
                query = self.translate.tree(tree.expression).sql
                self.told.run(_raw("CREATE VIEW {} AS " + query).format(sql.Identifier(schema, name)))
                self.told.table(schema, name, "V")
            case exp.Create() if tree.args["kind"] == "INDEX":
                self._create_index(tree)
            case exp.Alter():
                self._alter(tree)
            case exp.Drop():
                self._drop(tree)
            case _:
                return False
        return True

    def _create_table(self, tree: exp.Create) -> None:
        schema, name = names(tree.this.this)
        made = table_of(tree.this.expressions, self.told.collation)
        for column in made.columns:
            column.nullable &= not any(key.primary and column.name in dict(key.columns) for key in made.keys)
        listed = sql.SQL(", ").join(map(self._column, made.columns))
        self.told.run(_raw("CREATE TABLE {} ({})").format(sql.Identifier(schema, name), listed))
        number = self.told.table(schema, name)
        for place, column in enumerate(made.columns, 1):
            self.told.column(number, column, place)
        for key in sorted(made.keys, key=lambda key: not key.primary):
            self._index(schema, name, key)
        self._guard(schema, name, made.columns)

    def _index(self, schema: str, name: str, key: Key) -> None:
        table = sql.Identifier(schema, name)
        columns = sql.SQL(", ").join(
            _raw("{} DESC" if down and not key.primary else "{}").format(sql.Identifier(column))
            for column, down in key.columns
        )
        if key.primary:
            self.told.run(_raw("ALTER TABLE {} ADD PRIMARY KEY ({}) DEFERRABLE").format(table, columns))
        else:
            unique, distinct = ("UNIQUE", "NULLS NOT DISTINCT") if key.unique else ("", "")
            where = f"WHERE {key.condition}" if key.condition else ""
            self.told.run(
                _raw(f"CREATE {unique} INDEX ON {{}} ({{}}) {distinct} {where}").format(table, columns)
            )
        self.told.index(self.told.object_id(schema, name), key)

    def _create_index(self, tree: exp.Create) -> None:
        schema, name = names(tree.this.args["table"])
        params, number = tree.this.args["params"], self.told.object_id(schema, name)
        where = params.args.get("where")
        key = Key(
            [(column.this.name, bool(column.args.get("desc"))) for column in params.args["columns"]],
            unique=bool(tree.args.get("unique")),
            name=tree.this.name,
            condition=self.translate.expression(where.this) if where else "",
        )
        if self.told.row("SELECT type FROM sys.objects WHERE object_id = %s", number)[0] == "V":
            self.told.index(number, key)
        else:
            self._index(schema, name, key)

    def _alter(self, tree: exp.Alter) -> None:
        schema, name = names(tree.this)
        table, number = sql.Identifier(schema, name), self.told.object_id(schema, name)
        for action in tree.args["actions"]:
            match action:
                case exp.ColumnDef():
                    column = column_of(action, self.told.collation)
                    self.told.run(_raw("ALTER TABLE {} ADD {}").format(table, self._column(column)))
                    self.told.column(number, column)
                case exp.Drop():
                    (dropped,) = (table.name for table in action.args["tables"])
                    self.told.run(_raw("ALTER TABLE {} DROP {}").format(table, sql.Identifier(dropped)))
                    self.told.forget(number, dropped)
                case exp.AlterColumn():
                    self._alter_column(table, number, action)
                case exp.AddConstraint():
                    for key in table_of(action.expressions, self.told.collation).keys:
                        self._index(schema, name, key)
                case _:
                    raise NotImplementedError(action.sql("tsql"))

    def _alter_column(self, table: sql.Identifier, number: int, action: exp.AlterColumn) -> None:
        kind = kind_of(action.args["dtype"], self.told.collation)
        column = Column(action.name, kind, nullable=action.args.get("allow_null") is not False)
        name, made = sql.Identifier(column.name), _raw(kind.postgres)
        self.told.run(
            _raw("ALTER TABLE {} ALTER {} TYPE {} USING {}::{}").format(table, name, made, name, made)
        )
        what = _raw("DROP NOT NULL" if column.nullable else "SET NOT NULL")
        self.told.run(_raw("ALTER TABLE {} ALTER {} {}").format(table, name, what))
        self.told.altered(number, column)

    def _drop(self, tree: exp.Drop) -> None:
        for table in tree.args["tables"]:
            schema, name = names(table)
            number = self.told.object_id(schema, name)
            self.told.run(_raw(f"DROP {tree.args['kind']} {{}}").format(sql.Identifier(schema, name)))
            self.told.forget(number)

    def _column(self, column: Column) -> sql.Composed:
        parts: list[sql.Composable] = [sql.Identifier(column.name), _raw(column.kind.postgres)]
        if column.computed is not None:
            parts.append(_raw(f"GENERATED ALWAYS AS ({self.translate.expression(column.computed)}) STORED"))
        elif column.identity:
            start, step = column.identity
            parts.append(_raw(f"GENERATED BY DEFAULT AS IDENTITY (START {start} INCREMENT {step})"))
        elif column.default is not None:
            text = self.translate.expression(column.default)
            typed = f"({text})::text" if "'" in text or "getdate" in text else f"({text})"
            parts.append(_raw(f"DEFAULT ({typed}::{column.kind.postgres.partition(' COLLATE')[0]})"))
        if not column.nullable:
            parts.append(sql.SQL("NOT NULL"))
        return sql.SQL(" ").join(parts)

    def _guard(self, schema: str, name: str, columns: list[Column]) -> None:
        """The trigger for values on their way in: padding, and row versions."""
        lines = [line for column in columns if (line := _guarding(column))]
        if not lines:
            return
        function = sql.Identifier("mssql", f"guard {schema}.{name}")
        body = sql.Literal(f"BEGIN {' '.join(lines)} RETURN NEW; END")
        self.told.run(
            _raw("CREATE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql AS {}").format(function, body)
        )
        self.told.run(
            _raw(
                "CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON {} FOR EACH ROW EXECUTE FUNCTION {}()"
            ).format(sql.Identifier(schema, name), function)
        )


def _guarding(column: Column) -> str:
    target = "NEW." + sql.Identifier(column.name).as_string()
    match column.kind.name:
        case "char" | "nchar":
            return f"{target} := rpad({target}::text, {column.kind.arguments[0]});"
        case "binary":
            return f"{target} := mssql.padded({target}, {column.kind.arguments[0]});"
        case "timestamp":
            return f"{target} := decode(lpad(to_hex(nextval('mssql.rowversion')), 16, '0'), 'hex');"
        case _:
            return ""
