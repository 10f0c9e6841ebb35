"""Faults in the files of a sink, and the judge of verdicts about them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.torture.answers import Answers, Asked
from tests.torture.drawn import write
from tests.torture.oracle import Table, Violation
from tests.torture.script import Blow, Round, Script, Transaction
from tests.torture.tables import TableShape
from tests.torture.truth import UNCHANGED
from tests.torture.verified import Faults, differences, judge, numbered, put, signal, trusted

if TYPE_CHECKING:
    from pathlib import Path

T = "public.t0"
SHAPE = TableShape("t0", "int", "d", 40)
REJECTED = (
    f'{T}: the copy is rejected at 0/1: 2 missing (["1"], …), 1 different (["3"]), 1 older (["4"]),'
    " 3 extra; 12 rows are equal"
)


def line(key: int, op: str = "c", topic: str = f"tm.{T}") -> dict[str, Any]:
    after = None if op == "d" else {"k": key, "ver": key}
    return {"topic": topic, "key": {"k": key}, "value": {"before": None, "after": after, "op": op}}


def parts(directory: Path, *turns: list[dict[str, Any]]) -> list[Path]:
    found = []
    for number, events in enumerate(turns):
        path = directory / f"part-{number}.jsonl"
        path.write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events))
        found.append(path)
    return found


def rows(paths: list[Path]) -> dict[int, int]:
    held: dict[int, int] = {}
    for event in (orjson.loads(text) for path in paths for text in path.read_bytes().splitlines()):
        if event["topic"] == f"tm.{T}":
            held.pop(event["key"]["k"], None)
            if (after := event["value"]["after"]) is not None:
                held[after["k"]] = after["ver"]
    return held


def test_faults_are_what_a_consumer_of_the_files_has_then(tmp_path):
    others = [line(key, topic="tm.public.other") for key in range(5)]
    paths = parts(
        tmp_path,
        [line(key) for key in range(30)],
        [line(key, "u") for key in range(10)],
        [*(line(key, "d") for key in range(5)), *others],
    )
    before = rows(paths)

    faults = put(paths, {f"tm.{T}": T}, {T}, Random(3), 12)

    after = rows(paths)
    extra = {(T, key) for key in after.keys() - before.keys()}
    found = Counter(
        missing=len(before.keys() - after.keys()),
        different=sum(before[key] != after[key] for key in before.keys() & after.keys()),
        extra=len(extra),
    )
    assert faults.kinds == {T: found}
    assert min(found.values()) > 0
    assert faults.extra == extra
    assert sum(text.count(b"public.other") for text in paths[2].read_bytes().splitlines()) == len(others)


def test_a_collection_that_takes_no_extra_rows_gets_none(tmp_path):
    paths = parts(tmp_path, [line(key) for key in range(30)])

    faults = put(paths, {f"tm.{T}": T}, set(), Random(3), 30)

    assert faults.extra == set()
    assert faults.kinds[T].keys() == {"missing", "different"}


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


def test_extra_rows_go_where_keys_are_numbers():
    script = Script("s", [SHAPE, TableShape("t1", "uuid", "d", 3), TableShape("t2", "int", "i", 3)], [])

    assert numbered(script) == {T}


def test_histories_verify():
    scripts = [write(f"s/{number}") for number in range(60)]
    rounds = [drawn for script in scripts for drawn in script.rounds]

    assert any(drawn.faults for drawn in rounds)
    assert any(sent.kind == "verify" for drawn in rounds for sent in drawn.signals)
