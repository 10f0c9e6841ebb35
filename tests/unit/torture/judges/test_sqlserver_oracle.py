"""The judge of SQL Server's rows sees what a wrong job would do; so these tests are wrong jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torture.emitted import Emitted
from tests.torture.oracle import Table, Violation
from tests.torture.sqlserver_mutants import SQLSERVER_MUTANTS
from tests.torture.sqlserver_oracle import CAME, DARK, LIGHT, SqlServerOracle
from tests.torture.sqlserver_scenes import SCENES
from tests.torture.sqlserver_tables import stored, told
from tests.torture.sqlserver_truth import commit_of, number, paired
from tests.torture.truth import Entry

if TYPE_CHECKING:
    from tests.torture.truth import Row

A, B = "alpha.dbo.t", "beta.dbo.t"


def row(ver: int, key: int = 1, **more: str | None) -> Row:
    return {"k": str(key), "ver": str(ver), **more}


def oracle(*rows: Row) -> SqlServerOracle:
    found = SqlServerOracle()
    for name in (A, B):
        table = Table(name, ("k",), {})
        table.start(rows)
        found.know(table)
    return found


def change(old: Row | None, new: Row | None, at: int = 1, name: str = A) -> Entry:
    return Entry(at, "u" if old and new else "d" if old else "c", (name,), old=old or {}, new=new or {})


def event(old: Row | None, new: Row | None, at: int = 1, name: str = A, serial: int = 0) -> Emitted:
    op = "u" if old and new else "d" if old else "c"
    return Emitted(1, name, op, old, new, at, place=serial or (2 if op == "u" else 1))


def read(image: Row, name: str = A) -> Emitted:
    return Emitted(1, name, "r", None, image, None)


def test_nothing_is_asked_of_the_order_between_databases():
    judge = oracle(row(1))
    judge.follow(
        [change(row(1), row(2), 1), change(row(1), row(3), 2, B)],
        [event(row(1), row(3), 2, B), read(row(3), B), read(row(1)), event(row(1), row(2))],
    )

    assert judge.left() == []
    judge.settle(A, [row(2)])
    judge.settle(B, [row(3)])


def test_a_row_read_that_is_newer_than_the_log_is_seen():
    with pytest.raises(Violation, match="is '1' here"):
        oracle(row(1)).follow([change(row(1), row(2))], [read(row(2))])


def test_an_event_out_of_the_order_of_its_own_log_is_seen():
    judge = oracle(row(1))
    with pytest.raises(Violation, match="the log goes on"):
        judge.follow(
            [change(row(1), row(2)), change(row(2), row(3), 2)],
            [event(row(2), row(3), 2)],
        )


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 2), (2, 1)])
def test_a_wrong_number_of_a_keys_change_is_seen(first: int, second: int):
    judge = oracle(row(1))
    with pytest.raises(Violation, match="event_serial_no"):
        judge.follow(
            [change(row(1), row(2, key=9))],
            [event(row(1), None, serial=first), event(None, row(2, key=9), serial=second)],
        )


@pytest.mark.parametrize("before", [row(7), row(1, v="other"), row(1, big="other")])
def test_a_wrong_image_before_is_seen(before: Row):
    judge = oracle(row(1, v="v", big="large"))
    with pytest.raises(Violation, match="before"):
        judge.follow([change(row(1, v="v", big=None), row(2))], [event(before, row(2))])


def test_a_large_value_that_was_left_alone_may_be_lacking_before():
    judge = oracle(row(1, big="large"))
    old, new = row(1, big=None), row(2, big="large")
    judge.follow([change(old, new), change(old | {"ver": "2"}, row(3), 2)], [event(old, new)])
    judge.follow([], [event(row(2, big="large"), row(3), 2)])

    assert judge.left() == []


def test_what_became_of_a_dark_table_is_not_asked():
    judge = oracle(row(1))
    judge.follow([Entry(1, DARK, (A,))], [read(row(5))])
    assert judge.left() == []
    judge.settle(A, [row(6)])

    judge.follow([Entry(2, LIGHT, (A,)), Entry(2, CAME, (A,), new=row(6))], [read(row(6))])
    assert judge.left() == []
    judge.settle(A, [row(6)])


def test_a_row_read_in_the_dark_must_not_come_behind_the_light():
    judge = oracle(row(1))
    lit = [Entry(1, DARK, (A,)), Entry(2, LIGHT, (A,)), Entry(2, CAME, (A,), new=row(6))]
    with pytest.raises(Violation, match="is '6' here"):
        judge.follow([*lit, change(None, row(7, key=2), 3)], [event(None, row(7, key=2), 3), read(row(5))])


def test_a_column_that_was_dropped_is_passed_over_in_rows_read():
    judge = oracle(row(1, c1="7"))
    judge.drop_column(A, "c1")
    judge.follow([], [read(row(1, c1=None))])

    judge.settle(A, [row(1)])


@pytest.mark.parametrize(("told", "right"), [("", True), ("other", False)])
def test_the_old_image_of_a_dropped_column_is_what_the_change_table_has(told: str, right: bool):  # noqa: FBT001
    """One that is NOT NULL has the empty value of its type there."""
    judge = oracle(row(1, c1="seven"))
    judge.drop_column(A, "c1")
    entry, emitted = change(row(1, c1=""), row(2, c1="")), event(row(1, c1=told), row(2, c1=""))
    if right:
        judge.follow([entry], [emitted])
        return
    with pytest.raises(Violation, match="before"):
        judge.follow([entry], [emitted])


def test_a_commit_is_in_the_order_of_its_commands_and_only_a_key_that_moved_alone_is_one_entry():
    digits = "00000025000000100001"
    shifted = [(1, 1, 1, 1), (2, 2, 1, 2), (3, 3, 1, 3), (4, 1, 2, 2), (5, 2, 2, 3), (6, 3, 2, 4)]
    alone = [(7, 9, 1, 7), (8, 9, 2, 8)]
    changes = [
        (digits, command, f"{change:020x}", operation, A, row(command, key))
        for command, change, operation, key in sorted([*shifted, *alone], key=lambda found: found[1])
    ]

    entries = list(paired(changes))

    told = [(entry.op, entry.transaction & 15, (entry.new or entry.old)["k"]) for entry in entries]
    deleted, inserted = (
        [("d", key, str(key)) for key in (1, 2, 3)],
        [("c", key, str(key + 1)) for key in (1, 2, 3)],
    )
    assert told == [*deleted, *inserted, ("u", 9, "8")]


def test_places_are_numbers_that_grow_along_the_log():
    first, second = "00000025:00000d98:00a2", "00000025:00000d98:00a3"
    assert number(first, second) < number(second, first) < number(second, second)
    assert commit_of(number(first, second)) == first


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("float", 0.1, "1.0000000000000001e-001"),
        ("varbinary", "AQ+8", "010FBC"),
        ("date", 19_000, "2022-01-08"),
        ("datetime2", 1_711_836_000_000_007_700, "2024-03-30 22:00:00.0000077"),
        ("int", 7, "7"),
        ("nvarchar", None, None),
    ],
)
def test_an_events_value_is_the_databases_text(kind: str, value: object, text: str | None):
    assert told(value, kind) == stored(text, kind)


def test_every_guard_of_sql_server_has_its_scene():
    assert {mutant.scene for mutant in SQLSERVER_MUTANTS.values()} == set(SCENES)


def test_a_row_that_only_the_sink_has_is_deleted_by_a_repair_alone():
    judge = oracle(row(1))
    judge.strangers = {(A, ("7",))}

    judge.follow([], [event(row(1, key=7), None)])

    assert judge.strangers == set()
    with pytest.raises(Violation, match="not in the log"):
        judge.follow([], [event(row(1, key=7), None)])
