"""Tasks that ask the driver for its lease, over a socket of this machine."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from adapters.kafka.beside.lease_answers import AskForLease, LeaseAnswers
from engine.errors import ExecutorsFailed, LeaseLost

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"


class HandLease:
    """A lease that a test takes away."""

    def __init__(self) -> None:
        self.lost = False

    def check(self) -> None:
        if self.lost:
            raise LeaseLost("taken over")

    confirm = check


@pytest.fixture
def lease() -> HandLease:
    return HandLease()


@pytest.fixture
def ask(lease: HandLease) -> Iterator[AskForLease]:
    with closing(LeaseAnswers(lease, HOST, HOST)) as answers:
        yield answers.ask


def test_a_job_with_its_lease_confirms_it_as_often_as_it_is_asked(ask):
    for _ in range(3):
        ask.confirm()


def test_a_job_without_its_lease_confirms_nothing(ask, lease):
    lease.lost = True

    with pytest.raises(ExecutorsFailed, match="does not confirm that it has its lease"):
        ask.confirm()


def test_somebody_else_on_the_port_confirms_nothing(ask):
    with pytest.raises(ExecutorsFailed, match="does not confirm"):
        replace(ask, key=b"another").confirm()


def test_who_says_nothing_holds_nobody_up(ask):
    with socket.create_connection((ask.host, ask.port)):
        ask.confirm()


def test_a_frozen_driver_is_not_waited_for_long():
    with socket.create_server((HOST, 0)) as frozen:
        asking = AskForLease(HOST, frozen.getsockname()[1], b"", patience_s=0.05)

        with pytest.raises(ExecutorsFailed, match="does not reach the driver"):
            asking.confirm()


def test_a_driver_out_of_reach_is_told_with_its_address(lease):
    answers = LeaseAnswers(lease, HOST, HOST)
    answers.close()

    with pytest.raises(ExecutorsFailed, match=rf"{HOST}:{answers.ask.port}: an executor does not reach"):
        answers.ask.confirm()


def test_the_key_is_not_shown(ask):
    assert "key" not in repr(ask)
