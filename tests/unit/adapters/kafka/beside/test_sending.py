"""The slots that send runs beside the turns, without a broker."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

import pytest

from adapters.kafka.beside import sending as module
from adapters.kafka.beside.lease_answers import AskForLease
from adapters.kafka.beside.row_task import SendRows
from adapters.kafka.beside.sending import RowSending
from adapters.kafka.errors import BatchRefused, NotDelivered
from adapters.kafka.settings import KafkaSettings
from engine.errors import ExecutorsFailed, SinkError, TidemarkError

LEASE = AskForLease("driver", 1, b"")


class HandSenders:
    """Tasks that a test completes."""

    def __init__(self, *, keeps: bool = True, lease: AskForLease | None = None) -> None:
        self.keeps, self.lease = keeps, lease
        self.asked: list[tuple[int, Any, Future[Any]]] = []
        self.stopped = self.ended = 0

    def submit(self, slot: int, task: Any, _item: Any) -> Future[Any]:
        self.asked.append((slot, task, Future()))
        return self.asked[-1][2]

    def stop(self) -> None:
        self.stopped += 1

    def end(self) -> None:
        self.ended += 1
        for _slot, _task, future in self.asked:
            future.set_exception(ExecutorsFailed("a process has ended"))

    def close(self) -> None: ...


class Owner:
    """A sink that notes what failed."""

    keeps_producers = True

    def __init__(self) -> None:
        self.failures: list[TidemarkError] = []
        self.given_up = 0

    def row_task(self, slot: int, attempt: int, *, keeps: bool, lease: AskForLease | None) -> SendRows:
        return SendRows(KafkaSettings(), f"id-{slot}", attempt, keeps, lease)

    def handle_failure(self, error: TidemarkError) -> TidemarkError:
        self.failures.append(error)
        return error

    def give_up(self) -> None:
        self.given_up += 1

    def make_batches_smaller(self, refused: BatchRefused) -> None:
        self.failures.append(refused)


@pytest.fixture
def owner():
    return Owner()


def test_there_is_room_while_a_slot_is_free(owner):
    senders = HandSenders()
    sending = RowSending(owner, senders, 2, time.monotonic, fenced=False)
    ways: list[Any] = [sending.begin(None) for _ in range(2)]  # type: ignore[arg-type] # it is not looked at
    full = sending.has_room
    for _slot, _task, future in senders.asked:
        future.set_result("emitted")

    assert not full
    assert [way.result() for way in ways] == ["emitted", "emitted"]
    assert sending.has_room
    assert {slot for slot, *_rest in senders.asked} == {0, 1}


def test_a_run_whose_batches_were_too_large_is_sent_again_once_it_is_polled(owner):
    senders = HandSenders()
    way: Any = RowSending(owner, senders, 1, time.monotonic, fenced=False).begin(None)  # type: ignore[arg-type] # as above
    told: list[bool] = []
    way.watch(lambda: told.append(way.done()))
    senders.asked[0][2].set_exception(BatchRefused("too large", where="t"))
    done = way.done()
    way.poll()
    senders.asked[1][2].set_result("emitted")

    assert not done
    assert told == [False, True]
    assert way.result() == "emitted"
    assert [str(error) for error in owner.failures] == ["t: too large"]


def test_with_ids_producers_are_prepared_before_they_send_and_again_after_a_failure(owner):
    senders = HandSenders()
    sending = RowSending(owner, senders, 2, time.monotonic, fenced=True)
    first = sending.prepare()
    for _slot, _task, future in senders.asked:
        future.set_result(None)
    second = sending.prepare()
    sending.forget()

    assert (first, second, sending.prepare()) == (False, True, False)
    assert len(senders.asked) == 4


def test_with_ids_somebody_must_keep_the_producers_or_tell_tasks_of_the_lease(owner):
    assert RowSending(owner, HandSenders(), 1, time.monotonic, fenced=True).is_possible
    assert not RowSending(owner, HandSenders(keeps=False), 1, time.monotonic, fenced=True).is_possible
    assert RowSending(owner, HandSenders(keeps=False), 1, time.monotonic, fenced=False).is_possible
    assert RowSending(
        owner, HandSenders(keeps=False, lease=LEASE), 1, time.monotonic, fenced=True
    ).is_possible


@pytest.mark.parametrize("fenced", [True, False])
def test_tasks_that_ask_for_the_lease_prepare_their_producers_themselves(owner, fenced):
    senders = HandSenders(keeps=False, lease=LEASE)
    sending = RowSending(owner, senders, 1, time.monotonic, fenced=fenced)
    prepared = sending.prepare()
    sending.begin(None)  # type: ignore[arg-type] # as above

    assert prepared
    assert [task.lease for _slot, task, _future in senders.asked] == [LEASE if fenced else None]


def test_a_failure_frees_the_slot_and_is_told(owner):
    senders = HandSenders()
    sending = RowSending(owner, senders, 1, time.monotonic, fenced=False)
    way = sending.begin(None)  # type: ignore[arg-type] # as above
    senders.asked[0][2].set_exception(SinkError("away"))

    with pytest.raises(SinkError, match="away"):
        way.result()
    assert sending.has_room
    assert len(owner.failures) == 1


def test_who_sends_and_ends_is_a_failure_as_well(owner):
    senders = HandSenders()
    way = RowSending(owner, senders, 1, time.monotonic, fenced=True).begin(None)  # type: ignore[arg-type] # as above
    senders.asked[0][2].set_exception(ExecutorsFailed("a process has ended"))

    with pytest.raises(ExecutorsFailed, match="a process has ended"):
        way.result()
    assert len(owner.failures) == 1


@pytest.mark.parametrize("error", [BatchRefused("too large", where="t"), NotDelivered("silence", topic="t")])
def test_a_run_that_is_stopped_is_neither_sent_again_nor_explained(owner, error):
    senders = HandSenders()
    sending = RowSending(owner, senders, 1, time.monotonic, fenced=False)
    way = sending.begin(None)  # type: ignore[arg-type] # as above
    senders.asked[0][2].set_exception(error)
    way.stop()

    assert len(senders.asked) == 1
    assert (owner.failures, owner.given_up) == ([], 1)
    assert sending.has_room


def test_with_ids_a_producer_that_waits_for_long_is_prepared_again_though_others_send(owner):
    clock = iter([0.0, 0.0, 20.0, 40.0, 40.0, 40.0])
    senders = HandSenders()
    sending = RowSending(owner, senders, 3, lambda: next(clock), fenced=True)
    sending.prepare()
    for _slot, _task, future in senders.asked:
        future.set_result(None)
    sending.prepare()
    ways: list[Any] = [sending.begin(None) for _ in range(2)]  # type: ignore[arg-type] # as above
    for way, (_slot, _task, future) in zip(ways, senders.asked[3:], strict=True):
        future.set_result("emitted")
        way.result()
    used = {slot for slot, _task, _future in senders.asked[3:]}

    assert not sending.prepare()
    assert {slot for slot, _task, _future in senders.asked[5:]} == {0, 1, 2} - used


def test_who_sends_a_run_that_is_stopped_ends_by_itself_or_is_made_to(owner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_STOPPED_S", 0.0)
    monkeypatch.setattr(module, "_ANSWERED_S", 0.01)
    senders = HandSenders()
    sending = RowSending(owner, senders, 1, time.monotonic, fenced=False)
    sending.begin(None).stop()  # type: ignore[arg-type] # as above

    assert (senders.stopped, senders.ended, owner.given_up) == (1, 1, 1)
    assert sending.has_room
