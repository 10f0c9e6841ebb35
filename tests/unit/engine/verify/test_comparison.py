"""What differs between rows that windows have seen and a copy's events, against a model of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.verify.tables.table_comparison import as_events
from engine.errors import SourceError
from engine.verify.compared_digests import SEEN_ROWS
from engine.verify.comparison import COPIED, ComparisonResult, EventPosition, Keeps, compare
from engine.verify.seen_row import SeenRow

if TYPE_CHECKING:
    from collections.abc import Sequence

SINCE, UPTO = 10, 20
KEYS = 6


def digest(value: int | None) -> bytes | None:
    return None if value is None else value.to_bytes(16, "big")


def seen_rows(*rows: tuple[int, int | None, int, SeenRow]) -> pa.Table:
    """Key, value, turn, and what was seen."""
    columns = [
        pa.array([digest(key) for key, *_ in rows], SEEN_ROWS.types[0]),
        pa.array([digest(value) for _, value, *_ in rows], SEEN_ROWS.types[1]),
        pa.array([str(key).encode() for key, *_ in rows], pa.large_binary()),
        pa.array([turn for _, _, turn, _ in rows], pa.int64()),
        pa.array([int(kind) for *_, kind in rows], pa.int8()),
    ]
    return pa.Table.from_arrays(columns, schema=SEEN_ROWS)


def copied(*events: tuple[Any, ...]) -> pa.Table:
    """Key, value, turn, whether a value may be missing, whether it is ahead. Its offset is its number."""
    whole = [(*event, False, False)[:5] for event in events]
    columns = [
        pa.array([digest(event[0]) for event in whole], COPIED.types[0]),
        pa.array([digest(event[1]) for event in whole], COPIED.types[1]),
        pa.array([event[2] for event in whole], pa.int64()),
        pa.array([0] * len(whole), pa.int64()),
        pa.array(range(len(whole)), pa.int64()),
        pa.array([1] * len(whole), pa.int64()),
        pa.array([event[3] for event in whole], pa.bool_()),
        pa.array([event[4] for event in whole], pa.bool_()),
    ]
    return pa.Table.from_arrays(columns, schema=COPIED)


def said(
    seen: pa.Table,
    events: pa.Table,
    truncates: Sequence[EventPosition] = (),
    upto: int = UPTO,
    *,
    keeps: Keeps = Keeps.EVENTS,
) -> dict[str, list[int]]:
    """The keys of each kind, and the counts of the others."""
    found: ComparisonResult = compare(seen, events, truncates, (SINCE, upto), keeps)
    keys = [int.from_bytes(key, "big") for key in seen.column("key").to_pylist()]
    theirs = [int.from_bytes(key, "big") for key in events.column("key").to_pylist()]
    return {
        "missing": sorted(keys[at] for at in found.missing),
        "different": sorted(keys[at] for at in found.different),
        **({"older": sorted(keys[at] for at in found.older)} if len(found.older) else {}),
        "undecided": sorted(keys[at] for at in found.undecided),
        "extra": sorted(theirs[at] for at in found.extra),
        "counts": [found.equal, found.changed],
    }


def only(counts: tuple[int, int], **kinds: list[int]) -> dict[str, list[int]]:
    return {"missing": [], "different": [], "undecided": [], "extra": [], "counts": list(counts)} | kinds


@pytest.mark.parametrize(
    ("seen", "events", "expected"),
    [
        ([(1, 5, 15, SeenRow.ROW)], [(1, 5, 3)], only((1, 0))),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 6, 3)], only((0, 0), different=[1])),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 5, 3), (1, None, 4)], only((0, 0), missing=[1])),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 5, 3), (1, 6, 4)], only((0, 0), different=[1])),
        (
            [(1, 5, 15, SeenRow.ROW)],
            [(1, 6, 3), (1, 5, 3), (1, 6, 4)],
            only((0, 0), different=[1], older=[1]),
        ),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 5, 3), (1, 6, 4), (1, 6, 5)], only((0, 0), different=[1])),
        (
            [(1, 5, 15, SeenRow.ROW)],
            [(2, 5, 3), (1, 6, 4), (2, 6, 4)],
            only((0, 0), different=[1], extra=[2]),
        ),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 6, 4), (1, 5, 21)], only((0, 0), different=[1])),
        ([(1, 5, 15, SeenRow.ROW)], [], only((0, 0), missing=[1])),
        ([], [(1, 5, 3)], only((0, 0), extra=[1])),
        ([], [(1, 5, 3), (1, None, 9)], only((0, 0))),
        ([], [(1, 5, 11)], only((0, 1))),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 5, 3), (1, 6, 16)], only((1, 0))),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 4, 3), (1, 6, 16)], only((0, 1))),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 4, 3), (1, 5, 15)], only((1, 0))),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 4, 3), (1, 6, 16, True)], only((0, 0), undecided=[1])),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 4, 3), (1, 5, 21)], only((0, 0), different=[1])),
        ([(1, None, 15, SeenRow.SUPERSEDED)], [(1, 4, 3), (1, 6, 12)], only((0, 1))),
        ([(1, None, 15, SeenRow.SUPERSEDED)], [(1, 4, 3)], only((0, 0), undecided=[1])),
        ([(1, None, 15, SeenRow.SUPERSEDED)], [(1, 4, 3), (1, 6, 12, True)], only((0, 0), undecided=[1])),
        ([(1, None, 12, SeenRow.SUPERSEDED), (1, 4, 15, SeenRow.ROW)], [(1, 4, 3)], only((1, 0))),
        ([(1, 3, 12, SeenRow.ROW), (1, 4, 15, SeenRow.ROW)], [(1, 3, 3), (1, 4, 14)], only((1, 0))),
        ([(1, None, 15, SeenRow.ABSENT)], [(1, 4, 3)], only((0, 0), extra=[1])),
        ([(1, None, 15, SeenRow.ABSENT)], [(1, 4, 3), (1, None, 13)], only((0, 0))),
        ([(1, None, 15, SeenRow.ABSENT)], [(1, 4, 3), (1, 5, 16)], only((0, 1))),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 6, 12, False, True)], only((0, 0), undecided=[1])),
        ([(1, 5, 15, SeenRow.ROW)], [(1, None, 12, True, True)], only((0, 0), undecided=[1])),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 6, 12, False, True), (1, 7, 16)], only((0, 1))),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 6, 12, False, True), (1, 7, 13)], only((0, 0), different=[1])),
        ([(1, 5, 15, SeenRow.ROW)], [(1, 5, 12, False, True)], only((1, 0))),
        ([(1, None, 15, SeenRow.ABSENT)], [(1, 4, 12, False, True)], only((0, 0), undecided=[1])),
    ],
)
def test_a_row_is_compared_with_what_the_copy_held_at_its_window(seen, events, expected):
    assert said(seen_rows(*seen), copied(*events)) == expected


def test_a_truncate_ends_every_row_before_it():
    events = copied((1, 5, 3), (2, 5, 3), (2, 6, 3))
    truncates = [EventPosition(3, 0, 2)]  # behind the second event, before the third

    assert said(seen_rows((2, 6, 15, SeenRow.ROW)), events, truncates) == only((1, 0))
    assert said(seen_rows((1, 5, 15, SeenRow.ROW), (2, 6, 15, SeenRow.ROW)), events, truncates) == only(
        (1, 0), missing=[1]
    )


def test_a_truncate_in_a_later_turn_heals_what_was_wrong():
    events = copied((1, 5, 3), (2, 5, 3))
    seen = seen_rows((1, 4, 15, SeenRow.ROW))

    assert said(seen, events, [EventPosition(16, 0, 0)]) == only((0, 1))
    assert said(seen, events, [EventPosition(21, 0, 0)]) == only((0, 0), different=[1], extra=[2])


@dataclass
class Model:
    """A source and its copy, turn by turn; faults change the copy before `SINCE`."""

    source: dict[int, dict[int, int]] = field(default_factory=lambda: {0: {}})
    events: list[tuple[int, int | None, int]] = field(default_factory=list)

    def at(self, turn: int) -> dict[int, int]:
        return self.source[max(known_turn for known_turn in self.source if known_turn <= turn)]

    def write(self, turn: int, key: int, value: int | None) -> None:
        rows = dict(self.at(turn))
        rows.pop(key, None)
        if value is not None:
            rows[key] = value
        self.source[turn] = rows
        self.events.append((key, value, turn))

    def copy(self, upto: int = UPTO) -> dict[int, int]:
        rows: dict[int, int] = {}
        for key, value, turn in self.events:
            if turn <= upto:
                rows.pop(key, None)
                if value is not None:
                    rows[key] = value
        return rows


_writes = st.lists(
    st.tuples(st.integers(1, UPTO), st.integers(1, KEYS), st.none() | st.integers(0, 3)), max_size=30
)
_faults = st.lists(st.tuples(st.integers(1, KEYS), st.none() | st.integers(0, 3)), max_size=3)
_windows = st.lists(
    st.tuples(st.integers(SINCE, UPTO), st.integers(0, 3)), min_size=KEYS + 1, max_size=KEYS + 1
)


def test_a_row_that_no_window_has_read_is_not_taken_for_sent_while_a_value_is_missing():
    """It moved to another key, and its large value did not change: a consumer does not have that."""
    events = copied(
        (1, 5, 12, True), (2, 5, 12, True), (2, 6, 13), (3, 5, 13), (4, 5, 13, True), (4, None, 14)
    )

    found = compare(seen_rows(), events, (), (SINCE, UPTO))

    assert (found.lacking, found.changed, len(found.extra)) == (1, 2, 0)


@pytest.mark.parametrize(
    ("events", "lacking"),
    [
        (
            [(1, 5, 3), (1, None, 11), (1, 6, 12, True)],
            1,
        ),  # another row has moved to the key of a deleted one
        ([(1, 5, 11), (1, None, 12), (1, 6, 13, True)], 1),
        ([(1, 5, 3), (1, None, 11), (1, 6, 12), (1, 7, 13, True)], 0),
        ([(1, 5, 11), (1, 6, 13, True)], 0),
    ],
)
def test_what_a_deleted_row_had_lends_no_value(events, lacking):
    found = compare(seen_rows(), copied(*events), (), (SINCE, UPTO))

    assert (found.lacking, found.changed) == (lacking, 1 - lacking)


@pytest.mark.parametrize(
    ("seen", "events"),
    [
        ((1, 4, 11, SeenRow.ROW), [(1, 5, 3), (1, None, 12), (1, 6, 13, True)]),
        ((1, 5, 11, SeenRow.ROW), [(1, 5, 3), (1, None, 12), (1, 6, 13, True)]),
        ((1, None, 11, SeenRow.ABSENT), [(1, 6, 13, True)]),
        ((1, None, 13, SeenRow.SUPERSEDED), [(1, 5, 3), (1, None, 12), (1, 6, 12, True)]),
    ],
    ids=["wrong", "equal", "absent", "superseded"],
)
def test_a_row_that_has_moved_to_the_key_that_a_window_has_read_is_looked_at_again(seen, events):
    assert said(seen_rows(seen), copied(*events)) == only((0, 0), undecided=[1])


def test_what_a_truncate_has_emptied_lends_no_value():
    events = copied((1, 5, 11), (1, 6, 13, True))

    found = compare(seen_rows(), events, [EventPosition(12, 0, 0)], (SINCE, UPTO))

    assert (found.lacking, found.changed) == (1, 0)


def test_rows_that_share_the_key_of_their_events_are_refused():
    """`message.key.columns` names a customer, who has several orders: the copy may lack all but one."""
    seen = seen_rows((1, 7, 15, SeenRow.ROW), (1, 8, 15, SeenRow.ROW), (2, 9, 15, SeenRow.ROW))
    seen = seen.set_column(2, "merge_key", pa.array([b"order 1", b"order 2", b"order 3"], pa.large_binary()))

    with pytest.raises(SourceError, match="rows share the key of their events"):
        said(seen, copied((1, 8, 5), (2, 9, 5)))


def test_an_update_without_its_row_leaves_the_row_in_the_copy():
    """MongoDB has not found the document any more, and the log was lost before it told of the delete."""
    seen = seen_rows((1, 7, 15, SeenRow.ROW), (2, None, 15, SeenRow.ABSENT))
    gone = [(key, 5, 8) for key in (1, 2, 3)], [(key, None, 9, True) for key in (1, 2, 3, 4)]

    found = said(seen, copied(*gone[0], *gone[1]))

    assert found == only((0, 0), different=[1], extra=[2, 3])


def test_an_update_without_its_row_may_be_all_that_a_compacted_topic_has_of_it():
    """Its consumers have read the row before."""
    seen = seen_rows((1, 7, 15, SeenRow.ROW), (2, None, 15, SeenRow.ABSENT))

    found = said(seen, copied(*((key, None, 9, True) for key in (1, 2, 3))), keeps=Keeps.LATEST)

    assert found == only((0, 0), different=[1], extra=[2, 3])


@settings(max_examples=400)
@given(_writes, _faults, _windows)
def test_no_difference_is_missed_and_none_is_invented(writes, faults, windows):
    """Every key has a window that opens and is emitted later. Faults are in the copy before the first one."""
    model = faulty(writes, faults)
    rows = windowed(model, windows)

    found = said(seen_rows(*rows), copied(*model.events))

    check(found, model)
    assert found["undecided"] == []


@settings(max_examples=400)
@given(_writes, _faults, _windows)
def test_a_table_that_has_no_history_is_compared_as_exactly(writes, faults, windows):
    """Of a table only its present rows are known, and the turns that have touched keys since `SINCE`."""
    model = faulty(writes, faults)
    touched = [(key, None, turn) for key, _value, turn in model.events if turn > SINCE]
    rows = windowed(model, windows)
    present = [(key, value, 0) for key, value in model.copy().items()]

    found = said(seen_rows(*rows), as_events([(UPTO, copied(*present))], copied(*touched)))

    check(found, model)
    assert found["undecided"] == []


@settings(max_examples=400)
@given(
    _writes,
    _faults,
    _windows,
    st.lists(st.tuples(st.integers(SINCE + 1, UPTO), st.integers(1, KEYS)), max_size=10),
    st.sets(st.integers(SINCE + 1, UPTO - 1), max_size=3),
)
def test_a_table_scanned_several_times_is_compared_as_exactly(writes, faults, windows, lacking, earlier):
    """Some updates leave a faulty value as it is. What scans before the last one say is still right."""
    model = faulty(writes, faults)
    for turn, key in lacking:
        value = model.copy(turn).get(key)
        if key in model.at(turn) and value is not None:
            model.events.append((key, value, turn))
            model.events.sort(key=lambda event: event[2])
    touched = [
        (key, None, turn, (turn, key) in lacking) for key, _value, turn in model.events if turn > SINCE
    ]
    scans = [
        (upto, copied(*((key, value, 0) for key, value in model.copy(upto).items())))
        for upto in (*sorted(earlier), UPTO)
    ]

    check(said(seen_rows(*windowed(model, windows)), as_events(scans, copied(*touched))), model)


def test_what_one_scan_of_a_table_has_decided_stays_decided():
    """Updates that lack a value follow: key 1 was equal, key 2 was not, key 3 is deleted without an event."""
    seen = seen_rows(*((key, 5, 12, SeenRow.ROW) for key in (1, 2, 3)))
    scans = [(14, copied((1, 5, 0), (2, 6, 0), (3, 5, 0))), (UPTO, copied((1, 5, 0), (2, 6, 0)))]
    touched = copied((1, None, 16, True), (1, None, 18, True), (2, None, 17, True))

    assert said(seen, as_events(scans, touched)) == only((1, 0), missing=[3], undecided=[2])
    assert said(seen, as_events(scans[1:], touched)) == only((0, 0), missing=[3], undecided=[1, 2])


@settings(max_examples=400)
@given(_writes, _faults, _windows, st.data())
def test_compacted_events_are_no_differences(writes, faults, windows, data):
    """Compaction may have removed any event that another one of its key follows, and deletes at the end.

    What it leaves undecided is looked at again: a row that has no event any more may have been deleted.
    """
    model = faulty(writes, faults)
    rows = windowed(model, windows)
    last = {key: number for number, (key, _value, _turn) in enumerate(model.events)}
    left = {
        number: event
        for number, event in enumerate(model.events)
        if (number == last[event[0]] and event[1] is not None) or not data.draw(st.booleans())
    }
    # Of a key whose delete is gone, all before it is gone as well.
    kept = [event for event in left.values() if last[event[0]] in left]

    found = said(seen_rows(*rows), copied(*kept), keeps=Keeps.LATEST)

    check(found, model)
    told = {key for key, _value, _turn in kept}
    assert not any(key in told and last[key] in left for key in found["undecided"])


def faulty(writes: Sequence[tuple[int, int, int | None]], faults: Sequence[tuple[int, int | None]]) -> Model:
    """These writes, in the order of their turns, with faults put into the copy after `SINCE`'s."""
    model = Model()
    ordered = sorted(writes, key=lambda write: write[0])
    for turn, key, value in ordered:
        if turn <= SINCE:
            model.write(turn, key, value)
    model.events += [(key, value, SINCE) for key, value in faults]
    for turn, key, value in ordered:
        if turn > SINCE:
            model.write(turn, key, value)
    return model


def windowed(model: Model, windows: Sequence[tuple[int, int]]) -> list[tuple[int, int | None, int, SeenRow]]:
    """What the windows see, each of one key."""
    rows = []
    for key in range(1, KEYS + 1):
        opened, waits = windows[key]
        sent = min(opened + waits, UPTO)
        touched = any(k == key and opened < turn <= sent for k, _value, turn in model.events)
        value = model.at(opened).get(key)
        if value is not None:
            rows.append(
                (key, None if touched else value, sent, SeenRow.SUPERSEDED if touched else SeenRow.ROW)
            )
    return sorted(rows, key=lambda row: row[2])


def check(found: dict[str, list[int]], model: Model) -> None:
    """Just the differences between source and copy were found."""
    source, copy, open_ = model.at(UPTO), model.copy(), set(found["undecided"])
    assert found["missing"] == sorted(source.keys() - copy.keys() - open_)
    assert found["extra"] == sorted(copy.keys() - source.keys() - open_)
    assert found["different"] == sorted(
        key for key in source.keys() & copy.keys() - open_ if source[key] != copy[key]
    )


def test_nothing_at_all_is_equal():
    found = compare(SEEN_ROWS.empty_table(), COPIED.empty_table(), [], (SINCE, UPTO))

    assert (found.equal, found.changed) == (0, 0)
    assert not np.concatenate((found.missing, found.different, found.undecided, found.extra)).size


_close = st.tuples(st.integers(SINCE, SINCE + 3), st.integers(0, 1))


@settings(max_examples=400)
@given(
    st.lists(
        st.tuples(st.integers(SINCE - 4, SINCE + 6), st.integers(1, KEYS), st.none() | st.integers(0, 3)),
        max_size=30,
    ),
    _faults,
    st.lists(_close, min_size=KEYS + 1, max_size=KEYS + 1),
    st.integers(0, 4),
    st.lists(st.integers(0, 4), min_size=31, max_size=31),
)
def test_rows_that_were_looked_up_late_are_no_differences(writes, faults, windows, lag, looks):
    """Changes are read from the log `lag` turns later, and their rows are looked up some time in between."""
    model = Model()
    for turn, key, value in sorted(writes, key=lambda write: write[0]):
        model.write(turn, key, value)
    events: list[tuple[int, int | None, int, bool, bool]] = []
    for (key, value, turn), waits in zip(model.events, looks, strict=False):
        row = model.at(turn + min(waits, lag)).get(key) if value is not None else None
        late = turn + lag > SINCE and value is not None
        events.append((key, row, turn + lag, value is not None and row is None, late))
    wrong = dict(faults)
    upto = max(opened + lag + waits for opened, waits in windows[1:])
    healed = {key for key, *_, turn in model.events if SINCE < turn + lag <= upto}
    at = next((number for number, event in enumerate(events) if event[2] > SINCE), len(events))
    events[at:at] = [(key, value, SINCE, False, False) for key, value in wrong.items()]
    rows = []
    for key in range(1, KEYS + 1):
        opened, waits = windows[key]
        sent = opened + lag + waits
        touched = any(k == key and opened < turn <= sent - lag for k, _value, turn in model.events)
        value = model.at(opened).get(key)
        if value is not None:
            rows.append(
                (key, None if touched else value, sent, SeenRow.SUPERSEDED if touched else SeenRow.ROW)
            )
    rows.sort(key=lambda row: row[2])

    found = said(seen_rows(*rows), copied(*events), upto=upto)

    kept = {key: value for key, value in wrong.items() if key not in healed}
    source = {key: model.at(SINCE).get(key) for key in kept}
    assert found["missing"] == sorted(k for k, v in kept.items() if v is None and source[k] is not None)
    assert found["extra"] == sorted(k for k, v in kept.items() if v is not None and source[k] is None)
    assert found["different"] == sorted(
        key for key, value in kept.items() if value is not None and source[key] not in {None, value}
    )
    assert set(found["undecided"]) <= healed
