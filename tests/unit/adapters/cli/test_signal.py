"""`tidemark signal`: what is sent, what is shown of the answers, and the exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from adapters.cli.display.answer_display import PlainLines
from adapters.cli.signal import follow
from adapters.storage.answer_journal import AnswerJournal
from adapters.storage.checkpoint_reader import CheckpointReader
from adapters.storage.lease import FileLease
from adapters.storage.owner import Claim
from engine.clock import Clock
from signals.answers import Answer, Outcome
from tests.unit.adapters.cli import test_status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from adapters.storage.directory import LocalStorage

invoke = test_status.invoke
listed, storage = test_status.config, test_status.storage


@pytest.fixture
def config(listed: Path, tmp_path: Path) -> Path:
    listed.write_text(f"{listed.read_text()}signal.file={tmp_path / 'signals'}\n")
    return listed


@pytest.fixture
def running(storage: LocalStorage) -> FileLease:
    lease = FileLease(storage, Claim("orders"))
    lease.try_take()
    return lease


def sent(tmp_path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (tmp_path / "signals").read_bytes().splitlines()]


def answer(outcome: Outcome, collection: str | None = None, **facts: Any) -> Answer:
    return Answer("f@0", "mine", outcome, f"{collection} is {outcome}", collection, facts)


def following(
    storage: LocalStorage, job: Callable[[AnswerJournal, int], None], timeout_s: float = 60.0
) -> int:
    """Follow the signal `mine`; `job` is called at each pause, with the number of those before."""
    journal, now = AnswerJournal(storage, lambda: 0.0), [0.0]

    def sleep(seconds: float) -> None:
        job(journal, round(now[0] / seconds))
        now[0] += seconds

    clock = Clock(lambda: 0.0, lambda: now[0], sleep, lambda: "id")
    reader = CheckpointReader(storage.location)
    return follow(reader, "mine", PlainLines(), clock, (reader.latest_answers(), timeout_s))


@pytest.mark.parametrize(
    ("arguments", "kind", "data"),
    [
        (
            ("execute", "-c", "public.a", "-c", "b.*", "--condition", "id > 1", "--data", '{"priority": 5}'),
            "execute-snapshot",
            {
                "data-collections": ["public.a", "b.*"],
                "type": "incremental",
                "additional-condition": "id > 1",
                "priority": 5,
            },
        ),
        (("stop",), "stop-snapshot", {"type": "incremental"}),
        (("pause", "-c", "public.a"), "pause-snapshot", {"data-collections": ["public.a"]}),
        (("resume",), "resume-snapshot", {}),
        (("log", "hello"), "log", {"message": "hello"}),
    ],
)
def test_a_signal_is_sent_as_asked(
    config: Path, tmp_path: Path, arguments: tuple[str, ...], kind: str, data: dict[str, Any]
):
    command, *others = arguments

    result = invoke("signal", command, config, *others)

    assert result.exit_code == 0, result.output
    (signal,) = sent(tmp_path)
    assert (signal["type"], signal["data"]) == (kind, data)
    assert f"sent signal {signal['id']!r} as a line of " in result.stdout


def test_ids_are_no_longer_than_a_signal_tables_column(config: Path, tmp_path: Path):
    invoke("signal", "log", config, "one")
    invoke("signal", "log", config, "two")

    ids = {signal["id"] for signal in sent(tmp_path)}
    assert len(ids) == 2
    assert all(len(id_) <= 42 for id_ in ids)


@pytest.mark.parametrize("command", ["verify", "repair"])
@pytest.mark.parametrize(
    ("given", "asked"), [((), [".*"]), (("-c", "public.a"), ["public.a"])], ids=["all", "one"]
)
def test_all_collections_are_verified_unless_some_are_named(
    config: Path, tmp_path: Path, command: str, given: tuple[str, ...], asked: list[str]
):
    invoke(command, config, *given)

    (signal,) = sent(tmp_path)
    assert signal["data"] == {"data-collections": asked, "type": command}


@pytest.mark.usefixtures("running")
def test_a_job_that_runs_is_not_run_again(config: Path, tmp_path: Path):
    result = invoke("verify", config, "--run", "--timeout", "0.1")

    assert result.exit_code == 4
    assert len(sent(tmp_path)) == 1


@pytest.mark.parametrize("data", ["{", "[]"])
def test_data_that_is_no_object_is_refused_before_anything_is_sent(config: Path, tmp_path: Path, data: str):
    result = invoke("signal", "execute", config, "-c", "a", "--data", data)

    assert result.exit_code == 2
    assert "--data" in result.stderr
    assert not (tmp_path / "signals").exists()


def test_without_a_job_nobody_waits(config: Path, tmp_path: Path):
    result = invoke("signal", "log", config, "hello", "--wait")

    assert result.exit_code == 4
    assert "no job runs here" in result.stderr
    assert len(sent(tmp_path)) == 1


@pytest.mark.usefixtures("running")
def test_a_signal_without_answers_is_not_waited_for_longer_than_asked(config: Path):
    result = invoke("signal", "log", config, "hello", "--wait", "--timeout", "0.1", "--json")

    assert result.exit_code == 4
    _sent, unanswered = map(orjson.loads, result.stdout.splitlines())
    assert unanswered == {"unanswered": "not done after 0.1 s; the signal stays in force"}


@pytest.mark.usefixtures("running")
def test_answers_are_shown_as_they_come(storage: LocalStorage, capsys: pytest.CaptureFixture[str]):
    def job(journal: AnswerJournal, number: int) -> None:
        others = Answer("f@9", "another", Outcome.FAILED, "not ours")
        match number:
            case 0:
                journal.record(7, [others, answer(Outcome.ACCEPTED, collections=2)])
            case 1:
                journal.record(8, [answer(Outcome.PROGRESS, "a", percent=50), answer(Outcome.FINISHED, "a")])
            case 2:
                journal.record(9, [answer(Outcome.FINISHED, "b")])

    assert following(storage, job) == 0
    assert capsys.readouterr().out.splitlines() == [
        "accepted: None is accepted",
        "progress: a is progress",
        "finished: a is finished",
        "finished: b is finished",
    ]


@pytest.mark.usefixtures("running")
def test_answers_of_before_are_not_those_of_this_signal(storage: LocalStorage):
    AnswerJournal(storage, lambda: 0.0).record(6, [answer(Outcome.REJECTED)])

    assert following(storage, lambda _journal, _number: None, timeout_s=5.0) == 4


@pytest.mark.usefixtures("running")
def test_turns_that_are_numbered_again_hide_no_answer(storage: LocalStorage):
    """The newest states were moved away; the journal still has answers of their turns."""
    before = AnswerJournal(storage, lambda: 0.0)
    for turn in range(1, 61):
        before.record(turn, [Answer("f@9", "another", Outcome.FINISHED, "done")])
    storage.create("turn-000000000040.json", b"")

    def job(journal: AnswerJournal, number: int) -> None:
        if number == 1:
            storage.create("turn-000000000041.json", b"")
            journal.record(41, [answer(Outcome.ACCEPTED, collections=1), answer(Outcome.FINISHED, "a")])

    assert following(storage, job) == 0


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.REJECTED])
def test_a_collection_that_fails_is_a_failure(storage: LocalStorage, outcome: Outcome):
    def job(journal: AnswerJournal, number: int) -> None:
        if number == 0:
            journal.record(7, [answer(Outcome.ACCEPTED, collections=1), answer(outcome, "a")])

    assert following(storage, job) == 1


def test_a_job_that_ends_is_not_waited_for(
    storage: LocalStorage, running: FileLease, capsys: pytest.CaptureFixture[str]
):
    def job(_journal: AnswerJournal, number: int) -> None:
        if number == 3:
            running.release()

    assert following(storage, job) == 4
    assert "the job has ended" in capsys.readouterr().err


@pytest.mark.usefixtures("running")
def test_answers_put_together_meanwhile_are_found(storage: LocalStorage):
    def job(journal: AnswerJournal, number: int) -> None:
        if number == 0:
            for turn in range(60):
                journal.record(turn, [answer(Outcome.ACCEPTED, collections=1)] if turn == 3 else [])
            journal.record(60, [answer(Outcome.FINISHED, "a")])

    assert following(storage, job) == 0
