"""Comparing with a table whose position nobody knows: by looks, and against a table that lags."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from engine.snapshot.merge_key import KEY_TYPE
from engine.verify.compared_digests import SEEN_ROWS
from engine.verify.seen_row import SeenRow
from engine.verify.settled import DIFFERENCES, HELD, TOUCHED, SettledResult, Since, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def digest(text: object) -> bytes:
    return str(text).encode().ljust(16, b".")


def seen_rows(rows: Sequence[tuple[int, SeenRow, str | None]], turns: Sequence[int] = ()) -> pa.Table:
    """Rows seen: the key, what was seen of it, and its row."""
    columns = [
        [digest(key) for key, _kind, _row in rows],
        [None if row is None else digest(row) for _key, _kind, row in rows],
        [str(key).encode() for key, _kind, _row in rows],
        turns or [1 for _row in rows],
        [int(kind) for _key, kind, _row in rows],
    ]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, SEEN_ROWS.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SEEN_ROWS)


def held_rows(rows: Sequence[tuple[int, str]]) -> pa.Table:
    """Rows of the table. The source can't have those with a negative key."""
    return pa.table(
        {
            "key": pa.array([digest(key) for key, _row in rows], HELD.types[0]),
            "row": pa.array([digest(row) for _key, row in rows], HELD.types[1]),
            "place": pa.array(range(len(rows)), pa.int64()),
            "merge_key": pa.array([None if key < 0 else str(key).encode() for key, _row in rows], KEY_TYPE),
        }
    )


def keys(touched: Iterable[int]) -> pa.Table:
    return at_turns(dict.fromkeys(touched, 9))


def at_turns(touched: Mapping[int, int]) -> pa.Table:
    """Keys touched, each with its turn."""
    found = [pa.array(map(digest, touched), TOUCHED.types[0]), pa.array(touched.values(), TOUCHED.types[1])]
    return pa.table(found, schema=TOUCHED)


FIRST = Since(DIFFERENCES.empty_table(), TOUCHED.empty_table())
ROW = SeenRow.ROW


def two_looks(
    seen: Sequence[tuple[int, SeenRow, str | None]],
    held: list[tuple[int, str]],
    again: list[tuple[int, str]] | None = None,
    touched: Iterable[int] = (),
    **since: Any,
) -> SettledResult:
    """The outcome of the second of two looks, in which the table holds `again`."""
    first = judge(seen_rows(seen), held_rows(held), FIRST)
    known = Since(first.differences, keys(touched), **since)
    return judge(seen_rows(seen), held_rows(held if again is None else again), known)


def counts(found: SettledResult) -> tuple[int, ...]:
    rows = (found.missing, found.different, found.extra, found.again, found.unseen)
    return (found.equal, *map(len, rows))


def test_equal_rows_need_one_look():
    found = judge(seen_rows([(1, ROW, "a"), (2, ROW, "b")]), held_rows([(2, "b"), (1, "a")]), FIRST)

    assert (counts(found), found.unread, len(found.differences)) == ((2, 0, 0, 0, 0, 0), 0, 0)


def test_no_difference_counts_in_the_first_look():
    found = judge(seen_rows([(1, ROW, "a"), (2, ROW, "b")]), held_rows([(2, "x"), (3, "c")]), FIRST)

    assert (counts(found), found.unread) == ((0, 0, 0, 0, 2, 1), 0)


def test_differences_count_in_the_second_look():
    found = two_looks([(1, ROW, "a"), (2, ROW, "b")], [(2, "x"), (3, "c")])

    assert (counts(found), found.unread) == ((0, 1, 1, 1, 0, 0), 0)


@pytest.mark.parametrize(
    ("again", "touched"),
    [([(1, "y")], ()), ([], ()), ([(1, "x")], (1,))],
    ids=["another row is held", "none is held any more", "the stream has carried the key"],
)
def test_a_difference_that_changes_is_looked_at_again(again, touched):
    found = two_looks([(1, ROW, "a")], [(1, "x")], again, touched)

    assert counts(found) == (0, 0, 0, 0, 1, 0)


def test_a_difference_that_was_healed_is_none():
    assert counts(two_looks([(1, ROW, "a")], [(1, "x")], [(1, "a")])) == (1, 0, 0, 0, 0, 0)


def test_a_truncate_touches_all_keys():
    found = two_looks([(1, ROW, "a")], [(1, "x"), (2, "y")], emptied=9)

    assert (counts(found), found.changed) == ((0, 0, 0, 0, 1, 1), 0)


def test_a_row_that_only_the_table_has_counts_once_windows_see_all_that_was_sent():
    found = two_looks([], [(2, "y")], visible=False)

    assert (counts(found), found.unread) == ((0, 0, 0, 0, 0, 0), 1)


def test_a_row_that_came_after_its_range_was_read_is_changed():
    found = two_looks([(1, ROW, "a")], [(1, "a"), (2, "y")], touched=(2,))

    assert (counts(found), found.unread, found.changed) == ((1, 0, 0, 0, 0, 0), 0, 1)


def test_a_row_that_only_the_table_has_is_looked_at_by_its_key():
    """And it counts if windows don't find it. Where they have not looked for the key, all is read again."""
    first = judge(seen_rows([]), held_rows([(2, "y"), (-3, "z")]), FIRST)
    known = Since(first.differences, keys(()))
    absent = seen_rows([(2, SeenRow.ABSENT, None)])

    assert (first.unseen.tolist(), first.unread) == ([0], 1)
    assert counts(judge(absent, held_rows([(2, "y")]), known)) == (0, 0, 0, 1, 0, 0)


def test_a_new_row_is_looked_at_again_in_the_first_look_as_far_as_there_are_not_too_many():
    rows = held_rows([(2, "y"), (3, "z"), (4, "a")])

    found = judge(seen_rows([]), rows, Since(DIFFERENCES.empty_table(), keys((2, 3)), most_new=1))

    assert (found.unseen.tolist(), found.changed) == ([0, 2], 1)


def test_a_new_row_that_windows_do_not_find_counts_in_the_next_look():
    """The table has missed a delete that came before the key's range was read, and after the look began."""
    first = judge(
        seen_rows([]), held_rows([(2, "y")]), Since(DIFFERENCES.empty_table(), keys((2,)), most_new=1)
    )

    found = judge(
        seen_rows([(2, SeenRow.ABSENT, None)]), held_rows([(2, "y")]), Since(first.differences, keys(()))
    )

    assert counts(found) == (0, 0, 0, 1, 0, 0)


def test_a_row_that_came_between_two_looks_is_changed_in_all_later_ones():
    first = judge(seen_rows([]), held_rows([]), FIRST)
    known = Since(first.differences, at_turns({2: 5}), look=7, whole=1)

    found = judge(seen_rows([]), held_rows([(2, "y")]), known)

    assert (found.unseen.tolist(), found.changed) == ([], 1)


@pytest.mark.parametrize("marked", [False, True])
def test_a_key_that_windows_do_not_find_proves_nothing_while_they_lack_what_was_sent(marked):
    seen, held = seen_rows([(2, SeenRow.ABSENT, None), (3, ROW, "a")]), held_rows([(2, "y"), (3, "b")])
    first = judge(seen, held, FIRST)

    found = judge(seen, held, Since(first.differences, keys(()), hidden=True, marked=marked))

    assert counts(found) == (0, 0, 1, 0, 1, 0)


def test_a_superseded_row_never_counts():
    seen = [(1, SeenRow.SUPERSEDED, None)]

    assert counts(two_looks(seen, [(1, "x")])) == (0, 0, 0, 0, 1, 0)


def test_a_key_that_was_looked_at_and_has_no_row_is_extra():
    seen = [(1, ROW, "a"), (1, SeenRow.ABSENT, None)]

    assert counts(two_looks(seen, [(1, "a")])) == (0, 0, 0, 1, 0, 0)
    assert counts(two_looks(seen, [])) == (0, 0, 0, 0, 0, 0)


def test_several_rows_of_one_key_equal_nothing():
    assert counts(two_looks([(1, ROW, "a")], [(1, "a"), (1, "a")])) == (0, 0, 1, 0, 0, 0)


def test_nothing_on_either_side():
    assert counts(two_looks([], [])) == (0, 0, 0, 0, 0, 0)


def marked(
    seen: Sequence[tuple[int, SeenRow, str | None]],
    held: list[tuple[int, str]],
    touched: Mapping[int, int],
    **since: Any,
) -> SettledResult:
    """The outcome of a look at a table that tells by markers how far it is. All windows are of turn 5."""
    known = Since(DIFFERENCES.empty_table(), at_turns(touched), marked=True, **since)
    return judge(seen_rows(seen, [5] * len(seen)), held_rows(held), known)


def test_differences_count_at_once_with_a_marker():
    found = marked(
        [(1, ROW, "a"), (2, ROW, "b"), (4, SeenRow.ABSENT, None)], [(2, "x"), (3, "c"), (4, "d")], {}
    )

    assert (counts(found), found.unread) == ((0, 1, 1, 2, 0, 0), 0)


@pytest.mark.parametrize(("turn", "again"), [(5, 0), (6, 1)])
def test_a_key_counts_unless_it_was_touched_after_its_window(turn, again):
    found = marked([(1, ROW, "a")], [(1, "x")], {1: turn})

    assert counts(found) == (0, 0, 1 - again, 0, again, 0)


def test_with_a_marker_a_row_that_came_later_is_changed_and_a_superseded_one_never_counts():
    found = marked([(1, SeenRow.SUPERSEDED, None)], [(1, "x"), (2, "y")], {2: 3})

    assert (counts(found), found.changed) == ((0, 0, 0, 0, 1, 0), 1)


def test_with_a_marker_a_truncate_touches_all_keys():
    found = marked([(1, ROW, "a")], [(2, "y")], {}, emptied=9)

    assert (counts(found), found.changed) == ((0, 0, 0, 0, 1, 1), 0)


def test_with_a_marker_rows_that_only_the_table_has_count_once_windows_see_all_that_was_sent():
    found = marked([], [(2, "y")], {}, visible=False)

    assert (counts(found), found.unread) == ((0, 0, 0, 0, 0, 0), 1)


@dataclass
class World:
    """A source that is written to, and a table that follows it within `LAG` steps, by fits and starts.

    `faults` are rows that somebody has changed in the table; the next write of their key heals them.
    """

    chance: Random
    now: int = 0
    applied: int = 0
    log: list[tuple[int, str | None]] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    source: dict[int, str] = field(default_factory=dict)
    table: dict[int, str] = field(default_factory=dict)
    faults: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for key in range(WRITTEN, KEYS):
            self.write(key, self.chance.choice(["a", "b", None]))

    def write(self, key: int, row: str | None) -> None:
        self.log.append((key, row))
        self.at.append(self.now)
        _put(self.source, key, row)

    def step(self, *, writes: bool) -> None:
        """Time passes: some keys are written, and the table follows for a while, or must."""
        self.now += 1
        for _ in range(self.chance.randrange(3) if writes else 0):
            # Few values, so that rows return to what they were.
            self.write(self.chance.randrange(WRITTEN), self.chance.choice(["a", "b", None]))
        while self.applied < len(self.log):
            late = self.now - self.at[self.applied]
            if late < LAG - 1 and self.chance.random() < 0.3:
                return
            key, row = self.log[self.applied]
            _put(self.table, key, row)
            self.faults.discard(key)
            self.applied += 1

    def break_(self, key: int) -> None:
        row = self.chance.choice(["a", "b", "c", None])
        if self.table.get(key) != row:
            _put(self.table, key, row)
            self.faults.add(key)


LAG, KEYS, WRITTEN = 6, 12, 6


def _put(rows: dict[int, str], key: int, row: str | None) -> None:
    if row is None:
        rows.pop(key, None)
    else:
        rows[key] = row


def verdict(world: World, *, writes: bool) -> tuple[set[int], set[int]]:
    """Keys found wrong by a verification, and those that were given up. Rows are read one by one."""
    first = began = len(world.log)
    before = DIFFERENCES.empty_table()
    seen: list[tuple[int, SeenRow, str | None]] = []
    asked: Iterable[int] = range(KEYS)
    wrong: set[int] = set()
    open_: set[int] = set()
    whole = True
    for look in range(6):
        look_began = len(world.log)
        for key in asked:
            world.step(writes=writes)
            if key in world.source:
                seen.append((key, ROW, world.source[key]))
            elif not whole:
                seen.append((key, SeenRow.ABSENT, None))
        for _ in range(LAG):
            world.step(writes=writes)
        began = began if look else look_began
        touched = {key: turn for turn, (key, _row) in enumerate(world.log, 1) if turn > first}
        rows = list(world.table.items())
        known = Since(before, at_turns(touched), look=began, whole=first, most_new=0 if look else KEYS)
        found = judge(seen_rows(seen), held_rows(rows), known)
        names = [key for key, _kind, _row in seen]
        wrong = {names[at] for at in (*found.missing, *found.different)} | {rows[at][0] for at in found.extra}
        open_ = {names[at] for at in found.again} | {rows[at][0] for at in found.unseen}
        assert found.unread == 0
        if not open_:
            break
        whole, asked = False, sorted(open_)
        began, before = look_began, found.differences
    return wrong, open_


@pytest.mark.parametrize("writes", [False, True], ids=["quiet", "written to"])
def test_a_table_that_only_lags_is_never_wrong(writes):
    for seed in range(100):
        world = World(Random(seed))
        for _ in range(40):
            world.step(writes=True)

        wrong, _open = verdict(world, writes=writes)

        assert wrong == set(), f"seed {seed}"


def test_each_fault_is_found_once_nothing_is_written():
    found = 0
    for seed in range(100):
        world = World(Random(seed))
        for _ in range(40):
            world.step(writes=True)
        for _ in range(LAG):
            world.step(writes=False)
        for key in world.chance.sample(range(KEYS), 4):
            world.break_(key)
        faults = set(world.faults)

        assert verdict(world, writes=False) == (faults, set()), f"seed {seed}"
        found += len(faults)
    assert found > 200


def test_no_fault_is_missed_and_none_is_invented_under_writes():
    """A fault counts unless a write has healed it, or its key is never at rest."""
    found = 0
    for seed in range(150):
        world = World(Random(seed))
        for _ in range(40):
            world.step(writes=True)
        for key in world.chance.sample(range(KEYS), 4):
            world.break_(key)
        broken = set(world.faults)
        began = len(world.log)

        wrong, open_ = verdict(world, writes=True)

        # A write that the table had still to apply may have healed what was broken.
        touched = {key for key, _row in world.log[began:]}
        assert wrong <= broken, f"seed {seed}"
        assert world.faults - touched <= wrong | open_, f"seed {seed}"
        found += len(wrong)
    assert found > 100


def marked_verdict(world: World, *, writes: bool) -> tuple[set[int], set[int]]:
    """As `verdict`, by markers. A turn is an entry of the log, and the table may lag as long as it wants."""
    began = len(world.log)
    seen: list[tuple[int, SeenRow, str | None]] = []
    turns: list[int] = []
    asked: Iterable[int] = range(KEYS)
    wrong: set[int] = set()
    open_: set[int] = set()
    for look in range(6):
        for key in asked:
            world.step(writes=writes)
            row = world.source.get(key)
            if row is not None or look:
                seen.append((key, SeenRow.ABSENT if row is None else ROW, row))
                turns.append(len(world.log))
        marker = len(world.log)
        while world.applied < marker:
            world.step(writes=writes)
        rows, end = list(world.table.items()), len(world.log)
        touched = {key: turn for turn, (key, _row) in enumerate(world.log[:end], 1) if turn > began}
        found = judge(
            seen_rows(seen, turns),
            held_rows(rows),
            Since(DIFFERENCES.empty_table(), at_turns(touched), marked=True, most_new=0 if look else KEYS),
        )
        names = [key for key, _kind, _row in seen]
        wrong = {names[at] for at in (*found.missing, *found.different)} | {rows[at][0] for at in found.extra}
        open_ = {names[at] for at in found.again} | {rows[at][0] for at in found.unseen}
        if not open_:
            break
        asked = sorted(open_)
    return wrong, open_


def test_by_markers_no_fault_is_missed_and_none_is_invented():
    found = 0
    for seed in range(300):
        world = World(Random(seed))
        for _ in range(40):
            world.step(writes=True)
        for key in world.chance.sample(range(KEYS), 4):
            world.break_(key)
        broken, began = set(world.faults), len(world.log)
        writes = seed % 2 > 0

        wrong, open_ = marked_verdict(world, writes=writes)

        # A write that the table had still to apply may have healed what was broken.
        touched = {key for key, _row in world.log[began:]}
        assert wrong <= broken, f"seed {seed}"
        assert broken & world.faults - touched <= wrong | open_, f"seed {seed}"
        assert writes or not open_
        found += len(wrong)
    assert found > 300
