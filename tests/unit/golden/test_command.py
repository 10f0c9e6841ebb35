"""Loading cases, judging runs, and the closing line."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden.__main__ import _played
from tests.golden.case import OWN_CASES, Documented, Source, case_folders, load_case
from tests.golden.event import emitted_events
from tests.golden.verdict import Verdict, as_sent, chosen, judge, summary, verdict
from tests.unit.golden.recorded import copied, recorded

if TYPE_CHECKING:
    from tests.golden.case import Case
    from tests.golden.event import Event

POSTGRES = OWN_CASES / "postgres"


def test_a_run_that_equals_our_own_answer_is_a_documented_difference():
    case = recorded("a1_customers_default")
    ours = copied(case.expected)
    ours[0].body["after"]["first_name"] = "right"
    documented = dataclasses.replace(case, documented=Documented(tuple(ours), "Debezium is wrong here"))

    assert judge(documented, case.expected) == Verdict()
    assert judge(documented, ours) == Verdict(reason="Debezium is wrong here")
    assert judge(case, ours).fault is not None
    assert judge(documented, ours[:1]).fault is not None


def test_the_documented_difference_is_read_from_the_projects_copy(tmp_path: Path):
    own = tmp_path / "own"
    folder = own / "postgres" / "a5_tombstones_off"
    folder.mkdir(parents=True)
    shutil.copy(POSTGRES / "a5_tombstones_off" / "events.jsonl", folder / "expected.jsonl")
    (folder / "reason.txt").write_text("for this test\n")

    case = load_case(POSTGRES / "a5_tombstones_off", own)

    assert case.documented is not None
    assert case.documented.reason == "for this test"
    assert case.documented.events == case.expected


def test_a_documented_difference_needs_a_reason(tmp_path: Path):
    folder = tmp_path / "postgres" / "a5_tombstones_off"
    folder.mkdir(parents=True)
    (folder / "expected.jsonl").touch()
    (folder / "reason.txt").write_text(" \n")

    with pytest.raises(ValueError, match="no reason"):
        load_case(POSTGRES / "a5_tombstones_off", tmp_path)


@pytest.mark.parametrize("parent", ["mongodb", "elsewhere"])
def test_a_mongodb_case_is_told_by_its_properties_or_its_place(tmp_path: Path, parent: str):
    folder = tmp_path / parent / "a1"
    shutil.copytree(POSTGRES / "a5_tombstones_off", folder)
    if parent == "elsewhere":
        (folder / "connector.properties").write_text(
            "connector.class=io.debezium.connector.mongodb.MongoDbConnector\n"
        )

    assert load_case(folder).source is Source.MONGODB


def test_an_engine_that_dies_fails_its_case_only():
    def dies(_case: object) -> tuple[()]:
        raise ArithmeticError("two\nlines")

    assert verdict(POSTGRES / "a5_tombstones_off", dies) == Verdict("ArithmeticError: two; lines")


def test_names_pick_cases_by_pattern():
    folders = case_folders(POSTGRES)

    assert [folder.name for folder in chosen(folders, ["e1*", "a5_tombstones_off"])] == [
        "a5_tombstones_off",
        "e1_messages",
    ]
    assert chosen(folders, []) == folders
    with pytest.raises(LookupError, match="no case 'nosuch'"):
        chosen(folders, ["e1*", "nosuch"])


def test_the_closing_line_counts_documented_differences_among_the_passed():
    passed, failed, documented = Verdict(), Verdict("x"), Verdict(reason="y")

    assert summary([passed, failed, documented]) == "2 passed, 1 failed, 1 by a documented difference"
    assert summary([passed]) == "1 passed, 0 failed"


def test_the_files_sinks_turns_and_parts_are_read_in_order(tmp_path: Path):
    for turn, part, topic in ((10, 0, "c"), (9, 1, "b"), (9, 0, "a")):
        folder = tmp_path / f"turn-{turn:012d}"
        folder.mkdir(exist_ok=True)
        event: dict[str, object] = {"topic": topic, "key": {"id": "\u2028"}, "value": None, "headers": []}
        text = json.dumps(event, ensure_ascii=False) + "\n"
        (folder / f"part-{part:05d}.jsonl").write_text(text, "utf-8")

    events = emitted_events(tmp_path)

    assert [event.topic for event in events] == ["a", "b", "c"]
    assert events[0].key == {"id": "\u2028"}


def test_an_object_that_names_a_field_twice_is_no_event(tmp_path: Path):
    folder = tmp_path / "turn-000000000001"
    folder.mkdir()
    (folder / "part-00000.jsonl").write_text('{"topic":"t","key":{"a":1,"a":1},"value":null,"headers":[]}\n')

    with pytest.raises(ValueError, match="twice"):
        emitted_events(tmp_path)


def test_of_many_plays_the_events_of_what_differs_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    case = recorded("a1_customers_default")
    runs = [case.expected, case.expected[:-1], case.expected]

    class Plays:
        def run(self, _case: Case) -> tuple[Event, ...]:
            return runs.pop(0)

    options = argparse.Namespace(keep=tmp_path / "kept")
    folder = POSTGRES / "a1_customers_default"
    runner: Any = Plays()
    found = [_played(folder, number, runner, as_sent, options).fault is None for number in range(3)]

    assert found == [True, False, True]
    (kept,) = (tmp_path / "kept").iterdir()
    assert kept.name == "00001-a1_customers_default.txt"
    said, *lines = kept.read_text("utf-8").splitlines()
    assert said.startswith("FAILED")
    assert [json.loads(line)["topic"] for line in lines] == [event.topic for event in case.expected[:-1]]
    assert capsys.readouterr().out.startswith("1: a1_customers_default: FAILED")
