"""Conditions and SELECTs as T-SQL: how they are written, and what is refused."""

from __future__ import annotations

import pytest

from adapters.source.conditions.rendering import render_condition
from adapters.sqlserver.conditions.grammar import GRAMMAR, finder
from adapters.sqlserver.conditions.trusted_sql import check_trusted, derived
from adapters.sqlserver.server.table import Column
from engine.errors import ConfigError, SignalError


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("SELECT * FROM dbo.t WHERE deleted = 0 ORDER BY id;", "SELECT * FROM dbo.t WHERE deleted = 0"),
        ("SELECT [é😀'] FROM t ORDER BY a", "SELECT [é😀'] FROM t"),
        ("SELECT a FROM t;;", "SELECT a FROM t"),
        ("SELECT a FROM t -- all", "SELECT a FROM t"),
        ("SELECT TOP 5 a FROM t ORDER BY a;", "SELECT TOP 5 a FROM t ORDER BY a"),
        (
            "SELECT a FROM t ORDER BY a OFFSET 1 ROWS FETCH NEXT 5 ROWS ONLY",
            "SELECT a FROM t ORDER BY a OFFSET 1 ROWS FETCH NEXT 5 ROWS ONLY",
        ),
        ("SELECT a FROM t UNION ALL SELECT a FROM u ORDER BY a", "SELECT a FROM t UNION ALL SELECT a FROM u"),
        (
            "SELECT a, ROW_NUMBER() OVER (ORDER BY b) AS n FROM t ORDER BY a",
            "SELECT a, ROW_NUMBER() OVER (ORDER BY b) AS n FROM t",
        ),
        ("SELECT a FROM t WHERE b = 'x ORDER BY y;'", "SELECT a FROM t WHERE b = 'x ORDER BY y;'"),
    ],
)
def test_a_select_loses_its_outer_order_and_its_semicolon(written, expected):
    assert derived(written, "the SELECT for dbo.t") == expected


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("WITH c AS (SELECT 1 AS a) SELECT a FROM c", "WITH"),
        ("SELECT a FROM t; SELECT a FROM u", "not one SELECT"),
        ("DELETE FROM t", "not one SELECT"),
        ("SELECT a INTO u FROM t", "not one SELECT"),
        ("", "not one SELECT"),
        ("SELECT a FROM t OPTION (RECOMPILE)", "OPTION"),
        ("SELECT a FROM t FOR XML AUTO", "OPTION nor FOR"),
        ("SELECT a FROM (t", "dbo.t"),
    ],
)
def test_what_can_not_stand_in_brackets_is_refused_by_its_origin(written, why):
    with pytest.raises(ConfigError, match=r"^the SELECT for dbo\.t can't be read from") as caught:
        derived(written, "the SELECT for dbo.t")
    assert why in str(caught.value)


COLUMNS = [Column(name, 1, "int") for name in ("id", "Amount", "we]ird", "v", "placed at")]


def written(condition: str) -> str:
    return render_condition(condition, GRAMMAR, finder(COLUMNS, "orders"), "shop.dbo.orders")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("[id] % 3 = 0 AND [v] LIKE N'1%'", "((([id] % 3) = 0) AND ([v] LIKE N'1%'))"),
        (
            "[n] % 3 <> 1 OR [v] LIKE N'TOUCHED%'".replace("[n]", "id"),
            "((([id] % 3) <> 1) OR ([v] LIKE N'TOUCHED%'))",
        ),
        ("AMOUNT > 1.5", "([Amount] > 1.5)"),
        ("[we]]ird] = 'it''s ?'", "([we]]ird] = 'it''s ?')"),
        ("t.[id] = 1 AND orders.id = 2 AND dbo.orders.id = 3", "(([id] = 1) AND ([id] = 2) AND ([id] = 3))"),
        ("id IN (1, -2)", "([id] IN (1, (- 2)))"),
        ("id NOT BETWEEN 1 AND 2", "(NOT ([id] BETWEEN 1 AND 2))"),
        ("v NOT LIKE 'a!%' ESCAPE '!'", "([v] NOT LIKE 'a!%' ESCAPE '!')"),
        ("[placed at] >= DATEADD(day, -1, GETDATE())", "([placed at] >= DATEADD(DAY, (- 1), GETDATE()))"),
        ("CONVERT(date, v, 112) > '2020-01-01'", "(CONVERT(date, [v], 112) > '2020-01-01')"),
        ("CAST(v AS nvarchar(max)) = N'ü'", "(CAST([v] AS nvarchar(MAX)) = N'ü')"),
        ("TRY_CAST(v AS decimal(10, 2)) IS NOT NULL", "(NOT (TRY_CAST([v] AS decimal(10, 2)) IS NULL))"),
        (
            "IIF(id > 1, 1, 0) = 1 AND ISNULL(v, 0) = 1",
            "((IIF(([id] > 1), 1, 0) = 1) AND (ISNULL([v], 0) = 1))",
        ),
        ("CASE id WHEN 1 THEN 2 ELSE 3 END = 2", "((CASE WHEN ([id] = 1) THEN 2 ELSE 3 END) = 2)"),
        ("v = 0xFF AND ~id = -1", "(([v] = 0xFF) AND ((~ [id]) = (- 1)))"),
        ("v COLLATE Latin1_General_BIN2 = 'a' -- { ?", "(([v] COLLATE Latin1_General_BIN2) = 'a')"),
    ],
)
def test_a_condition_is_written_anew(condition: str, expected: str):
    assert expected == written(condition)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("1 = 1) DROP TABLE dbo.t --", "a bracket is closed"),
        ("1 = 1; DROP TABLE t", "semicolon"),
        ("1 = 1 ORDER BY a", "no expression"),
        ("1 = 1 WAITFOR DELAY '0:0:9'", "no expression"),
        ("id IN (SELECT c FROM d)", "IN with 'query'"),
        ("EXISTS (SELECT 1 FROM d)", "EXISTS"),
        ("id = (SELECT 1)", "SUBQUERY"),
        ("nowhere = 1", "no column 'nowhere'"),
        ("other.id = 1", "no column 'other.id'"),
        ("dbo.evil(id) = 1", "not in the list"),
        ("NEWID() = v", "'NEWID'"),
        ("REPLICATE('x', 9000000) = v", "'REPLICATE'"),
        ("OPENROWSET('a', 'b', 'c') = 1", "'OPENROWSET'"),
        ("@@VERSION = v", "PARAMETER"),
        ("@x = 1", "PARAMETER"),
        ("id = ?", "PLACEHOLDER"),
        ("{d '2020-01-01'} = v", "DATE"),
        ("DATEADD(evil, 1, v) = 1", "no part of a date"),
        ("CAST(v AS dbo.evil) = 1", "a conversion to"),
        ("CAST(v AS sql_variant) = 1", "a conversion to"),
        ("CAST(v AS\" nvarchar(10))2) AND;T(v AS\" = 'x'", "a conversion to"),
        ("id | v + 1 = 1", "put brackets around"),
        ("id = v NOT BETWEEN 1 AND 2", "put brackets around the NOT in the EQ"),
        ("(" * 48 + "id = 1" + ")" * 48, "more than 24 brackets"),
        ("(" * 60_000, "more than 24 brackets"),
    ],
)
def test_what_is_not_in_the_list_is_refused_by_name(condition: str, why: str):
    with pytest.raises(SignalError) as caught:
        written(condition)

    assert why in str(caught.value)


@pytest.mark.parametrize(
    "condition",
    ["1 = 1) OR (1 = 1", "1 = 1; DROP TABLE t", "1 = 1 ORDER BY a", "{fn now()} > a", "a = ?", "(" * 60_000],
)
def test_more_than_a_condition_is_refused_of_trusted_people_too(condition: str):
    check_trusted("a > 1 AND b IN (SELECT c FROM d)", "t")
    with pytest.raises(SignalError):
        check_trusted(condition, "t")
