"""The T-SQL queries about a server, its databases and their tables. Pure.

Names and flags are returned as nvarchar, int and bigint only, LSNs as hexadecimal text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sqlserver.server.tsql import quote_ident

if TYPE_CHECKING:
    from collections.abc import Iterable

SERVER = (
    "SELECT CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion')) AS [version],"
    " CONVERT(int, SERVERPROPERTY('EngineEdition')) AS [edition],"
    " CONVERT(nvarchar(128), SERVERPROPERTY('ServerName')) AS [server]"
)
DATABASE = (
    "SELECT CONVERT(int, d.[is_cdc_enabled]) AS [cdc],"
    " CONVERT(nvarchar(30), DATABASEPROPERTYEX(d.[name], 'Updateability')) AS [updateability],"
    " CONCAT(CONVERT(varchar(36), d.[group_database_id]), '|', CONVERT(varchar(27), d.[create_date], 121))"
    " AS [identity], d.[name]"
    " FROM sys.databases AS d WHERE d.[name] = DB_NAME()"
)
"""The connection's database, with its name as the server spells it.

Its identity has two marks, separated by a bar: one that survives a failover inside an availability group
(empty outside of one), and one that survives joining or leaving a group.
"""

FORK = (
    "SELECT CONVERT(varchar(36), r.[recovery_fork_guid]) AS [fork],"
    " CONVERT(varchar(36), r.[first_recovery_fork_guid]) AS [first],"
    " CONVERT(varchar(25), r.[fork_point_lsn]) AS [point]"
    " FROM sys.database_recovery_status AS r WHERE r.[database_id] = DB_ID()"
)
"""The connection's database's recovery fork, the one that it left last, and where, as a numeric(25,0).

The last two are NULL if it has left none. There is no row for a login that has none of the server's rights
VIEW ANY DATABASE (which public has unless it was revoked), ALTER ANY DATABASE and CREATE DATABASE, and does
not own the database.
"""

SNAPSHOTS = (
    "SELECT CONVERT(int, d.[snapshot_isolation_state]) AS [state]"
    " FROM sys.databases AS d WHERE d.[name] = DB_NAME()"
)
"""Whether transactions may use snapshot isolation: 1 if so; 2 and 3 while it is turned off and on."""

CAPTURES = (
    "SELECT ct.[capture_instance] AS [instance], s.[name] AS [schema], t.[name] AS [table],"
    " CONVERT(varchar(20), ct.[start_lsn], 2) AS [start], ct.[object_id], ct.[source_object_id],"
    " CONVERT(varchar(27), ct.[create_date], 121) AS [created],"
    " CASE WHEN k.[column_id] IS NULL THEN 0 ELSE 1 END AS [commands]"
    " FROM [cdc].[change_tables] AS ct"
    " JOIN sys.tables AS t ON t.[object_id] = ct.[source_object_id]"
    " JOIN sys.schemas AS s ON s.[schema_id] = t.[schema_id]"
    " LEFT JOIN sys.columns AS k ON k.[object_id] = ct.[object_id] AND k.[name] = N'__$command_id'"
    " WHERE ct.[start_lsn] IS NOT NULL AND COALESCE(ct.[has_drop_pending], 0) = 0"
    " ORDER BY s.[name], t.[name], ct.[start_lsn], ct.[create_date]"
)
"""An instance whose start is not known yet has no changes either, and is left out."""

_COLUMN = (
    "c.[name], COALESCE(b.[name], ty.[name]) AS [type], CONVERT(int, c.[max_length]) AS [length],"
    " CONVERT(int, c.[precision]) AS [precision], CONVERT(int, c.[scale]) AS [scale],"
    " CONVERT(int, c.[is_nullable]) AS [nullable], CONVERT(int, c.[is_identity]) AS [identity],"
    " CONVERT(int, c.[is_computed]) AS [computed], df.[definition] AS [default],"
    " COALESCE(c.[collation_name], N'') AS [collation]"
)
# In a system type's own row both columns have its number. CLR types all share one.
_TYPES = (
    " JOIN sys.types AS ty ON ty.[user_type_id] = c.[user_type_id]"
    " LEFT JOIN sys.types AS b ON b.[user_type_id] = c.[system_type_id] AND ty.[is_assembly_type] = 0"
    " LEFT JOIN sys.default_constraints AS df ON df.[object_id] = c.[default_object_id]"
)
CAPTURED_COLUMNS = (
    "SELECT cc.[object_id], cc.[column_name] AS [captured], cc.[column_ordinal] AS [ordinal],"
    f" o.[column_id], {_COLUMN}"
    " FROM [cdc].[captured_columns] AS cc"
    " JOIN [cdc].[change_tables] AS ct ON ct.[object_id] = cc.[object_id]"
    " LEFT JOIN sys.columns AS o ON o.[object_id] = ct.[source_object_id] AND o.[column_id] = cc.[column_id]"
    " LEFT JOIN sys.columns AS g ON o.[object_id] IS NULL AND g.[object_id] = cc.[object_id]"
    " AND g.[name] = cc.[column_name] COLLATE Latin1_General_BIN2"
    " JOIN sys.columns AS c ON c.[object_id] = COALESCE(o.[object_id], g.[object_id])"
    " AND c.[column_id] = COALESCE(o.[column_id], g.[column_id])"
    f"{_TYPES} ORDER BY cc.[object_id], cc.[column_ordinal]"
)
"""The columns of each change table, as its table has them now; dropped ones, as the log has them.

Of a dropped one `column_id` is NULL, also where the table has another column of its name by now.
"""


def columns(tables: Iterable[int]) -> str:
    """All columns of tables, by their object ids."""
    return (
        f"SELECT c.[object_id], c.[name] AS [captured], c.[column_id] AS [ordinal], c.[column_id], {_COLUMN}"
        f" FROM sys.columns AS c{_TYPES} WHERE {_among('c.[object_id]', tables)}"
        " ORDER BY c.[object_id], c.[column_id]"
    )


def keys(tables: Iterable[int]) -> str:
    """The columns of tables' primary keys and of other unique indexes that hold every row."""
    return (
        "SELECT i.[object_id], i.[index_id], CONVERT(int, i.[is_primary_key]) AS [is_primary], c.[name],"
        " CONVERT(int, c.[is_nullable]) AS [nullable]"
        " FROM sys.indexes AS i"
        " JOIN sys.index_columns AS ic ON ic.[object_id] = i.[object_id] AND ic.[index_id] = i.[index_id]"
        " JOIN sys.columns AS c ON c.[object_id] = ic.[object_id] AND c.[column_id] = ic.[column_id]"
        " WHERE i.[is_unique] = 1 AND i.[is_disabled] = 0 AND i.[has_filter] = 0"
        " AND i.[is_hypothetical] = 0 AND ic.[key_ordinal] > 0"
        f" AND i.[type] IN (1, 2) AND {_among('i.[object_id]', tables)}"
        " ORDER BY i.[object_id], i.[is_primary_key] DESC, i.[index_id], ic.[key_ordinal]"
    )


TABLES = (
    "SELECT s.[name] AS [schema], t.[name] AS [table], t.[object_id],"
    " CONVERT(int, t.[is_tracked_by_cdc]) AS [tracked]"
    " FROM sys.tables AS t JOIN sys.schemas AS s ON s.[schema_id] = t.[schema_id]"
    " WHERE t.[is_ms_shipped] = 0 AND s.[name] <> N'cdc' ORDER BY s.[name], t.[name]"
)
VIEWS = (
    "SELECT s.[name] AS [schema], v.[name] AS [view],"
    " CASE WHEN EXISTS (SELECT 1 AS [one] FROM sys.indexes AS i WHERE i.[object_id] = v.[object_id]"
    " AND i.[is_hypothetical] = 0)"
    " THEN 1 ELSE 0 END AS [indexed]"
    " FROM sys.views AS v JOIN sys.schemas AS s ON s.[schema_id] = v.[schema_id]"
    " WHERE v.[is_ms_shipped] = 0 ORDER BY s.[name], v.[name]"
)


SWITCHING = (
    "SELECT s.[name] AS [schema], t.[name] AS [table], ct.[capture_instance] AS [instance]"
    " FROM [cdc].[change_tables] AS ct"
    " JOIN sys.tables AS t ON t.[object_id] = ct.[source_object_id]"
    " JOIN sys.schemas AS s ON s.[schema_id] = t.[schema_id]"
    " WHERE ct.[partition_switch] = 1 AND EXISTS (SELECT 1 AS [one] FROM sys.partitions AS p"
    " WHERE p.[object_id] = t.[object_id] AND p.[index_id] IN (0, 1) AND p.[partition_number] > 1)"
    " ORDER BY s.[name], t.[name], ct.[capture_instance]"
)
"""Captured partitioned tables. Switching a partition in or out is not captured."""

OTHER_CODE_PAGES = (
    "SELECT s.[name] AS [schema], t.[name] AS [table], c.[name] AS [column],"
    " c.[collation_name] AS [collation]"
    " FROM [cdc].[captured_columns] AS cc"
    " JOIN [cdc].[change_tables] AS ct ON ct.[object_id] = cc.[object_id]"
    " JOIN sys.tables AS t ON t.[object_id] = ct.[source_object_id]"
    " JOIN sys.schemas AS s ON s.[schema_id] = t.[schema_id]"
    " JOIN sys.columns AS c ON c.[object_id] = ct.[source_object_id] AND c.[column_id] = cc.[column_id]"
    " JOIN sys.types AS ty ON ty.[user_type_id] = c.[system_type_id]"
    " WHERE ty.[name] IN (N'char', N'varchar', N'text')"
    " AND CONVERT(int, COLLATIONPROPERTY(c.[collation_name], 'CodePage')) <> CONVERT(int,"
    " COLLATIONPROPERTY(CONVERT(nvarchar(128), DATABASEPROPERTYEX(DB_NAME(), 'Collation')), 'CodePage'))"
    " ORDER BY s.[name], t.[name], c.[name]"
)
"""Captured columns whose characters CDC may lose: their code page differs from the database's."""


def agent_status(query: str, database: str) -> str:
    """The configured query for SQL Server Agent's status, for one database."""
    named = query.replace("[#db]", quote_ident(database)).replace("#db", quote_ident(database))
    return named.strip().rstrip(";")


def _among(column: str, numbers: Iterable[int]) -> str:
    listed = sorted(set(numbers))
    return f"{column} IN ({', '.join(map(str, listed))})" if listed else "1 = 0"
