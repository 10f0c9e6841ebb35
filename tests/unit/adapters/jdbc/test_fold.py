from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from adapters.jdbc import copy_lines
from adapters.jdbc.folding.fold import Fold
from adapters.jdbc.folding.turn_events import PlacedBatch, TurnEvents
from adapters.jdbc.placeholders import Placeholders
from adapters.lake.table_name import TableName
from adapters.lakehouse.batch import replica_batch
from engine.errors import SinkRefused
from engine.events.record.schema import INT32, STRING, array, struct, text_map
from tests.lake import MemoryTable, MemoryTables
from tests.typed_batches import KEY, MISSING, ROW, change, typed

if TYPE_CHECKING:
    import pyarrow as pa

PLACEHOLDERS = Placeholders(MISSING, MISSING.encode())
NAME = TableName("", "t")


def fold(*batches: pa.RecordBatch) -> Fold:
    return Fold(
        TurnEvents([PlacedBatch(number, batch) for number, batch in enumerate(batches)]), PLACEHOLDERS
    )


def written(folded: Fold) -> list[str]:
    return [line.rstrip("\n") for text in copy_lines.rows(folded) for line in text.to_pylist()]


def deleted(folded: Fold) -> list[str]:
    found = copy_lines.deletes(folded)
    return [] if found is None else [line.split("\t")[0] for line in found.to_pylist()]


def patched(folded: Fold) -> list[str]:
    found = copy_lines.patched(folded)
    return [] if found is None else [line.rstrip("\n") for line in found.to_pylist()]


def test_the_last_change_of_each_key_counts():
    folded = fold(
        typed(change("c", 1, "a"), change("c", 2, "a"), change("u", 1, "b"), change("c", 3)),
        typed(change("d", 2), change("d", 3), change("c", 3, "new")),
    )

    assert sorted(written(folded)) == ["1\tb\tt", "3\tnew\tt"]
    assert deleted(folded) == ["2"]
    assert patched(folded) == []


def test_events_of_one_part_are_put_into_the_order_of_the_log():
    newer = struct("Value", *ROW.fields, ("more", STRING.nullable()), optional=True)
    first = typed(change("u", 1, "oldest"), change("u", 1, "newest"), orders=[10, 30])
    between = typed(
        ("u", {"id": 1}, {"id": 1, "note": "between", "text": "t", "more": "m"}), row=newer, orders=[20]
    )

    folded = Fold(TurnEvents([PlacedBatch(0, first), PlacedBatch(0, between)]), PLACEHOLDERS)

    assert patched(folded) == ["1\tnewest\tt\tm\t0000\t\\N"]
    assert written(folded) == []


def test_parts_follow_one_another_whatever_the_order_inside():
    folded = fold(
        typed(change("u", 1, "early"), orders=[900]),
        typed(change("r", 1, "read"), orders=[None]),
        typed(change("u", 1, "late"), orders=[5]),
    )

    assert written(folded) == ["1\tlate\tt"]


def test_a_truncate_removes_what_was_there_and_what_the_turn_had_before_it():
    folded = fold(typed(change("c", 1), change("d", 2), change("t", 0), change("c", 3)))

    assert folded.events.truncated
    assert (written(folded), deleted(folded)) == (["3\tn\tt"], [])


def test_a_truncate_alone_leaves_nothing_to_write():
    folded = fold(typed(change("c", 1), change("t", 0)))

    assert (folded.events.truncated, written(folded), deleted(folded), patched(folded)) == (True, [], [], [])


def test_a_key_that_changes_is_deleted_and_written():
    folded = fold(typed(change("d", 1), change("c", 2), headers=["new", "old"]))

    assert (written(folded), deleted(folded)) == (["2\tn\tt"], ["1"])


def test_the_target_keeps_a_value_that_the_log_leaves_out():
    folded = fold(typed(change("u", 1, "b", MISSING), change("u", 2, "c")))

    assert written(folded) == ["2\tc\tt"]
    assert patched(folded) == ["1\tb\t\\N\t001\t1"]


def test_a_value_that_an_earlier_event_of_the_turn_has_is_taken_from_there():
    folded = fold(
        typed(change("u", 1, "a", "large"), change("u", 1, "b", MISSING)),
        typed(change("u", 1, "c", MISSING)),
    )

    assert patched(folded) == ["1\tc\tlarge\t000\t\\N"]


def test_a_value_from_before_a_delete_is_not_taken():
    folded = fold(
        typed(
            change("u", 1, "a", "gone"),
            change("d", 1),
            change("c", 1, "b", "new"),
            change("u", 1, "c", MISSING),
        )
    )

    assert patched(folded) == ["1\tc\tnew\t000\t\\N"]


def test_a_row_that_moves_takes_its_value_from_the_old_keys_row():
    folded = fold(typed(change("d", 1), change("c", 2, "b", MISSING), headers=["new", "old"]))

    assert deleted(folded) == ["1"]
    assert patched(folded) == ["2\tb\t\\N\t001\t1"]


def test_a_row_that_moves_twice_and_changes_takes_its_value_from_the_first_key():
    folded = fold(
        typed(
            change("u", 1, "a", MISSING),
            change("d", 1),
            change("c", 2, "b", MISSING),
            change("u", 2, "c", MISSING),
            change("d", 2),
            change("c", 3, "d", MISSING),
            change("u", 3, "e", MISSING),
            headers=[None, "new", "old", None, "new", "old", None],
        )
    )

    assert deleted(folded) == ["1", "2"]
    assert patched(folded) == ["3\te\t\\N\t001\t1"]


def test_a_row_that_moves_takes_its_value_from_the_turn_if_it_is_there():
    folded = fold(
        typed(
            change("u", 1, "a", "large"),
            change("u", 1, "b", MISSING),
            change("d", 1),
            change("c", 2, "c", MISSING),
            headers=[None, None, "new", "old"],
        )
    )

    assert patched(folded) == ["2\tc\tlarge\t000\t\\N"]


@pytest.mark.parametrize(
    ("note", "text", "line"),
    [(MISSING, "new", "2\t\\N\tnew\t010\t1"), ("new", MISSING, "2\tnew\t\\N\t001\t1")],
)
def test_a_row_that_moves_keeps_one_large_value_and_takes_the_other_from_the_turn(note, text, line):
    folded = fold(
        typed(
            change("u", 1, note, text),
            change("d", 1),
            change("c", 2, MISSING, MISSING),
            headers=[None, "new", "old"],
        )
    )

    assert patched(folded) == [line]


LARGE = ("a", "b", "c")
WIDE = struct("Value", ("id", INT32), *((name, STRING.nullable()) for name in LARGE), optional=True)
KEYS = st.integers(0, 9)
STEPS = st.tuples(st.sampled_from("cuumd"), KEYS, KEYS, st.sets(st.sampled_from(LARGE), max_size=1))


@given(st.lists(STEPS, min_size=1, max_size=9), st.integers(0, 9))
def test_any_history_of_a_turn_gives_the_sources_rows_with_all_large_values(steps, cut):
    table = MemoryTable(
        "id", {}, rows=[{"id": key, **dict.fromkeys(LARGE, f"old {key}")} for key in range(3)]
    )
    rows = {row["id"]: row for row in table.rows}
    events = [event for number, step in enumerate(steps) for event in _happen(rows, number, *step)]
    assume(events)
    parts = [
        typed(*(event for event, _ in part), headers=[header for _, header in part], row=WIDE)
        for part in (events[:cut], events[cut:])
        if part
    ]

    tables = MemoryTables({NAME: table})
    tables.write(NAME, replica_batch(fold(*parts)), 1)

    assert sorted(tables.tables[NAME].rows, key=itemgetter("id")) == [rows[key] for key in sorted(rows)]


def _happen(
    rows: dict[int, Any], number: int, op: str, which: int, free: int, changed: set[str]
) -> list[tuple[Any, str | None]]:
    """Change a row of the source, or create one; the events of that, each with its headers."""
    if not rows and op != "c":
        return []
    old = sorted(rows)[which % len(rows)] if rows else -1
    absent = sorted(set(range(13)) - rows.keys())
    key = absent[free % len(absent)] if op in "cm" else old
    before = {} if op == "c" else rows.pop(old)
    if op == "d":
        return [(change("d", old), None)]
    given = LARGE if op == "c" else sorted(changed)
    row = rows[key] = before | {"id": key} | {name: f"{number} {name}" for name in given}
    after = {"id": key, **{name: row[name] if name in given else MISSING for name in LARGE}}
    if op == "m":
        return [(change("d", old), "new"), (("c", {"id": key}, after), "old")]
    return [((op, {"id": key}, after), None)]


def test_rows_that_swap_their_keys_keep_their_own_values():
    folded = fold(
        typed(
            *(change("d", 1), change("c", 9, "one", MISSING)),
            *(change("d", 2), change("c", 1, "two", MISSING)),
            *(change("d", 9), change("c", 2, "one", MISSING)),
            headers=["new", "old"] * 3,
        )
    )

    assert deleted(folded) == ["9"]
    assert patched(folded) == ["1\ttwo\t\\N\t001\t2", "2\tone\t\\N\t001\t1"]


def test_after_a_truncate_there_is_no_value_to_keep():
    folded = fold(typed(change("t", 0), change("c", 1, "a", "new"), change("u", 1, "b", MISSING)))

    assert patched(folded) == ["1\tb\tnew\t000\t\\N"]


def test_a_create_may_have_the_placeholders_text_as_its_value():
    folded = fold(typed(change("c", 1, "a", MISSING), change("r", 2, "b", MISSING)))

    assert patched(folded) == []
    assert written(folded) == [f"1\ta\t{MISSING}", f"2\tb\t{MISSING}"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (array(STRING), [MISSING]),
        (array(INT32), list(MISSING.encode())),
        (text_map(), [(MISSING, MISSING)]),
    ],
)
def test_placeholders_of_arrays_and_maps_are_known(schema, value):
    row = struct("Value", ("id", INT32), ("many", schema.nullable()), optional=True)
    folded = fold(typed(("u", {"id": 1}, {"id": 1, "many": value}), row=row))

    assert patched(folded) == ["1\t\\N\t01\t1"]


def test_a_column_that_the_table_has_no_more_is_kept():
    fewer = struct("Value", *ROW.fields[:2], optional=True)
    folded = fold(
        typed(change("c", 1, "a", "kept")),
        typed(("u", {"id": 1}, {"id": 1, "note": "b"}), ("u", {"id": 2}, {"id": 2, "note": "c"}), row=fewer),
    )

    assert list(folded.events.columns.all) == ["id", "note", "text"]
    assert patched(folded) == ["1\tb\tkept\t000\t\\N", "2\tc\t\\N\t001\t2"]


def test_a_row_from_before_a_column_was_added_gets_its_default():
    more = struct("Value", *ROW.fields, ("state", replace(STRING, default='"new"')), optional=True)
    last = ("c", {"id": 2}, {"id": 2, "note": "b", "text": "t", "state": "old"})
    folded = fold(typed(change("c", 1, "a")), typed(last, row=more))

    assert written(folded) == ["2\tb\tt\told"]
    assert patched(folded) == ["1\ta\tt\tnew\t0001\t\\N"]


def test_a_table_without_a_key_is_refused():
    with pytest.raises(SinkRefused, match="no key"):
        _ = fold(typed(("c", None, {"id": 1, "note": "a", "text": "b"}), key=None)).events.columns


def test_a_key_with_a_null_in_it_is_refused():
    key = struct("Key", ("note", STRING.nullable()))
    folded = fold(typed(("c", {"note": None}, {"id": 1, "note": None, "text": "b"}), key=key))

    with pytest.raises(SinkRefused, match="null"):
        copy_lines.deletes(folded)


def test_a_key_that_has_other_columns_later_is_refused():
    other = struct("Key", ("note", STRING))
    later = typed(("c", {"note": "b"}, {"id": 1, "note": "b", "text": "t"}), key=other)

    with pytest.raises(SinkRefused, match="key has changed"):
        _ = fold(typed(change("c", 1)), later).events.columns


def test_a_key_of_several_columns_is_told_from_one_with_a_tab_inside():
    key = struct("Key", ("note", STRING), ("text", STRING))
    first = {"note": "a\tb", "text": "c"}, {"note": "a", "text": "b\tc"}
    folded = fold(typed(*(("c", key, {"id": 1, **key}) for key in first), key=key))

    assert written(folded) == ["1\ta\\tb\tc", "1\ta\tb\\tc"]


def test_many_rows_are_folded_without_a_loop_over_them():
    count = 20_000
    folded = fold(typed(*(change("u", number % 5000, str(number)) for number in range(count))))

    assert sorted(written(folded))[:1] == [f"0\t{count - 5000}\tt"]
    assert len(written(folded)) == 5000


def test_an_update_without_its_document_is_refused():
    folded = fold(typed(("u", {"id": 1}, None), row=ROW, key=KEY))

    with pytest.raises(SinkRefused, match=r"capture\.mode"):
        list(copy_lines.rows(folded))
