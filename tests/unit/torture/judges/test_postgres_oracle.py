"""The judge of PostgreSQL's odd tables judged: equal rows, row filters, partitions, labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.torture.bags import Bag
from tests.torture.emitted import Emitted
from tests.torture.oracle import Table, Violation
from tests.torture.postgres_oracle import PostgresOracle, Untold
from tests.torture.row_filters import FILTERS
from tests.torture.truth import UNCHANGED, Entry

if TYPE_CHECKING:
    from tests.torture.truth import Row

T = "public.t"
LEFT_OUT = "__debezium_unavailable_value"


class TestBags:
    SAME: Final[Row] = {"n": "1", "v": "same"}
    OTHER: Final[Row] = {"n": "1", "v": "other"}

    @pytest.fixture
    def bag(self) -> Bag:
        bag = Bag(T, ("n", "v"), {"n": "integer", "v": "text"})
        bag.start([self.SAME, self.SAME, self.SAME])
        return bag

    @pytest.fixture
    def oracle(self, bag: Bag) -> PostgresOracle:
        return PostgresOracle({T: bag})

    def read(self, turn: int, v: str = "same") -> Emitted:
        return Emitted(turn, T, "r", None, {"n": 1, "v": v}, None)

    def changed(self, turn: int) -> tuple[Entry, Emitted]:
        entry = Entry(9, "u", (T,), old=self.SAME, new=self.OTHER)
        return entry, Emitted(turn, T, "u", {"n": 1, "v": "same"}, {"n": 1, "v": "other"}, 9)

    @pytest.mark.parametrize("reads", [0, 1, 3])
    def test_one_copy_changes_and_the_others_are_read(self, oracle: PostgresOracle, bag: Bag, reads: int):
        entry, event = self.changed(2)
        oracle.follow([entry], [event, *[self.read(3)] * reads])
        bag.finished.add((1, 3))

        with pytest.raises(Violation, match="copies"):
            bag.check_reads([(1, 3)])

    def test_as_many_as_are_left_is_right(self, oracle: PostgresOracle, bag: Bag):
        entry, event = self.changed(2)
        oracle.follow([entry], [event, self.read(3), self.read(3)])
        bag.finished.add((1, 3))
        bag.check_reads([(1, 3)])
        oracle.settle(T, [self.SAME, self.SAME, self.OTHER])

        assert (oracle.events, oracle.reads) == (3, 2)

    def test_a_row_that_is_gone_is_not_read(self, oracle: PostgresOracle):
        with pytest.raises(Violation, match="no such row"):
            oracle.follow([], [self.read(1, "other")])

    def test_null_is_left_out_of_old_rows_by_the_other_decoder(self, oracle: PostgresOracle, bag: Bag):
        bag.start([{"n": None, "v": "same"}])
        entry = Entry(9, "d", (T,), old={"v": "same"})
        oracle.follow([entry], [Emitted(2, T, "d", {"n": None, "v": "same"}, None, 9)])

        oracle.settle(T, [self.SAME] * 3)

    def test_an_event_of_another_row_is_a_violation(self, oracle: PostgresOracle):
        entry, _event = self.changed(2)
        wrong = Emitted(2, T, "u", {"n": 1, "v": "other"}, {"n": 1, "v": "other"}, 9)

        with pytest.raises(Violation, match="emitted was"):
            oracle.follow([entry], [wrong])

    def test_what_was_silent_is_not_judged(self, oracle: PostgresOracle, bag: Bag):
        oracle.unpublished.add(T)
        oracle.follow([self.changed(2)[0]], [])
        assert oracle.left() == []
        bag.finished.add((1, 3))
        bag.check_reads([(1, 3)])


class TestRowFilters:
    @pytest.mark.parametrize(
        ("old", "new", "op"), [("1", "2", "u"), ("4", "5", "c"), ("5", "4", "d"), ("4", "8", None)]
    )
    def test_what_is_published_of_a_row_that_gets_another_key(self, old: str, new: str, op: str | None):
        found = FILTERS["key"].published(Entry(9, "u", (T,), old={"k": old}, new={"k": new, "v": "x"}))

        assert (found.op if found else None) == op

    def test_an_old_row_fills_what_was_left_unchanged(self):
        entry = Entry(9, "u", (T,), old={"ver": "4", "big": "b"}, new={"ver": "5", "big": UNCHANGED})
        found = FILTERS["version"].published(entry)

        assert found is not None
        assert found.new["big"] == "b"

    @pytest.mark.parametrize(("finished", "lacks"), [((0, 1), True), ((1, 3), False), ((3, 4), False)])
    def test_a_value_may_lack_until_a_snapshot_reads_it(self, finished: tuple[int, int], lacks: bool):  # noqa: FBT001
        table = Table(T, ("k",), {"k": "integer", "big": "text"})
        oracle = PostgresOracle({T: table}, filters={T: FILTERS["key"]})
        entry = Entry(9, "u", (T,), old={"k": "4"}, new={"k": "5", "big": UNCHANGED})
        oracle.follow([entry], [Emitted(2, T, "c", None, {"k": 5, "big": LEFT_OUT}, 9)])
        table.whole = True
        table.finished.add(finished)
        rows: list[Row] = [{"k": "5", "big": "b"}]
        if lacks:
            oracle.settle(T, rows)
            return
        with pytest.raises(Violation, match="nobody has sent 'big'"):
            oracle.settle(T, rows)


class TestPartitions:
    def test_a_partition_that_was_truncated_under_its_root_is_told_by_nobody(self):
        table = Table(T, ("p", "k"), {"p": "integer", "k": "integer"})
        table.start([{"p": "0", "k": "0"}, {"p": "1", "k": "1"}])
        oracle = PostgresOracle({T: table}, published={f"{T}_1": T})
        oracle.follow([Entry(9, "t", (f"{T}_1",))], [])

        assert oracle.left() == []
        oracle.settle(T, [{"p": "0", "k": "0"}])

    def test_a_truncated_root_is(self):
        table = Table(T, ("k",), {"k": "integer"})
        table.start([{"k": "0"}])
        oracle = PostgresOracle({T: table}, published={f"{T}_1": T})
        oracle.follow([Entry(9, "t", (T, f"{T}_1"))], [Emitted(1, T, "t", None, None, 9)])

        oracle.settle(T, [])

    def test_rows_are_known_by_either_key_and_none_may_be_read(self):
        table = Untold(T, ("k",), {"k": "integer", "alt": "text"})
        table.start([{"k": "1", "alt": "alt 1"}, {"k": "2", "alt": "alt 2"}])
        oracle = PostgresOracle({T: table})
        gone = [Entry(9, "d", (T,), old={"alt": "alt 1"}), Entry(9, "d", (T,), old={"k": "2"})]
        oracle.follow(gone, [Emitted(1, T, "d", {"k": None}, None, 9)] * 2)

        oracle.settle(T, [])
        with pytest.raises(Violation, match="was read"):
            oracle.follow([], [Emitted(1, T, "r", None, {"k": 1, "alt": "alt 1"}, None)])


def test_a_silent_change_is_known_by_the_key_as_it_is_printed():
    table = Table(T, ("k",), {"k": "double precision", "v": "text"})
    table.start([{"k": "4", "v": "old"}])
    oracle = PostgresOracle({T: table}, unpublished={T}, incomplete=frozenset({T}))
    oracle.follow([Entry(9, "u", (T,), old={"k": "4", "v": "old"}, new={"k": "4", "v": "new"})], [])

    assert oracle.left() == []
    oracle.settle(T, [{"k": "4", "v": "new"}])


def test_all_rows_of_a_table_may_be_left_that_was_truncated_in_silence():
    table = Table(T, ("k",), {"k": "integer", "v": "text"})
    oracle = PostgresOracle({T: table}, incomplete=frozenset({T}))
    told = Emitted(1, T, "c", None, {"k": 1, "v": "old"}, 8)
    oracle.follow([Entry(8, "c", (T,), new={"k": "1", "v": "old"})], [told])
    oracle.unpublished.add(T)
    oracle.follow([Entry(9, "t", (T,)), Entry(10, "c", (T,), new={"k": "2", "v": "new"})], [])

    assert oracle.left() == []
    oracle.settle(T, [{"k": "2", "v": "new"}])


class TestLabels:
    def test_no_row_read_has_a_name_that_was_gone_at_the_last_quiet_point(self):
        table = Table(T, ("k",), {"k": "integer", "e": "mood"})
        table.start([{"k": "1", "e": "sad_0"}])
        oracle = PostgresOracle({T: table})

        def read(label: str) -> Emitted:
            return Emitted(1, T, "r", None, {"k": 1, "e": label}, None)

        oracle.follow([], [read("sad_0"), read("sad_1")])
        oracle.settle(T, [{"k": "1", "e": "sad_1"}])
        oracle.follow([], [read("sad_2")])
        with pytest.raises(Violation, match="label sad_0"):
            oracle.follow([], [read("sad_0")])
