"""CDC on the stand-in: capture instances, their logging triggers, and retention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from tests.servers.sqlserver.columns import Column
from tests.servers.sqlserver.kinds import LARGE, TEXTS, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.sqlserver.catalog_writer import CatalogWriter

_SYSTEM = (
    Column("__$start_lsn", Kind("binary", (10,)), nullable=False),
    Column("__$end_lsn", Kind("binary", (10,))),
    Column("__$seqval", Kind("binary", (10,)), nullable=False),
    Column("__$operation", Kind("int"), nullable=False),
    Column("__$update_mask", Kind("varbinary", (128,))),
)
_COMMAND = Column("__$command_id", Kind("int"))
_FUNCTION = """
CREATE FUNCTION cdc.{function}(first bytea, last bytea, filter text)
RETURNS TABLE ("__$start_lsn" bytea, "__$seqval" bytea, "__$operation" int, "__$update_mask" bytea, {typed})
STABLE LANGUAGE sql AS $$
  SELECT t."__$start_lsn", t."__$seqval", t."__$operation", t."__$update_mask", {listed} FROM cdc.{table} AS t
  WHERE t."__$start_lsn" >= first AND t."__$start_lsn" <= last AND mssql.in_range(first, last, {instance})
  AND (filter = 'all update old' OR t."__$operation" <> 3) $$
"""


_ANY = "AFTER INSERT OR UPDATE OR DELETE ON {0}"
_ONCE = "FOR EACH STATEMENT EXECUTE FUNCTION"
_TRIGGERS = (
    f"CREATE TRIGGER touch {_ANY} {_ONCE} mssql.touch()",
    f"CREATE TRIGGER log {_ANY} FOR EACH ROW EXECUTE FUNCTION {{1}}()",
    f"CREATE TRIGGER settle AFTER UPDATE ON {{0}} {_ONCE} {{1}}()",
    f"CREATE TRIGGER no_truncate BEFORE TRUNCATE ON {{0}} {_ONCE} mssql.no_truncate()",
)


@dataclass(frozen=True, slots=True)
class Captured:
    """A captured column from the catalog. `there` says whether the table still has it."""

    name: str
    kind: str
    large: bool
    computed: bool
    there: bool
    key: bool


class Capturing:
    """Enables and disables capture through one connection, inside a transaction.

    Without `commands`, instances are made as by old servers, without command ids.
    """

    def __init__(self, told: CatalogWriter, *, commands: bool = True) -> None:
        self._told, self._commands = told, commands

    def enable(self, schema: str, table: str, instance: str, columns: Sequence[str] | None) -> None:
        """A new capture instance; at most two per table, as on the real server."""
        number = self._told.object_id(schema, table)
        (count,) = self._told.row(
            "SELECT count(*) FROM cdc.change_tables WHERE source_object_id = %s", number
        )
        if count >= 2:
            raise RuntimeError(f"there are two capture instances of {schema}.{table} already")
        described = self._columns(number, columns)
        self._tables(schema, table, instance, [name for name, *_rest in described])
        change = self._told.table("cdc", f"{instance}_CT")
        self._told.run("UPDATE sys.objects SET is_tracked_by_cdc = 1 WHERE object_id = %s", number)
        # Its own commit is where the instance starts.
        self._told.run(
            "INSERT INTO cdc.change_tables (object_id, version, source_object_id, capture_instance,"
            " start_lsn, supports_net_changes, create_date) VALUES (%s, 0, %s, %s,"
            " mssql.lsn_of(mssql.numbered()), 0, mssql.to_datetime2_7(mssql.getdate()))",
            *(change, number, instance),
        )
        for order, (name, place, kind, computed) in enumerate(described, 1):
            self._told.run(
                "INSERT INTO cdc.captured_columns VALUES (%s, %s, %s, %s, %s, %s)",
                change,
                name,
                place,
                kind,
                order,
                computed,
            )
        self._describe_change_table(change, number, [place for _name, place, *_rest in described])
        self._function(instance, [name for name, *_rest in described])
        self.log_again(schema, table)

    def disable(self, instance: str) -> None:
        """Drop the instance with its changes."""
        change, number = self._told.row(
            "SELECT object_id, source_object_id FROM cdc.change_tables WHERE capture_instance = %s", instance
        )
        schema, table = self._told.row(
            "SELECT s.name, o.name FROM sys.objects AS o JOIN sys.schemas AS s USING (schema_id)"
            " WHERE object_id = %s",
            number,
        )
        self._told.run("DELETE FROM cdc.change_tables WHERE object_id = %s", change)
        self._told.run("DELETE FROM cdc.captured_columns WHERE object_id = %s", change)
        self._told.forget(change)
        self.log_again(schema, table)
        name = sql.Identifier(f"fn_cdc_get_all_changes_{instance}")
        self._told.run(sql.SQL("DROP FUNCTION cdc.{}").format(name))
        self._told.run(
            sql.SQL("DROP TABLE cdc.{}, pending.{}").format(
                sql.Identifier(f"{instance}_CT"), sql.Identifier(instance)
            )
        )
        (left,) = self._told.row("SELECT count(*) FROM cdc.change_tables WHERE source_object_id = %s", number)
        self._told.run(
            "UPDATE sys.objects SET is_tracked_by_cdc = %s WHERE object_id = %s", int(left > 0), number
        )

    def log_again(self, schema: str, table: str) -> None:
        """Recreate the table's triggers for its current instances and columns."""
        source, number = sql.Identifier(schema, table), self._told.object_id(schema, table)
        function = sql.Identifier("mssql", f"log {schema}.{table}")
        for name in ("touch", "log", "settle", "no_truncate"):
            self._told.run(sql.SQL("DROP TRIGGER IF EXISTS {} ON {}").format(sql.Identifier(name), source))
        instances = self._told.connection.execute(
            "SELECT capture_instance, object_id FROM cdc.change_tables WHERE source_object_id = %s"
            " ORDER BY capture_instance",
            [number],
        ).fetchall()
        if not instances:
            return
        body = _body([(name, self._captured(change, number)) for name, change in instances])
        self._told.run(
            sql.SQL("CREATE OR REPLACE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql AS {}").format(
                function, sql.Literal(body)
            )
        )
        for text in _TRIGGERS:
            self._told.run(sql.SQL(text).format(source, function))

    def clean_up(self, low_water_mark: bytes, only: str = "") -> None:
        """Remove changes before the mark, and start the instances (or `only` one) there."""
        for instance, start in self._told.connection.execute(
            "SELECT capture_instance, start_lsn FROM cdc.change_tables WHERE %s IN ('', capture_instance)",
            [only],
        ).fetchall():
            if start < low_water_mark:
                self._told.run(
                    "UPDATE cdc.change_tables SET start_lsn = %s WHERE capture_instance = %s",
                    low_water_mark,
                    instance,
                )
            change = sql.Identifier(f"{instance}_CT")
            self._told.run(
                sql.SQL('DELETE FROM cdc.{} WHERE "__$start_lsn" < %s').format(change), low_water_mark
            )
        if not only:
            self._told.run("DELETE FROM cdc.lsn_time_mapping WHERE start_lsn < %s", low_water_mark)

    def _columns(self, number: int, names: Sequence[str] | None) -> list[tuple[Any, ...]]:
        found = self._told.connection.execute(
            "SELECT c.name, c.column_id, t.name, c.is_computed FROM sys.columns AS c"
            " JOIN sys.types AS t USING (user_type_id) WHERE object_id = %s ORDER BY column_id",
            [number],
        ).fetchall()
        return [row for row in found if names is None or row[0] in names]

    def _tables(self, schema: str, table: str, instance: str, names: Sequence[str]) -> None:
        listed = sql.SQL(", ").join(map(sql.Identifier, names))
        source = sql.SQL("(SELECT {} FROM {} WHERE false)").format(listed, sql.Identifier(schema, table))
        change, pending = sql.Identifier("cdc", f"{instance}_CT"), sql.Identifier("pending", instance)
        self._told.run(
            sql.SQL(
                'CREATE TABLE {} AS SELECT NULL::bytea AS "__$start_lsn", NULL::bytea AS "__$end_lsn",'
                ' NULL::bytea AS "__$seqval", NULL::int AS "__$operation", NULL::bytea AS "__$update_mask",'
                " q.*{} FROM {} AS q"
            ).format(change, sql.SQL(', NULL::int AS "__$command_id"' if self._commands else ""), source)
        )
        order = ("__$start_lsn", *(("__$command_id",) if self._commands else ()), "__$seqval", "__$operation")
        self._told.run(
            sql.SQL("CREATE INDEX ON {} ({})").format(change, sql.SQL(", ").join(map(sql.Identifier, order)))
        )
        self._told.run(
            sql.SQL(
                "CREATE TABLE {} AS SELECT NULL::xid8 AS __xid, NULL::bigint AS __seq,"
                " NULL::bigint AS __command, NULL::int AS __operation, NULL::bytea AS __mask, q.*"
                " FROM {} AS q"
            ).format(pending, source)
        )
        self._told.run(sql.SQL("CREATE INDEX ON {} (__xid)").format(pending))
        self._told.run(sql.SQL("CREATE INDEX ON {} (__xid) WHERE __command IS NULL").format(pending))

    def _describe_change_table(self, change: int, source: int, places: Sequence[int]) -> None:
        for place, column in enumerate(_SYSTEM, 1):
            self._told.column(change, column, place)
        self._told.run(
            "INSERT INTO sys.columns SELECT %s, 5 + row_number() OVER (ORDER BY column_id), name,"
            " CASE system_type_id WHEN 189 THEN 173 ELSE system_type_id END,"
            " CASE user_type_id WHEN 189 THEN 173 ELSE user_type_id END, max_length, precision, scale,"
            " collation_name, 1, 0, 0, 0 FROM sys.columns WHERE object_id = %s AND column_id = ANY(%s)",
            *(change, source, list(places)),
        )
        if self._commands:
            self._told.column(change, _COMMAND)

    def _function(self, instance: str, names: Sequence[str]) -> None:
        change = f"{instance}_CT"
        typed = self._told.connection.execute(
            "SELECT string_agg(quote_ident(attname) || ' ' || format_type(atttypid, atttypmod), ', '"
            " ORDER BY attnum) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = ANY(%s)",
            [sql.Identifier("cdc", change).as_string(), list(names)],
        ).fetchone()
        self._told.run(
            sql.SQL(_FUNCTION).format(
                function=sql.Identifier(f"fn_cdc_get_all_changes_{instance}"),
                typed=sql.SQL(typed[0]),  # type: ignore[index]  # the aggregate has one row
                listed=sql.SQL(", ").join(sql.Identifier("t", name) for name in names),
                table=sql.Identifier(change),
                instance=sql.Literal(instance),
            )
        )

    def _captured(self, change: int, source: int) -> list[Captured]:
        found = self._told.connection.execute(
            "SELECT cc.column_name, cc.column_type, c.max_length = -1, cc.is_computed = 1,"
            " c.column_id IS NOT NULL, EXISTS (SELECT FROM sys.indexes AS i"
            " JOIN sys.index_columns AS ic USING (object_id, index_id)"
            " WHERE i.object_id = %s AND i.is_primary_key = 1 AND ic.column_id = cc.column_id)"
            " FROM cdc.captured_columns AS cc LEFT JOIN sys.columns AS c"
            " ON c.object_id = %s AND c.column_id = cc.column_id AND c.name = cc.column_name"
            " WHERE cc.object_id = %s ORDER BY cc.column_ordinal",
            [source, source, change],
        ).fetchall()
        return [
            Captured(name, kind, bool(large) or kind in LARGE, *rest) for name, kind, large, *rest in found
        ]


def _body(instances: list[tuple[str, list[Captured]]]) -> str:
    """The trigger: one change LSN and one command id for all instances of the table.

    In an update of keys, all deletes get the first command ids. The inserts get theirs when the statement
    ends.
    """
    keys = {column.name: column for _name, columns in instances for column in columns if column.key}
    moved = " OR ".join(_differs(key) for key in keys.values()) or "false"
    parts = [
        "#variable_conflict use_variable",  # a table may have columns of these names
        "DECLARE x xid8 := pg_current_xact_id(); s bigint; c bigint; m text; BEGIN",
        "IF TG_LEVEL = 'STATEMENT' THEN",
        _settled([name for name, _columns in instances]),
        "RETURN NULL; END IF;",
        "s := nextval('mssql.lsn'); c := nextval('mssql.command');",
        "IF TG_OP = 'INSERT' THEN",
        *(_insert(name, columns, "NEW", 2) for name, columns in instances),
        "ELSIF TG_OP = 'DELETE' THEN",
        *(_insert(name, columns, "OLD", 1) for name, columns in instances),
        f"ELSIF {moved} THEN",
        *(
            _insert(name, columns, "OLD", 1) + _insert(name, columns, "NEW", 2, "NULL")
            for name, columns in instances
        ),
        "ELSE",
    ]
    for name, columns in instances:
        digits = _mask(columns)
        parts.append(f"m := {' || '.join(digits)}; IF m <> '{'0' * len(digits)}' THEN")
        parts.append(_insert(name, columns, "OLD", 3) + _insert(name, columns, "NEW", 4) + "END IF;")
    return "\n".join((*parts, "END IF; RETURN NULL; END"))


def _mask(columns: list[Captured]) -> list[str]:
    """Expressions for the update mask's hexadecimal digits. The first column is the last digit's last bit."""
    bits = [f"({_differs(column)})::int" for column in columns]
    bits += ["0"] * (-len(bits) % 8)
    digits = [
        f"substr('0123456789abcdef', 1 + {a} + 2 * {b} + 4 * {c} + 8 * {d}, 1)"
        for a, b, c, d in zip(bits[::4], bits[1::4], bits[2::4], bits[3::4], strict=True)
    ]
    return digits[::-1]


def _differs(column: Captured) -> str:
    if not column.there or column.computed:
        return "false"
    text = "::text" if column.kind in TEXTS else ""
    name = sql.Identifier(column.name).as_string()
    return f"OLD.{name}{text} IS DISTINCT FROM NEW.{name}{text}"


def _settled(instances: list[str]) -> str:
    """Command ids for the inserts of a statement that moved keys, in the order of their change LSNs."""
    tables = [sql.Identifier("pending", instance).as_string() for instance in instances]
    waiting = "WHERE __xid = x AND __command IS NULL"
    given = " ".join(f"UPDATE {table} SET __command = c {waiting} AND __seq = s;" for table in tables)
    return (
        f"FOR s IN SELECT DISTINCT __seq FROM {tables[0]} {waiting} ORDER BY __seq LOOP"
        f" c := nextval('mssql.command'); {given} END LOOP;"
    )


def _insert(instance: str, columns: list[Captured], row: str, operation: int, command: str = "c") -> str:
    full = f"{(1 << len(columns)) - 1:0{2 * -(-len(columns) // 8)}x}"
    mask = "decode(m, 'hex')" if operation > 2 else f"'\\x{full}'"
    values = ", ".join(_value(column, row, operation) for column in columns)
    target = sql.Identifier("pending", instance).as_string()
    return f"INSERT INTO {target} VALUES (x, s, {command}, {operation}, {mask}, {values});\n"


def _value(column: Captured, row: str, operation: int) -> str:
    name = sql.Identifier(column.name).as_string()
    if not column.there or column.computed:
        return "NULL"
    if column.kind in LARGE and operation in {1, 3}:
        return "NULL"
    if column.large and operation == 3:
        return f"CASE WHEN {_differs(column)} THEN OLD.{name} END"
    return f"{row}.{name}"
