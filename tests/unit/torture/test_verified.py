"""What histories verify, which copies the judge trusts, and the judge of verdicts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.torture.answers import Answers, Asked
from tests.torture.drawn import write
from tests.torture.faults import Faults
from tests.torture.mongo_drawn import write_documents
from tests.torture.oracle import Table, Violation
from tests.torture.script import Blow, Round, Script, Strike, Transaction, Wanted
from tests.torture.sqlserver_drawn import write_sqlserver
from tests.torture.tables import TableShape
from tests.torture.truth import UNCHANGED
from tests.torture.verified import differences, judge, other_keys, signal, steady, trusted

T = "public.t0"
SHAPE = TableShape("t0", "int", "d", 40)
REJECTED = (
    f'{T}: the copy is rejected at 0/1: 2 missing (["1"], …), 1 different (["3"]), 1 older (["4"]),'
    " 3 extra; 12 rows are equal"
)


def test_a_verdict_is_read_by_kind():
    assert differences(REJECTED) == {"missing": 2, "different": 2, "extra": 3}
    assert differences(f"{T}: the copy is accepted at 0/1: 3 missing links are equal") == {}


class TestJudge:
    def asked(self, outcome: str, text: str) -> Asked:
        asked = Asked(signal("v", "verify", [T]))
        asked.said[T] = outcome, text
        return asked

    def test_a_verdict_that_counts_the_faults(self):
        judge(self.asked("failed", REJECTED), Faults({T: Counter(missing=2, different=2, extra=3)}))

    @pytest.mark.parametrize(
        "wanted",
        [Counter(missing=1, different=2, extra=3), Counter(missing=2, different=2), Counter()],
        ids=["another number", "one kind less", "none"],
    )
    def test_a_verdict_that_counts_something_else(self, wanted):
        with pytest.raises(Violation, match="what differs is"):
            judge(self.asked("failed", REJECTED), Faults({T: wanted}))

    def test_an_accepting_verdict_where_something_differs(self):
        with pytest.raises(Violation, match="finished"):
            judge(
                self.asked("finished", f"{T}: the copy is accepted at 0/1"), Faults({T: Counter(missing=1)})
            )

    def test_no_answer(self):
        with pytest.raises(Violation, match="nothing"):
            judge(Asked(signal("v", "verify", [T])), Faults())


class TestTrusted:
    """Only where the judge knows that the copy is right may a verdict be held against it."""

    def table(self, **more: Any) -> dict[str, Table]:
        table = Table(T, ("k",), {}, whole=True)
        for name, value in more.items():
            setattr(table, name, value)
        return {T: table}

    def script(self, *steps: list[Any], **more: Any) -> Script:
        return replace(
            Script("s", [SHAPE], [Round([[Transaction(list(steps))]], [], **more)]), via_root=False
        )

    def test_a_table_that_was_read_whole(self):
        assert trusted(self.script(["touch", 0, [1]]), self.table(), (), ()) == [T]

    @pytest.mark.parametrize(
        ("steps", "table", "incomplete", "blows"),
        [
            ([], {"whole": False}, (), []),
            ([], {"lacking": {("1",): 3}}, (), []),
            ([], {"copy": {("1",): {"big": UNCHANGED}}}, (), []),
            ([], {}, (T,), []),
            ([["unpublish", 0]], {}, (), []),
            ([["exchange", 1, 0]], {}, (), []),
            ([["retract", "t0"]], {}, (), []),
            ([["sql", 0, "ALTER …"]], {}, (), []),
            ([], {}, (), [Blow(0.0, "disguise", 0)]),
        ],
    )
    def test_what_may_differ_for_other_reasons(self, steps, table, incomplete, blows):
        assert trusted(self.script(*steps, blows=blows), self.table(**table), incomplete, ()) == []

    def test_a_table_that_was_altered_outside_the_script(self):
        assert trusted(self.script(), self.table(), (), {"t0"}) == []


def test_only_verdicts_about_copies_that_are_right_are_held_against_the_job():
    answers = Answers()
    asked = Asked(signal("v", "verify", [T]), turn=1, outcomes=["accepted"], right=frozenset({T}))
    asked.finals[T], asked.said[T] = [("failed", 2)], ("failed", REJECTED)
    answers.asked["v"] = asked

    answers.trusts([])
    answers.settle({})

    asked.right = frozenset({T})
    answers.trusts([T])
    with pytest.raises(Violation, match="rejects a copy that is right"):
        answers.settle({})

    sent = replace(asked.sent, kind="repair")
    answers.asked["v"] = replace(asked, sent=sent)
    with pytest.raises(Violation, match="rejects a copy that is right"):
        answers.settle({})


DOCUMENTS, ROWS = "shop.t0", "alpha.dbo.t0"


def documents(mode: str = "change_streams_update_full", **round_: Any) -> Script:
    shapes = [TableShape("t0", "int32", "-", 3), TableShape("t1", "oid", "-", 3)]
    return Script("s", shapes, [Round([], [], **round_)], properties={"capture.mode": mode})


def rows(*steps: list[Any], key: str = "number") -> Script:
    return Script("s", [TableShape("t0", key, "-", 3, "alpha")], [Round([[Transaction(list(steps))]], [])])


def tables(name: str) -> dict[str, Table]:
    return {name: Table(name, ("k",), {}, whole=True)}


@pytest.mark.parametrize("mode", ["change_streams_update_full", "change_streams_update_full_with_pre_image"])
def test_documents_are_verified_where_updates_bring_them(mode):
    assert trusted(documents(mode), tables(DOCUMENTS), (), ()) == [DOCUMENTS]
    assert trusted(documents("change_streams"), tables(DOCUMENTS), (), ()) == []


@pytest.mark.parametrize(
    ("step", "others"),
    [
        (["touch", 0, [1]], {DOCUMENTS, "shop.t1"}),
        (["replace", 0, 1], {"shop.t1"}),
        (["swell", 0, [1]], {"shop.t1"}),
        (["spoil", 0, [1]], {"shop.t1"}),
        (["succeed", 0, 1], set()),
        (["wipe", 0], set()),
    ],
)
def test_a_copy_of_documents_that_a_step_makes_wrong_is_not_steady(step, others):
    struck = documents(strikes=[Strike(step)])
    stepped = replace(struck, rounds=[Round([[Transaction([step])]], [])])

    assert steady(struck, struck.rounds[0]) == others
    assert steady(stepped, stepped.rounds[0]) == others


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (["switch", 0, ""], [ROWS]),
        (["switch", 0, "ALTER TABLE {table} ADD c1 int NULL"], [ROWS]),
        (["sql", 0, "ALTER TABLE {table} DROP COLUMN c1"], [ROWS]),
        (["switch", 0, "ALTER TABLE {table} ADD c1 nvarchar(20) NOT NULL DEFAULT N'seven'"], []),
        (["dark", 0], []),
    ],
)
def test_rows_of_sql_server_are_trusted_unless_a_change_is_in_no_log(step, found):
    assert trusted(rows(step), tables(ROWS), (), ()) == found


def test_rows_of_sql_server_without_a_key_are_not_verified():
    assert trusted(rows(key="heap"), tables(ROWS), (), ()) == []


def test_what_is_not_played_yet_does_not_count():
    script = rows(["touch", 0, [1]])
    script = replace(script, rounds=[*script.rounds, *rows(["dark", 0]).rounds])

    assert trusted(script.upto(0), tables(ROWS), (), ()) == [ROWS]
    assert trusted(script.upto(1), tables(ROWS), (), ()) == []


def test_extra_rows_go_where_other_keys_are_known():
    shapes = [SHAPE, TableShape("t1", "uuid", "d", 3), TableShape("t2", "int", "i", 3)]

    assert other_keys(Script("s", shapes, [])) == {T}
    assert other_keys(documents()) == {DOCUMENTS, "shop.t1"}
    assert other_keys(rows(key="wide")) == {ROWS}
    assert other_keys(rows(key="guid")) == set()


@pytest.mark.parametrize("draw", [write, write_documents, write_sqlserver])
def test_histories_verify(draw):
    scripts = [draw(f"s/{number}") for number in range(60)]
    rounds = [drawn for script in scripts for drawn in script.rounds]
    kinds = {sent.kind for drawn in rounds for sent in drawn.signals}

    assert any(drawn.faults for drawn in rounds)
    assert kinds >= {"verify", "repair"}


@pytest.mark.parametrize("draw", [write, write_documents, write_sqlserver])
def test_a_history_that_must_verify_does(draw):
    scripts = [draw(f"s/{number}", Wanted(asks="verify")) for number in range(20)]

    assert all(drawn.faults for script in scripts for drawn in script.rounds)
