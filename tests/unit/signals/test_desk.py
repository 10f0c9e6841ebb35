"""From a received signal to a command or a refusal, and what is said when a table is done."""

from __future__ import annotations

import time

import orjson
import pytest

from engine.errors import SignalError, SourceError, StateError
from engine.model import (
    Channel,
    CollectionId,
    ExecuteSnapshot,
    LogMessage,
    Range,
    SignalRow,
    StopSnapshot,
    Target,
)
from engine.snapshot.extent import Extent, Progress
from engine.snapshot.queue_entry import Table
from signals.answers import Answer, Outcome
from signals.channels.topic import TopicChannel
from signals.desk import Desk
from signals.parse.budget import MAX_AT_ONCE, MAX_DATA, Budget
from signals.parse.commands import AcceptedSignal
from tests.fakes import MemoryTopic

T, U = CollectionId(("public", "t")), CollectionId(("public", "u"))
EXECUTE = SignalRow("0/1A/1", "a", "execute-snapshot", '{"data-collections": ["public.t"]}')
STOP = SignalRow("0/1A/2", "b", "stop-snapshot", '{"type": "incremental", "data-collections": ["public.u"]}')
UNKNOWN = SignalRow("0/1A/3", "c", "execute-snapsht", "{}")
OPEN = SignalRow("0/1A/4", "w-open", "snapshot-window-open", None)


class Known:
    """What may be named, and how often that was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> list[CollectionId]:
        self.asked += 1
        return [T, U]


@pytest.fixture
def answers():
    return []


@pytest.fixture
def desk(answers):
    return Desk(answers.append, monotonic=time.monotonic)


def test_valid_signals_become_commands_in_order(desk, answers):
    commands = desk.commands([EXECUTE, STOP], Known())
    desk.tell(1)

    assert list(commands) == [ExecuteSnapshot("0/1A/1", (Target(T),), "a"), StopSnapshot("0/1A/2", (U,))]
    assert [(answer.label, answer.id, answer.outcome) for answer in answers] == [
        ("0/1A/1", "a", Outcome.ACCEPTED),
        ("0/1A/2", "b", Outcome.ACCEPTED),
    ]


def test_a_refused_signal_is_answered_and_left_out(desk, answers):
    commands = desk.commands([UNKNOWN, EXECUTE], Known())
    desk.tell(1)

    assert len(commands) == 1
    assert [answer.outcome for answer in answers] == [Outcome.REJECTED, Outcome.ACCEPTED]
    assert "execute-snapsht" in answers[0].text


def test_the_same_label_twice_is_two_signals(desk, answers):
    again = SignalRow("0/1B/1", EXECUTE.id, EXECUTE.type, EXECUTE.data)

    commands = desk.commands([EXECUTE, again], Known())
    desk.tell(1)

    assert len(commands) == len(answers) == 2


def test_answers_of_a_turn_that_is_done_again_are_not_told_twice(desk, answers):
    desk.commands([EXECUTE], Known())
    desk.resume({}, 1)
    desk.commands([EXECUTE], Known())
    desk.tell(1)
    desk.tell(1)

    assert [answer.outcome for answer in answers] == [Outcome.ACCEPTED]


@pytest.mark.parametrize(
    ("rows", "asked"), [([], 0), ([OPEN], 0), ([EXECUTE], 1), ([EXECUTE, UNKNOWN, STOP], 1)]
)
def test_the_catalog_is_asked_once_and_only_for_signals(desk, rows, asked):
    known = Known()
    desk.commands(rows, known)
    desk.tell(1)

    assert known.asked == asked


HOSTILE = [
    "[" * 60_000,
    '{"data-collections": ' + "[" * 254 + "]" * 254 + "}",
    '{"data-collections": ["public.t"], "x": ' + '{"a":' * 200 + "1" + "}" * 200 + "}",
    '{"data-collections": ["(?=p)(?:|.){60}"]}',
    '{"data-collections": ["public\\\\.(\\\\w+)*\\\\.old"]}',
    '{"data-collections": ["' + "(" * 9_000 + '"]}',
    '{"data-collections": ["\\u0000"]}',
    '{"data-collections": ["public.t"], "surrogate-key": "' + "a," * 5_000 + '"}',
    '{"data-collections": [' + ",".join('".*(a|b|c){200}x"' for _ in range(3_000)) + "]}",
    '{"type": "incremental", "data-collections": [99999999999999999999999999]}',
    "\ud800",
    "x" * (MAX_DATA + 1),
    "{" + ",".join(f'"{number}": 0' for number in range(5_000)) + "}",
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("type_", ["execute-snapshot", "stop-snapshot"])
def test_the_worst_that_comes_of_a_signal_is_a_rejection(desk, answers, type_, data):
    known = [CollectionId(("public", "t" * 60 + str(number))) for number in range(300)]
    started = time.perf_counter()

    desk.commands([SignalRow("0/1A", "x", type_, data), EXECUTE], lambda: [T, *known])
    desk.tell(1)

    assert time.perf_counter() - started < 30
    assert [answer.outcome for answer in answers] == [Outcome.REJECTED, Outcome.ACCEPTED]
    assert all(len(answer.text) < 10_000 for answer in answers)
    assert orjson.dumps(desk.memory()) is not None


def test_what_nobody_foresaw_is_a_rejection_too(desk, answers, monkeypatch):
    def parse(signal, _known):
        if signal.id == "a":
            raise RecursionError("deeper than anybody thought")
        return AcceptedSignal(LogMessage(signal.label, "x"))

    monkeypatch.setattr("signals.desk.parse", parse)
    commands = desk.commands([EXECUTE, STOP], Known())
    desk.tell(1)

    assert len(commands) == 1
    assert [answer.outcome for answer in answers] == [Outcome.REJECTED, Outcome.ACCEPTED]
    assert "RecursionError" in answers[0].text
    assert "deeper" not in answers[0].text


def test_many_signals_at_once_are_refused_together(desk, answers):
    rows = [
        SignalRow(f"0/{number}", "x", "log", '{"message": "m"}') for number in range(MAX_AT_ONCE + 99_000)
    ]

    commands = desk.commands(rows, Known())
    desk.tell(1)

    assert len(commands) == MAX_AT_ONCE
    assert len(answers) == MAX_AT_ONCE + 1
    assert answers[-1].outcome is Outcome.REJECTED
    assert answers[-1].label == f"0/{MAX_AT_ONCE}"
    assert "99000 signals, the last at 0/99999" in answers[-1].text


def test_signals_have_their_time_and_no_more(answers, monkeypatch):
    now = iter(range(1_000_000))
    monkeypatch.setattr("signals.desk.Budget", lambda monotonic: Budget(monotonic, 1.0, 40.0))
    desk = Desk(answers.append, monotonic=lambda: float(next(now)))

    desk.commands([EXECUTE] * 100, Known())
    desk.tell(1)

    late = [answer for answer in answers if "took all the time" in answer.text]
    assert "it takes too long" in answers[0].text
    assert len(answers) == 100
    assert 40 < len(late) < 100
    assert {(answer.id, answer.outcome) for answer in late} == {("a", Outcome.REJECTED)}


def test_the_time_of_signals_begins_once_the_server_has_named_its_tables(answers):
    clock = [0.0]
    desk = Desk(answers.append, monotonic=lambda: clock[0])

    class Slow(Known):
        def __call__(self):
            clock[0] += 60.0
            return super().__call__()

    assert len(desk.commands([EXECUTE], Slow())) == 1


def test_the_rows_of_a_window_are_no_signals(desk, answers):
    assert (list(desk.commands([OPEN], Known())), answers) == ([], [])


def test_without_other_channels_nothing_waits_and_nothing_is_kept(desk):
    desk.resume({}, 1)

    assert not desk.pending()
    assert desk.memory() == {}


@pytest.fixture
def topic():
    return MemoryTopic()


@pytest.fixture
def listening(answers, topic):
    """A desk that reads the signal table and a topic."""
    channel = TopicChannel("asks", "shop", topic, 0)
    desk = Desk(answers.append, {Channel.KAFKA: channel}, monotonic=time.monotonic)
    desk.resume({}, 1)
    desk.memory()
    return desk


def test_the_signals_of_a_topic_come_behind_those_of_the_log(listening, topic):
    topic.append(0, b"shop", b'{"id": "m", "type": "log", "data": {"message": "here"}}')
    assert listening.pending()

    assert list(listening.commands([STOP], Known())) == [
        StopSnapshot("0/1A/2", (U,)),
        LogMessage("asks-0@0", "here"),
    ]
    assert not listening.pending()


def test_a_message_is_logged_with_the_position_of_the_stream(listening, topic):
    topic.append(0, b"shop", b'{"type": "log", "data": {"message": "seen at {}, then {}"}}')

    commands = listening.commands([], Known(), lambda: "0/2B")

    assert list(commands) == [LogMessage("asks-0@0", "seen at 0/2B, then {}")]


def test_a_row_is_logged_with_its_own_position(listening):
    row = SignalRow("0/1A", "x", "log", '{"message": "seen at {}"}')

    assert list(listening.commands([row], Known(), lambda: "0/2B")) == [LogMessage("0/1A", "seen at 0/1A")]


def test_a_message_that_is_no_signal_is_answered_by_its_place(listening, topic, answers):
    topic.append(0, b"shop", b'{"type": "log"')
    commands = listening.commands([], Known())
    listening.tell(1)

    assert list(commands) == []
    assert [(answer.label, answer.id, answer.outcome) for answer in answers] == [
        ("asks-0@0", None, Outcome.REJECTED)
    ]


def test_after_a_failure_signals_come_again_and_are_answered_once(listening, topic, answers):
    topic.append(0, b"shop", b'{"type": "log", "data": {"message": "here"}}')
    listening.commands([], Known())
    listening.resume({}, 1)

    assert len(listening.commands([], Known())) == 1
    listening.tell(1)
    assert len(answers) == 1


def test_the_place_of_a_channel_that_is_off_is_kept(listening):
    listening.resume({"file": {"bytes": 7, "digest": "d"}}, 1)

    assert listening.memory()["file"] == {"bytes": 7, "digest": "d"}
    assert listening.memory()["kafka"]["topic"] == "asks"


@pytest.mark.parametrize(
    "place", [{"topic": "asks"}, {"topic": "asks", "id": "", "since_ms": "soon"}, ["asks"]]
)
def test_a_saved_place_that_can_not_be_read_stops_the_job(listening, place):
    with pytest.raises(StateError, match="the saved place of the kafka channel"):
        listening.resume({"kafka": place}, 1)


def test_with_its_channel_off_the_signal_table_asks_for_nothing(answers):
    desk = Desk(answers.append, monotonic=time.monotonic, reads_table=False)
    commands = desk.commands([EXECUTE, UNKNOWN], Known())
    desk.tell(1)

    assert (list(commands), answers) == ([], [])


def table(progress: Progress | None) -> Table:
    return Table(1, "0/1A/1", Target(T), progress, "monday")


def read(rows: int, emitted: int) -> Table:
    return table(Progress(Extent(9, 9), 0, (Range(("7", None), ("9", "z")),), rows=rows, emitted=emitted))


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        (read(10, 10), "public.t completed: 10 rows read"),
        (read(10, 8), "public.t completed: 10 rows read, 2 of them superseded by the log"),
        (table(None), "public.t completed: 0 rows read"),
    ],
)
def test_a_table_read_to_its_end_is_counted(desk, answers, about, expected):
    desk.answers.finished(about)
    desk.tell(1)

    assert answers == [Answer("0/1A/1", "monday", Outcome.FINISHED, expected)]


def test_a_paused_table_says_how_far_it_came_and_where_it_goes_on(desk, answers):
    desk.answers.paused(read(10, 8))
    desk.answers.resumed(read(10, 8))
    desk.tell(1)

    assert [(answer.outcome, answer.text) for answer in answers] == [
        ("paused", "public.t paused after 10 rows"),
        ("resumed", "public.t goes on after 10 rows"),
    ]


@pytest.mark.parametrize(
    ("about", "expected"),
    [(read(10, 8), "public.t stopped after 10 rows"), (table(None), "public.t stopped after 0 rows")],
)
def test_a_stopped_table_says_how_far_it_came(desk, answers, about, expected):
    desk.answers.stopped(about)
    desk.tell(1)

    assert answers == [Answer("0/1A/1", "monday", Outcome.STOPPED, expected)]


@pytest.mark.parametrize(
    ("about", "error", "outcome", "expected"),
    [
        pytest.param(
            table(None),
            SignalError("there is no such table", where="public.t", hint="mend the name"),
            Outcome.REJECTED,
            "public.t not read: there is no such table; mend the name",
            id="can't be asked for",
        ),
        pytest.param(
            table(None),
            SourceError("bad block"),
            Outcome.FAILED,
            "public.t not read: bad block",
            id="failed at the begin",
        ),
        pytest.param(
            read(10, 8),
            SourceError("bad block"),
            Outcome.FAILED,
            "public.t not read: bad block; missing: keys after (7, NULL) up to (9, z);"
            " the same signal again reads just that",
            id="failed in the middle",
        ),
        pytest.param(
            table(None),
            ValueError("odd"),
            Outcome.FAILED,
            "public.t not read: ValueError",
            id="an error of somebody else",
        ),
    ],
)
def test_a_failed_table_says_why_and_what_is_missing(desk, answers, about, error, outcome, expected):
    desk.answers.failed(about, error)
    desk.tell(1)

    assert answers == [Answer("0/1A/1", "monday", outcome, expected)]
