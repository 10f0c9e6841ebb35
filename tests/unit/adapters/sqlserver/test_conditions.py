"""SELECTs of the settings as they can stand in brackets, and what can't."""

from __future__ import annotations

import pytest

from adapters.sqlserver.conditions import check_condition, derived
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
    assert derived(written, "dbo.t") == expected


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
def test_what_can_not_stand_in_brackets_is_refused_by_its_property(written, why):
    with pytest.raises(ConfigError, match=r"overrides\.dbo\.t") as caught:
        derived(written, "dbo.t")
    assert why in str(caught.value)


@pytest.mark.parametrize("written", ["1 = 1) OR (1 = 1", "1 = 1; DROP TABLE t", "1 = 1 ORDER BY a"])
def test_more_than_a_condition_is_refused(written):
    check_condition("a > 1 AND b IN (SELECT c FROM d)", "t")
    with pytest.raises(SignalError):
        check_condition(written, "t")
