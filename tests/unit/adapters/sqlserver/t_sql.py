"""What the T-SQL that the adapter sends is made of, and the vendor's page that allows each part of it.

A statement's *shape* is the set of the parts that it is made of: objects of the server, functions, clauses,
hints. Names of users' tables, values and lists of columns don't count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "https://learn.microsoft.com/en-us/sql/"
_CATALOG = "relational-databases/system-catalog-views/sys-{}-transact-sql"
_CDC = "relational-databases/system-tables/cdc-{}-transact-sql"
_FUNCTION = "t-sql/functions/{}-transact-sql"
_ELEMENT = "t-sql/language-elements/{}-transact-sql"
_QUERY = "t-sql/queries/{}-transact-sql"

PAGES = {
    **{
        f"sys.{name}": _CATALOG.format(name.replace("_", "-"))
        for name in (
            *("allocation_units", "columns", "database_recovery_status", "databases"),
            *("default_constraints", "index_columns"),
            *("indexes", "partitions", "tables", "types", "views"),
        )
    },
    "sys.schemas": "relational-databases/system-catalog-views/schemas-catalog-views-sys-schemas",
    "sys.dm_server_services": (
        "relational-databases/system-dynamic-management-views/sys-dm-server-services-transact-sql"
    ),
    "sys.dm_db_log_stats": (
        "relational-databases/system-dynamic-management-views/sys-dm-db-log-stats-transact-sql"
    ),
    "sys.fn_cdc_get_max_lsn": ("relational-databases/system-functions/sys-fn-cdc-get-max-lsn-transact-sql"),
    "sys.fn_cdc_get_min_lsn": ("relational-databases/system-functions/sys-fn-cdc-get-min-lsn-transact-sql"),
    "cdc.<instance>_CT": _CDC.format("capture-instance-ct"),
    "cdc.captured_columns": _CDC.format("captured-columns"),
    "cdc.change_tables": _CDC.format("change-tables"),
    "cdc.lsn_time_mapping": _CDC.format("lsn-time-mapping"),
    "COLLATIONPROPERTY": "t-sql/functions/collation-functions-collationproperty-transact-sql",
    "CONCAT": _FUNCTION.format("concat"),
    "CONVERT": _FUNCTION.format("cast-and-convert"),
    "COUNT_BIG": _FUNCTION.format("count-big"),
    "DATALENGTH": _FUNCTION.format("datalength"),
    "DATABASEPROPERTYEX": _FUNCTION.format("databasepropertyex"),
    "DATEPART": _FUNCTION.format("datepart"),
    "DB_ID": _FUNCTION.format("db-id"),
    "DB_NAME": _FUNCTION.format("db-name"),
    "LEAD": _FUNCTION.format("lead"),
    "NCHAR": _FUNCTION.format("nchar"),
    "REPLACE": _FUNCTION.format("replace"),
    "ROW_NUMBER": _FUNCTION.format("row-number"),
    "RTRIM": _FUNCTION.format("rtrim"),
    "SERVERPROPERTY": _FUNCTION.format("serverproperty"),
    "SUM": _FUNCTION.format("sum"),
    "CURRENT_TIMESTAMP": _FUNCTION.format("getdate"),
    "SYSDATETIMEOFFSET": _FUNCTION.format("sysdatetimeoffset"),
    "TRY_CONVERT": _FUNCTION.format("try-convert"),
    "@@TRANCOUNT": _FUNCTION.format("trancount"),
    "BEGIN TRANSACTION": _ELEMENT.format("begin-transaction"),
    "CASE": _ELEMENT.format("case"),
    "COALESCE": _ELEMENT.format("coalesce"),
    "EXISTS": _ELEMENT.format("exists"),
    "IN": _ELEMENT.format("in"),
    "LIKE": _ELEMENT.format("like"),
    "ROLLBACK TRANSACTION": _ELEMENT.format("rollback-transaction"),
    "UNION ALL": "t-sql/language-elements/set-operators-union-transact-sql",
    "COLLATE": "t-sql/statements/collations",
    "DELETE": "t-sql/statements/delete-transact-sql",
    "INSERT": "t-sql/statements/insert-transact-sql",
    "SET LOCK_TIMEOUT": "t-sql/statements/set-lock-timeout-transact-sql",
    "SET TRANSACTION ISOLATION LEVEL": "t-sql/statements/set-transaction-isolation-level-transact-sql",
    "JOIN": _QUERY.format("from"),
    "OFFSET": _QUERY.format("select-order-by-clause"),
    "ORDER BY": _QUERY.format("select-order-by-clause"),
    "OVER": _QUERY.format("select-over-clause"),
    "SELECT": _QUERY.format("select"),
    "TOP": _QUERY.format("top"),
    **dict.fromkeys(
        ("HOLDLOCK", "NOLOCK", "READCOMMITTEDLOCK", "TABLOCKX"), _QUERY.format("hints-transact-sql-table")
    ),
    "binary constant": "t-sql/data-types/constants-transact-sql",
    "modulo": _ELEMENT.format("modulo"),
    "parameter": "relational-databases/native-client-odbc-queries/using-statement-parameters",
}
_STEERING = (
    "SET LOCK_TIMEOUT",
    "SET TRANSACTION ISOLATION LEVEL",
    "BEGIN TRANSACTION",
    "ROLLBACK TRANSACTION",
)
_NAMES: dict[type[exp.Expr], str] = {
    exp.Case: "CASE",
    exp.Coalesce: "COALESCE",
    exp.Collate: "COLLATE",
    exp.Concat: "CONCAT",
    exp.Convert: "CONVERT",
    exp.Count: "COUNT_BIG",
    exp.CurrentTimestampLTZ: "SYSDATETIMEOFFSET",
    exp.Delete: "DELETE",
    exp.Exists: "EXISTS",
    exp.Extract: "DATEPART",
    exp.HexString: "binary constant",
    exp.In: "IN",
    exp.Insert: "INSERT",
    exp.Join: "JOIN",
    exp.Lead: "LEAD",
    exp.Like: "LIKE",
    exp.Limit: "TOP",
    exp.Mod: "modulo",
    exp.Offset: "OFFSET",
    exp.Order: "ORDER BY",
    exp.Placeholder: "parameter",
    exp.Replace: "REPLACE",
    exp.RowNumber: "ROW_NUMBER",
    exp.Select: "SELECT",
    exp.Sum: "SUM",
    exp.Trim: "RTRIM",
    exp.Union: "UNION ALL",
    exp.Window: "OVER",
}
_PART_OF_OTHERS = (exp.And, exp.Or, exp.If)
_SYSTEM = frozenset(("sys", "cdc"))


def shape(text: str) -> frozenset[str]:
    """The parts that a statement is made of. Raises ParseError for what is no T-SQL."""
    for steering in _STEERING:
        if text.upper().startswith(steering):
            return frozenset([steering])
    (tree,) = sqlglot.parse(text, read="tsql", error_level=sqlglot.ErrorLevel.RAISE)
    return frozenset(part for node in tree.walk() for part in _parts(node)) if tree else frozenset()


def _parts(node: exp.Expr) -> Iterator[str]:
    match node:
        case exp.Table() if node.db in _SYSTEM:
            name = node.this.name if isinstance(node.this, exp.Anonymous) else node.name
            yield "cdc.<instance>_CT" if re.search("_CT$", name) else f"{node.db}.{name.lower()}"
        case exp.Anonymous() if isinstance(node.parent, exp.Dot):
            yield f"{node.parent.this.name}.{node.name.lower()}"
        case exp.Anonymous() | exp.Parameter() if isinstance(node.parent, exp.Table | exp.Parameter):
            return
        case exp.Anonymous():
            yield node.name.upper()
        case exp.Parameter():
            yield f"@@{node.this.name.upper()}"
        case exp.WithTableHint():
            yield from (expression.name.upper() for expression in node.expressions)
        case exp.Convert() if node.args.get("safe"):
            yield "TRY_CONVERT"
        case exp.Func() if not isinstance(node, (*_PART_OF_OTHERS, *_NAMES)):
            yield node.sql_name()
        case _ if type(node) in _NAMES:
            yield _NAMES[type(node)]
