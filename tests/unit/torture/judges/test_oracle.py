"""The judge judged: it is content with what is right, and objects to each thing that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torture.emitted import Emitted
from tests.torture.oracle import Oracle, Table, Violation
from tests.torture.truth import UNCHANGED, Entry

if TYPE_CHECKING:
    from tests.torture.truth import Row

T = "public.t"
TYPES = {"k": "integer", "v": "text", "big": "text"}
LEFT_OUT = "__debezium_unavailable_value"


def row(key: int, value: str, big: str = "large") -> Row:
    return {"k": str(key), "v": value, "big": big}


def image(key: int, value: str | None, big: str | None = "large") -> dict[str, object]:
    return {"k": key, "v": value, "big": big}


@pytest.fixture
def oracle() -> Oracle:
    table = Table(T, ("k",), dict(TYPES))
    table.start([row(1, "old"), row(2, "old")])
    return Oracle({T: table})


def update(key: int, value: str, big: str = UNCHANGED) -> Entry:
    return Entry(9, "u", (T,), new=row(key, value, big))


def updated(key: int, value: str, big: str = LEFT_OUT) -> Emitted:
    return Emitted(1, T, "u", None, image(key, value, big), 9)


def read(key: int, value: str, turn: int = 1) -> Emitted:
    return Emitted(turn, T, "r", None, image(key, value), None)


def test_a_snapshot_beside_changes_is_right(oracle: Oracle):
    entries = [
        update(1, "new"),
        Entry(9, "u", (T,), old={"k": "2"}, new=row(3, "moved")),
        Entry(9, "c", (T,), new=row(4, "made")),
        Entry(9, "d", (T,), old={"k": "4"}),
    ]
    emitted = [
        read(1, "old"),
        updated(1, "new"),
        read(2, "old"),
        Emitted(1, T, "d", image(2, None, None), None, 9),
        Emitted(1, T, "c", None, image(3, "moved"), 9),
        read(1, "new"),
        Emitted(1, T, "c", None, image(4, "made"), 9),
        Emitted(1, T, "d", image(4, None, None), None, 9),
    ]

    oracle.follow(entries, emitted)
    oracle.tables[T].whole = True
    oracle.settle(T, [row(1, "new"), row(3, "moved")])

    assert oracle.ahead == []


@pytest.mark.parametrize(
    ("entries", "emitted"),
    [
        pytest.param([update(1, "new")], [updated(1, "new"), read(1, "old")], id="read-after-newer"),
        pytest.param([update(1, "new")], [read(1, "new"), updated(1, "new")], id="read-before-its-change"),
        pytest.param(
            [Entry(9, "d", (T,), old={"k": "1"})],
            [Emitted(1, T, "d", image(1, None, None), None, 9), read(1, "old")],
            id="read-after-delete",
        ),
        pytest.param([], [read(7, "never")], id="read-of-no-row"),
        pytest.param([update(1, "new")], [updated(1, "new"), updated(1, "new")], id="twice"),
        pytest.param([update(1, "a"), update(2, "b")], [updated(2, "b"), updated(1, "a")], id="out-of-order"),
        pytest.param([update(1, "a")], [updated(1, "b")], id="another-value"),
        pytest.param([update(1, "a", "told")], [updated(1, "a")], id="a-value-left-out"),
        pytest.param(
            [update(1, "a")], [Emitted(1, T, "u", None, {"k": 1, "v": "a"}, 9)], id="a-column-left-out"
        ),
        pytest.param(
            [update(1, "a")], [Emitted(1, T, "u", None, image(1, "a", LEFT_OUT), 8)], id="another-transaction"
        ),
        pytest.param(
            [Entry(9, "t", (T,))],
            [Emitted(1, T, "t", None, None, 9), read(1, "old")],
            id="read-after-truncate",
        ),
    ],
)
def test_what_is_wrong_is_a_violation(oracle: Oracle, entries: list[Entry], emitted: list[Emitted]):
    with pytest.raises(Violation):
        oracle.follow(entries, emitted)


def test_a_row_that_a_finished_snapshot_left_out_is_a_violation(oracle: Oracle):
    oracle.follow([], [read(1, "old")])
    oracle.settle(T, [row(1, "old"), row(2, "old")])
    oracle.tables[T].whole = True

    with pytest.raises(Violation, match="leave out 1 rows"):
        oracle.settle(T, [row(1, "old"), row(2, "old")])


def test_a_large_value_that_nobody_sent_is_a_violation(oracle: Oracle):
    oracle.follow([update(1, "new")], [updated(1, "new"), read(2, "old")])
    oracle.tables[T].whole = True

    with pytest.raises(Violation, match="nobody has sent 'big'"):
        oracle.settle(T, [row(1, "new"), row(2, "old")])


def test_a_change_that_was_not_emitted_is_left_over(oracle: Oracle):
    oracle.follow([update(1, "new")], [])

    assert [entry.new["v"] for entry in oracle.ahead] == ["new"]


def test_a_column_that_was_added_must_have_been_sent_with_its_values():
    oracle, table = Oracle(), Table("public.t", ("k",), {}, whole=True)
    oracle.tables["public.t"] = table
    table.copy = {("1",): {"k": "1", "c0": "7"}, ("2",): {"k": "2"}}

    oracle.check_columns("public.t", [{"k": "1", "c0": "7"}, {"k": "2", "c0": None}])
    assert oracle.happened["rows with a column that was added"] == 2
    with pytest.raises(Violation, match=r"nobody has sent 'c0' of row \('2',\) of public\.t"):
        oracle.check_columns("public.t", [{"k": "2", "c0": "7"}])


def deleted(key: int) -> Emitted:
    return Emitted(1, T, "d", image(key, "strange"), None, None)


def test_a_repair_deletes_what_only_the_sink_has_and_nothing_else(oracle: Oracle):
    oracle.strangers = {(T, ("7",)), ("public.u", ("8",))}

    assert not oracle.sends_away(read(7, "strange"))
    assert oracle.sends_away(deleted(7))
    assert not oracle.sends_away(deleted(7))
    assert not oracle.sends_away(deleted(8))
    assert oracle.strangers == {("public.u", ("8",))}
