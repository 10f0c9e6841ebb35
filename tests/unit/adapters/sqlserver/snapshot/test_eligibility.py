"""Which keys a table can be cut by, and which databases a state belongs to."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from adapters.sqlserver.checks import check_identity
from adapters.sqlserver.server.catalog import ListedTable
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.server.tsql import READABLE
from adapters.sqlserver.snapshot.eligibility import KnownTables, reading
from engine.errors import SignalError, StateError
from engine.model import CollectionId, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

ID = CollectionId(("shop", "dbo", "t"))
NEVER = {"text", "ntext", "image", "xml", "geometry", "geography"}


def read_by(kind: str):
    column = Column("k", 1, kind, 8, 18, 4, nullable=False, collation="Latin1_General_CI_AS")
    table = Table(ID, (column,), ("k",))
    return reading(Target(ID), KnownTables({ID: table}, {ID: ListedTable(ID, 7)}, {ID: table}))


@pytest.mark.parametrize("kind", sorted(READABLE - NEVER))
def test_a_table_is_cut_by_a_key_of_any_type_that_an_index_takes(kind):
    assert [column.type for column in read_by(kind).keyset.columns] == [kind]


@pytest.mark.parametrize("kind", sorted(NEVER))
def test_no_table_is_cut_by_what_no_index_takes(kind):
    with pytest.raises(SignalError, match="key"):
        read_by(kind)


@pytest.mark.parametrize(
    ("saved", "found"),
    [
        ("|2026-01-01", "|2026-01-01"),
        ("|2026-01-01", "G|2026-01-01"),
        ("G|2026-01-01", "|2026-01-01"),
        ("G|2026-01-01", "G|2025-12-31"),
        ("2026-01-01", "G|2026-01-01"),
        ("G", "G|2026-01-01"),
    ],
)
def test_a_database_is_the_same_by_its_group_or_by_when_it_was_made(saved, found):
    check_identity({"shop": saved, "gone": "x"}, {"shop": found, "new": "y"})


@pytest.mark.parametrize(("saved", "found"), [("|a", "|b"), ("G|a", "H|b"), ("G|a", "|b"), ("a", "|b")])
def test_a_database_that_shares_no_mark_is_another_one(saved, found):
    with pytest.raises(StateError, match="another database 'shop'"):
        check_identity({"shop": saved}, {"shop": found})


def test_columns_are_read_by_name_where_others_are_missing_since_a_star_has_no_hidden_ones():
    key, hidden = Column("k", 1, "int", nullable=False), Column("valid_to", 2, "datetime2", scale=7)
    gone = Column("gone", 3, "int")
    logged, actual = Table(ID, (key, hidden, gone), ("k",)), Table(ID, (key, hidden), ("k",))

    found = reading(Target(ID), KnownTables({ID: logged}, {ID: ListedTable(ID, 7)}, {ID: actual})).relation

    assert "*" not in found
    assert found.startswith("(SELECT q.[k], q.[valid_to], CONVERT(int, NULL) AS [gone] FROM [dbo].[t] AS q")


def test_a_surrogate_key_of_a_computed_column_is_refused():
    computed, other = Column("c", 1, "int", computed=True), Column("o", 2, "int")
    table = Table(ID, (computed, other))

    with pytest.raises(SignalError, match="does not have the key column 'c'"):
        reading(
            Target(ID, surrogate_key="c"), KnownTables({ID: table}, {ID: ListedTable(ID, 7)}, {ID: table})
        )


def test_a_column_that_was_added_again_is_not_read_and_can_be_no_key():
    key, again = Column("k", 1, "int", nullable=False), Column("v", 3, "nvarchar", length=5, nullable=False)
    logged = Table(ID, (key, Column("v", 2, "int")), ("k",), lost=frozenset({"v"}))
    known = KnownTables({ID: logged}, {ID: ListedTable(ID, 7)}, {ID: Table(ID, (key, again), ("k",))})

    assert reading(Target(ID), known).relation.startswith("(SELECT q.[k], CONVERT(int, NULL) AS [v] FROM")
    with pytest.raises(SignalError, match="'v' was dropped and added again"):
        reading(Target(ID, surrogate_key="v"), known)


def test_the_digest_of_a_schema_tells_names_types_and_their_order():
    key, name = Column("k", 1, "int", nullable=False), Column("n", 2, "varchar", length=9)
    others = [(name, key), (key, replace(name, length=10)), (key, replace(name, name="m")), (key,)]

    def schema(columns: Sequence[Column]) -> str:
        table = Table(ID, tuple(columns), ("k",))
        return reading(Target(ID), KnownTables({ID: table}, {ID: ListedTable(ID, 7)}, {ID: table})).schema

    assert schema((key, name)) == sha256(b'[["k","int"],["n","varchar(9)"]]').hexdigest()[:32]
    assert len({schema((key, name)), *map(schema, others)}) == 5
