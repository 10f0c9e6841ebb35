"""The journal of answers: none lost, none twice, whatever is interrupted, and no more than are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.storage.answer_journal import AnswerJournal, last_answers
from adapters.storage.directory import LocalStorage
from engine.errors import StateError
from signals.answers import Answer, Outcome


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


def journal(storage, kept=10_000):
    return AnswerJournal(storage, lambda: 1000.0, kept)


def answer(number):
    return Answer(f"0/{number}", f"s{number}", Outcome.FINISHED, "done", "public.t", {"rows": number})


def ids(storage, count=100_000):
    return [found["id"] for found in last_answers(storage, count)]


def test_an_answer_is_kept_with_its_turn_and_time(storage):
    journal(storage).record(42, [answer(1)])

    assert last_answers(storage, 10) == [
        {
            "turn": 42,
            "at_s": 1000.0,
            "label": "0/1",
            "id": "s1",
            "outcome": "finished",
            "text": "done",
            "collection": "public.t",
            "facts": {"rows": 1},
        }
    ]


@pytest.mark.parametrize(
    ("outcomes", "forced"),
    [
        ([Outcome.QUEUED], False),
        ([Outcome.STARTED, Outcome.PROGRESS], False),
        ([Outcome.PROGRESS, Outcome.FINISHED], True),
        ([Outcome.REJECTED], True),
    ],
)
def test_no_turn_waits_for_the_disk_for_steps_on_the_way(storage, monkeypatch, outcomes, forced):
    asked: list[int] = []
    monkeypatch.setattr("os.fsync", asked.append)

    journal(storage).record(1, [Answer("0/1", "s1", outcome, "") for outcome in outcomes])

    assert ids(storage) == ["s1"] * len(outcomes)
    assert bool(asked) is forced


def test_a_turn_that_is_recorded_again_is_there_once(storage):
    first = journal(storage)
    first.record(1, [answer(1), answer(2)])
    journal(storage).record(1, [answer(1), answer(2)])

    assert ids(storage) == ["s1", "s2"]


def test_many_turns_leave_few_files_and_lose_no_answer(storage):
    kept = journal(storage)
    for turn in range(1, 501):
        kept.record(turn, [answer(turn)])

    assert ids(storage) == [f"s{turn}" for turn in range(1, 501)]
    assert len(storage.names()) < 70


def test_the_last_ones_are_read_in_order(storage):
    kept = journal(storage)
    for turn in range(1, 130):
        kept.record(turn, [answer(turn)])

    assert ids(storage, 3) == ["s127", "s128", "s129"]


def test_a_damaged_line_is_left_out(storage):
    kept = journal(storage)
    for turn in (1, 2, 3):
        kept.record(turn, [answer(turn)])
    (Path(storage.location) / "answers-000000000002.jsonl").write_bytes(
        b'{"turn": 2, \xff\n[]\n{}\n'
        b'{"turn":"2","at_s":1.0,"label":"0/2","id":"s2","outcome":"finished","text":""}\n'
    )

    assert ids(storage) == ["s1", "s3"]


def test_old_answers_go_once_enough_newer_ones_are_there(storage):
    kept = journal(storage, kept=100)
    for turn in range(1, 2001):
        kept.record(turn, [answer(turn)])

    found = ids(storage)
    assert 100 <= len(found) <= 300
    assert found[-1] == "s2000"


def test_long_texts_are_cut_and_fill_no_memory(storage, monkeypatch):
    """Signals cause answers: 1,000 a turn, each with the 64 KB of a message to log."""
    read, kept = [], journal(storage)
    original = storage.read

    def noted(name):
        read.append(name)
        return original(name)

    monkeypatch.setattr(storage, "read", noted)
    long = Answer("0/1", "s", Outcome.ACCEPTED, "x" * 60_000)
    for turn in range(1, 30):
        kept.record(turn, [long] * 1_000)

    assert len(read) > 20  # they were put together
    assert len(last_answers(storage, 1)[0]["text"]) == 4_001
    assert max(path.stat().st_size for path in Path(storage.location).iterdir()) < 64 << 20


def numbered_again(storage):
    """A journal of 60 turns in two kinds of files; then the states after turn 40 were moved away."""
    kept = journal(storage)
    for turn in range(1, 61):
        kept.record(turn, [answer(turn)])
    storage.create("turn-000000000041.json", b"")


def again(number):
    return Answer(f"0/{number}", f"again{number}", Outcome.FINISHED, "done", "public.t", {})


def test_turns_that_are_numbered_again_replace_the_answers_of_those_undone(storage):
    numbered_again(storage)

    kept = journal(storage)
    for turn in (41, 43):
        kept.record(turn, [again(turn)])

    assert ids(storage) == [*(f"s{turn}" for turn in range(1, 41)), "again41", "again43"]


def test_a_journal_whose_turns_are_all_undone_begins_again(storage):
    kept = journal(storage)
    for turn in range(10, 71):
        kept.record(turn, [answer(turn)])

    journal(storage).record(1, [again(1)])

    assert ids(storage) == ["again1"]


@pytest.mark.parametrize("steps", range(13))
def test_a_death_while_undone_turns_are_removed_loses_and_doubles_nothing(storage, steps):
    numbered_again(storage)

    survives(journal(Dying(storage, steps)), 41)
    assert ids(storage)[:40] == [f"s{turn}" for turn in range(1, 41)]
    assert len(ids(storage)) == len(set(ids(storage)))
    journal(storage).record(41, [again(41)])

    assert ids(storage) == [*(f"s{turn}" for turn in range(1, 41)), "again41"]


def test_a_job_that_another_one_has_overtaken_removes_none_of_its_answers(storage):
    kept = journal(storage)
    for turn in range(1, 61):
        kept.record(turn, [answer(turn)])
    storage.create("turn-000000000060.json", b"")

    journal(storage).record(41, [answer(41)])

    assert ids(storage) == [f"s{turn}" for turn in range(1, 61)]


class Dying:
    """A storage whose process dies at the n-th change."""

    def __init__(self, storage, steps):
        self._storage, self._left = storage, steps

    def __getattr__(self, name):
        called = getattr(self._storage, name)

        def step(*arguments, **options):
            if name in {"create", "delete"}:
                if not self._left:
                    raise StateError("dead")
                self._left -= 1
            return called(*arguments, **options)

        return step


def survives(dying, turn):
    try:
        dying.record(turn, [answer(turn)])
    except StateError:
        return False
    return True


@pytest.mark.parametrize("steps", range(50, 110, 3))
def test_a_death_while_turns_are_put_together_loses_and_doubles_nothing(storage, steps):
    dying = journal(Dying(storage, steps))
    recorded = next(turn for turn in range(1, 200) if not survives(dying, turn))
    after = journal(storage)
    # The next start records the answers of the turn whose state was saved.
    after.record(recorded, [answer(recorded)])
    for turn in range(recorded + 1, recorded + 120):
        after.record(turn, [answer(turn)])

    assert ids(storage) == [f"s{turn}" for turn in range(1, recorded + 120)]
