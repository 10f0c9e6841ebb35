"""The key that a table had where the log describes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.postgres.server.table import (
    Column,
    Leaves,
    Relation,
    RelationColumn,
    Table,
    as_logged,
    is_bag,
    merge_key,
    untold,
)
from engine.model import CollectionId

NAMES = ("a", "b", "c")
NOW = Table(
    1,
    CollectionId(("s", "t")),
    "r",
    tuple(Column(name, 23, nullable=name == "c") for name in NAMES),
    primary_key=("b", "a"),
    identity_key=("b", "a"),
)


def logged(*marked: str, identity: str = "d", names: tuple[str, ...] = NAMES) -> Relation:
    columns = tuple(RelationColumn(name, 23, key=name in marked) for name in names)
    return Relation(1, "s", "t", identity, columns)


def test_the_same_columns_are_the_key_in_the_catalog_s_order():
    assert as_logged(logged("a", "b"), NOW) is NOW


def test_other_columns_are_the_key_in_the_table_s_order():
    then = as_logged(logged("b", "c"), NOW)

    assert (then.primary_key, then.identity_key) == (("b", "c"), ("b", "c"))
    assert then.column("c") == Column("c", 23, nullable=False)


def test_without_marks_there_was_no_primary_key():
    assert as_logged(logged(), NOW).primary_key == ()


def test_a_column_that_the_log_leaves_out_is_no_change():
    assert as_logged(logged("a", names=("a", "c")), NOW) is NOW


def test_a_key_that_is_checked_late_is_not_marked_and_still_the_key():
    late = replace(NOW, identity_key=())

    assert as_logged(logged(), late) is late


def test_where_the_log_marks_something_else_the_catalog_s_key_stands():
    assert as_logged(logged(*NAMES, identity="f"), NOW) is NOW


def test_a_table_that_is_gone_has_the_marked_key_or_the_one_that_is_remembered():
    assert as_logged(logged("a"), None).primary_key == ("a",)
    assert as_logged(logged(*NAMES, identity="f"), None, ("b",)).primary_key == ("b",)
    assert as_logged(logged(*NAMES, identity="f"), None, ("gone",)).primary_key == ()


def leaf(identity: str, *key: str) -> Leaves:
    return Leaves(CollectionId(("s", f"{identity} by {' '.join(key)}")), identity, key)


KEYLESS = replace(NOW, primary_key=(), identity_key=())
BY_C, BY_KEY, WHOLE, NONE = leaf("i", "c"), leaf("d", "b", "a"), leaf("f"), leaf("n")


@pytest.mark.parametrize(
    ("root", "leaves", "expected"),
    [
        pytest.param(NOW, (BY_KEY, WHOLE, NONE), (("b", "a"), None, False), id="the primary key"),
        pytest.param(NOW, (leaf("i", "a", "b", "c"),), (("b", "a"), None, False), id="an index that has it"),
        pytest.param(NOW, (BY_KEY, BY_C), ((), BY_C, False), id="an index that has it not"),
        pytest.param(
            replace(NOW, unique_key=("b",), other_keys=(("c",),)),
            (BY_C, WHOLE),
            (("c",), None, False),
            id="another key of the root",
        ),
        pytest.param(
            replace(NOW, identity="i", identity_key=("c",)),
            (BY_C, leaf("i", "c", "a")),
            (("c",), None, False),
            id="the root's index",
        ),
        pytest.param(KEYLESS, (WHOLE, NONE), ((), None, True), id="whole rows"),
        pytest.param(KEYLESS, (NONE,), ((), None, False), id="inserts alone"),
        pytest.param(KEYLESS, (WHOLE, BY_KEY), ((), BY_KEY, False), id="a key of one partition alone"),
    ],
)
def test_the_key_of_a_partitioned_table_is_one_that_all_its_partitions_log(root, leaves, expected):
    table = replace(root, kind="p", leaves=leaves)

    assert (merge_key(table), untold(table), is_bag(table)) == expected
