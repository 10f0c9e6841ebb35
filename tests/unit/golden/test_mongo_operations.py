"""The steps of recorded MongoDB cases, on a client that notes what it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from tests.golden.mongo_operations import Operations


class Session:
    def __init__(self, client: Client, number: int) -> None:
        self.client, self.name, self.in_transaction = client, f"s{number}", False

    def start_transaction(self) -> None:
        self.in_transaction = True
        self.client.said.append(f"{self.name} start")

    def commit_transaction(self) -> None:
        self.in_transaction = False
        if self.client.refuses:
            raise OperationFailure("write conflict")
        self.client.said.append(f"{self.name} commit")

    def abort_transaction(self) -> None:
        self.in_transaction = False
        self.client.said.append(f"{self.name} abort")


class Client:
    def __init__(self, *, refuses: bool = False) -> None:
        self.said: list[str] = []
        self.refuses, self._sessions = refuses, 0

    def start_session(self) -> Session:
        self._sessions += 1
        return Session(self, self._sessions)

    def __getitem__(self, _name: str) -> Client:
        return self

    def command(self, given: dict[str, Any], *, session: Session | None, check: bool) -> dict[str, Any]:
        assert not check
        self.said.append(f"{session.name if session else '-'} {next(iter(given))}")
        return {"ok": 1.0}


def said(*steps: dict[str, Any], client: Client | None = None) -> list[str]:
    client = client or Client()
    operations: Any = Operations
    operations(client, lambda: None, client.said.append).run(json.dumps(steps))
    return client.said


def ping(**more: Any) -> dict[str, Any]:
    return {"db": "d", "cmd": {"ping": 1}, **more}


def test_named_sessions_have_a_transaction_each_over_several_steps() -> None:
    found = said(
        {"session": "a", "start": True},
        ping(session="a"),
        ping(session="b"),
        ping(),
        {"session": "a", "commit": True},
        {"session": "b", "abort": True},
        ping(session="a"),
    )

    first = ["s1 start", "s1 ping", "s2 start", "s2 ping", "- ping", "s1 commit", "s2 abort"]
    assert found == [*first, "s1 start", "s1 ping"]


def test_an_end_that_fails_is_reported_as_other_failures_are() -> None:
    steps = [ping(session="a"), {"session": "a", "commit": True}, ping()]

    assert said(*steps, client=Client(refuses=True)) == ["s1 start", "s1 ping", "write conflict", "- ping"]


def test_a_step_that_no_case_has_is_named() -> None:
    with pytest.raises(ValueError, match="no operation of a case: jump, high"):
        said({"jump": 1, "high": 2})
