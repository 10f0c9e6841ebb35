"""What a change stream asks for behind an event that the server can't send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import bson
import pytest
from bson.timestamp import Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from adapters.mongodb.log.options import StreamOptions
from adapters.mongodb.log.position import has_passed, position_of, time_of
from adapters.mongodb.log.stream import ChangeStream, answer
from adapters.mongodb.server.change_cursor import ChangeCursor
from adapters.mongodb.server.failures import EventTooLarge
from adapters.mongodb.settings import Oversize
from engine.errors import ConfigError, PositionLost, SourceError

if TYPE_CHECKING:
    from adapters.mongodb.documents.bson_walk import Value
    from engine.model import Position

TOKEN = {"_data": "826B03928D000000010000000000"}


class Oversized(ChangeCursor):
    """A cursor whose server can't send its next event; keeps the pipelines that it was opened with."""

    def __init__(self, error: SourceError) -> None:
        self.error = error
        self.pipelines: list[Any] = []

    def open(self, pipeline: Any, batch_rows: int = 0) -> bytes:  # noqa: ARG002  no server
        self.pipelines.append(pipeline)
        cursor = {"id": bson.Int64(7), "firstBatch": [], "postBatchResumeToken": TOKEN}
        return bson.encode({"cursor": cursor, "operationTime": Timestamp(1, 1)})

    def more(self, cursor: int, batch_rows: int, await_ms: int) -> bytes:  # noqa: ARG002  no server
        raise self.error


class Refusing:
    """A client whose server answers a command with an error."""

    def __init__(self, code: int) -> None:
        self.code = code

    def __getitem__(self, _database: str) -> Refusing:
        return self

    def start_session(self) -> None:
        return None

    def command(self, _command: dict[str, Any], **_more: Any) -> bytes:
        raise OperationFailure("it is too large", self.code)


def refused(code: int) -> SourceError:
    """What a cursor makes of an error of the server's."""
    cursor = ChangeCursor(cast("MongoClient[dict[str, Any]]", Refusing(code)), ("admin", 1))
    with pytest.raises(SourceError) as told:
        cursor.more(7, 100, 1)
    return told.value


def opened(server: Oversized, oversize: Oversize) -> ChangeStream:
    return ChangeStream(server, StreamOptions(oversize=oversize), start=None)


def take(stream: ChangeStream) -> None:
    """Take what comes, which is nothing."""
    for _ in range(9):
        assert stream.next(100, 1).changes == ()


@pytest.mark.parametrize("code", [10334, 7182500])
@pytest.mark.parametrize(("oversize", "others"), [("fail", "'skip' or 'split'"), ("split", "'skip'")])
def test_an_event_that_can_not_be_sent_even_with_less_ends_the_job(code: int, oversize: str, others: str):
    # 7182500: a part of it has no room for one of its fields.
    stream = opened(server := Oversized(refused(code)), Oversize(oversize))

    with pytest.raises(ConfigError, match="over 16 MB") as told:
        take(stream)

    assert told.value.hint == f"set 'cursor.oversize.handling.mode' to {others}"
    assert "fullDocument" in server.pipelines[0][0]["$changeStream"]
    assert "fullDocument" not in server.pipelines[-1][0]["$changeStream"]


def test_where_it_may_be_left_out_only_its_name_is_asked_for_in_the_end():
    stream = opened(server := Oversized(refused(7182500)), Oversize.SKIP)

    with pytest.raises(ConfigError, match="over 16 MB"):
        take(stream)

    assert server.pipelines[-1][-1] == {
        "$project": {"operationType": 1, "clusterTime": 1, "ns": 1, "documentKey": 1}
    }


def test_the_log_is_checked_before_the_stream_is_opened_again():
    def check() -> None:
        raise PositionLost("the server was restored")

    server = Oversized(refused(10334))
    stream = ChangeStream(server, StreamOptions(oversize=Oversize.SKIP), None, check)
    stream.next(100, 1)

    with pytest.raises(PositionLost):
        stream.next(100, 1)
    assert len(server.pipelines) == 1


def test_an_event_in_parts_comes_with_the_first_position_behind_it():
    def part(number: int) -> dict[str, Any]:
        token = {"_data": f"826B03928D000000020{number}"}
        return {"_id": token, "splitEvent": {"fragment": number, "of": 2}, f"f{number}": 1}

    plain = {"_id": {"_data": "826B03928D0000000100"}, "x": 1}
    stream = ChangeStream(
        Answering(
            ([plain, part(1)], part(1)["_id"]),
            ([part(2)], part(2)["_id"]),
            ([], part(2)["_id"]),
            ([], {"_data": "826B03928D00000003"}),
        ),
        StreamOptions(oversize=Oversize.SPLIT),
        None,
    )

    first, *waiting, last = (stream.next(100, 1) for _ in range(4))

    assert [list(bson.decode(raw)) for raw in first.changes] == [["_id", "x"]]
    assert {batch.changes for batch in waiting} == {()}
    assert {batch.end.order[0] for batch in (first, *waiting)} == {"826B03928D0000000100"}
    assert [list(bson.decode(raw)) for raw in last.changes] == [["_id", "f1", "f2"]]
    assert last.end.order[0] == "826B03928D00000003"


class Answering(ChangeCursor):
    """A server with these answers: the events, and the token behind them."""

    def __init__(self, *answers: tuple[list[Any], Any]) -> None:
        self.answers = list(answers)

    def open(self, pipeline: Any, batch_rows: int = 0) -> bytes:  # noqa: ARG002  no server
        return self._answer("firstBatch", [], {"_data": "826B03928D00000000"})

    def more(self, cursor: int, batch_rows: int, await_ms: int) -> bytes:  # noqa: ARG002  no server
        return self._answer("nextBatch", *self.answers.pop(0))

    @staticmethod
    def _answer(name: str, events: list[Any], token: Any) -> bytes:
        return bson.encode({"cursor": {"id": bson.Int64(7), name: events, "postBatchResumeToken": token}})


class Growing(ChangeCursor):
    """A server with 1000 events; keeps how many each request asked for, and the cursors that it ended.

    The event `large` is too large for its first `refusals` requests.
    """

    def __init__(self, large: int, refusals: int) -> None:
        self.large, self.refusals, self.sent = large, refusals, 0
        self.asked: list[int] = []
        self.opened, self.ended = 0, list[int]()

    def open(self, pipeline: Any, batch_rows: int = 0) -> bytes:  # noqa: ARG002  no server
        self.opened += 1
        return self._answer("firstBatch", [])

    def more(self, cursor: int, batch_rows: int, await_ms: int) -> bytes:  # noqa: ARG002  no server
        assert cursor == self.opened, "an older cursor"
        self.asked.append(batch_rows)
        if self.refusals and self.sent <= self.large < self.sent + batch_rows:
            self.refusals -= 1
            raise EventTooLarge("it is too large")
        self.sent += batch_rows
        return self._answer("nextBatch", [{"n": n} for n in range(batch_rows)])

    def end(self, cursor: int) -> None:
        self.ended.append(cursor)

    def _answer(self, batch: str, came: list[dict[str, int]]) -> bytes:
        cursor = {"id": bson.Int64(self.opened), batch: came, "postBatchResumeToken": TOKEN}
        return bson.encode({"cursor": cursor, "operationTime": Timestamp(1, 1)})


def test_full_batches_are_asked_for_again_once_the_large_event_must_have_passed():
    # It has become smaller before it is asked for alone: its document was looked up anew.
    stream = ChangeStream(server := Growing(large=5, refusals=1), StreamOptions(), start=None)
    for _ in range(12):
        stream.next(10, 1)

    assert server.asked == [10, *[1] * 10, 10]
    assert server.opened == 2


def test_the_cursor_for_less_of_an_event_is_ended_before_full_events_are_asked_for():
    stream = ChangeStream(server := Growing(large=2, refusals=2), StreamOptions(), start=None)
    for _ in range(6):
        stream.next(10, 1)

    assert server.asked == [10, 1, 1, 1, 1, 10]
    assert server.ended == [3], "the server has ended those before with an error"


def test_any_other_error_is_told():
    stream = opened(Oversized(refused(43)), Oversize.FAIL)

    with pytest.raises(SourceError, match="reading the change stream failed"):
        take(stream)


def test_the_resume_token_of_an_answer_is_read_once(monkeypatch: pytest.MonkeyPatch):
    read: list[Position] = []

    def reading(raw: bytes, token: Value) -> Position:
        read.append(position_of(raw, token))
        return read[-1]

    monkeypatch.setattr("adapters.mongodb.log.stream.position_of", reading)
    cursor = {"id": bson.Int64(7), "nextBatch": [], "postBatchResumeToken": TOKEN}
    answer(bson.encode({"cursor": cursor, "operationTime": Timestamp(1, 1)}), "nextBatch")

    assert len(read) == 1


class Idle(ChangeCursor):
    """A cursor without events; each answer has a token of its own, and the time that it tells."""

    def __init__(self, answers: list[tuple[int, int]]) -> None:
        self._answers = iter(answers)

    def open(self, pipeline: Any, batch_rows: int = 0) -> bytes:  # noqa: ARG002  no server
        return self._answer("firstBatch")

    def more(self, cursor: int, batch_rows: int, await_ms: int) -> bytes:  # noqa: ARG002  no server
        return self._answer("nextBatch")

    def _answer(self, batch: str) -> bytes:
        token, told = next(self._answers)
        mark = {"_data": f"826B03928D{token:08X}29"}
        cursor = {"id": bson.Int64(7), batch: [], "postBatchResumeToken": mark}
        return bson.encode({"cursor": cursor, "operationTime": Timestamp(_SECONDS, told)})


_SECONDS = 0x6B03928D


@pytest.mark.parametrize(
    ("answers", "passed"),
    [
        pytest.param([(2, 1), (2, 1)], False, id="ahead of the log"),
        pytest.param([(2, 1), (2, 2)], False, id="told after the batch was made"),
        pytest.param([(2, 1), (2, 2), (2, 2)], True, id="told before the batch was made"),
        pytest.param([(2, 2), (2, 2)], True, id="told when it began"),
        pytest.param([(2, 1), (3, 1)], True, id="moved on"),
    ],
)
def test_a_token_says_that_its_time_was_streamed_once_the_server_has_read_so_far(
    answers: list[tuple[int, int]],
    passed: bool,  # noqa: FBT001
):
    stream = ChangeStream(Idle(answers), StreamOptions(), start=None)
    assert not has_passed(stream.position, time_of(stream.position))

    for _ in answers[1:]:
        stream.next(100, 1)

    assert has_passed(stream.position, time_of(stream.position)) is passed
