"""A recovery fork beside the one that was streamed: what goes on, what is lost, what can't be compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import DBAPIError

from adapters.sqlserver.commands.state_change import at_position
from adapters.sqlserver.server.catalog import Catalog
from adapters.sqlserver.server.forks import Fork, Forks, SentPosition, check_fork, check_same_fork, saved_fork
from adapters.sqlserver.server.position import LogPosition, lsn_of_decimal, position_of
from adapters.sqlserver.server.questions import Questions
from engine.errors import Loss, OtherHistory, PositionLost, SourceError
from engine.job.saved.state import State
from tests.unit.adapters.sqlserver.changed import lsn

AT_9 = SentPosition("shop", "A", LogPosition(lsn(9)))


class FixedCatalog(Catalog):
    """A catalog that tells this fork."""

    def __init__(self, fork: Fork | None) -> None:
        self.told = fork

    def fork(self) -> Fork | None:
        return self.told


class Asked(Questions):
    """A database on this fork."""

    def __init__(self, fork: Fork | None) -> None:
        self.database, self.catalog = "shop", FixedCatalog(fork)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1))
def test_an_lsn_is_written_in_decimal_digits_as_backups_have_it(file: int, block: int, slot: int):
    decimal = str(int(f"{file}{block:010}{slot:05}"))

    assert lsn_of_decimal(decimal) == f"{file:08x}:{block:08x}:{slot:04x}"


def test_an_lsn_of_a_backup_is_the_one_of_the_log():
    assert lsn_of_decimal("37000000348000162") == "00000025:00000d98:00a2"


@pytest.mark.parametrize("point", [lsn(9), lsn(8), lsn(1)])
def test_a_fork_at_or_before_what_was_sent_has_lost_it(point: str):
    with pytest.raises(OtherHistory, match=f"left recovery fork A at {point}, and changes up to") as caught:
        check_fork(AT_9, Fork("B", "A", point))

    assert caught.value.where == "shop"
    assert caught.value.loss is Loss.RESTORED
    assert "tidemark.recovery=repair" in caught.value.hint


def test_in_an_availability_group_it_was_forced_over():
    with pytest.raises(PositionLost) as caught:
        check_fork(replace(AT_9, grouped=True), Fork("B", "A", lsn(5)))

    assert caught.value.loss is Loss.PROMOTED


def test_a_commit_that_was_sent_in_part_is_compared_by_its_commit():
    inside = replace(AT_9, position=LogPosition(lsn(9), 3, lsn(7), 2))

    with pytest.raises(PositionLost):
        check_fork(inside, Fork("B", "A", lsn(8)))
    assert "its log goes on" in check_fork(inside, Fork("B", "A", lsn(10)))


def test_a_fork_behind_all_that_was_sent_goes_on_and_is_told_of():
    assert check_fork(AT_9, Fork("B", "A", lsn(10))) == (
        f"database 'shop' left recovery fork A at {lsn(10)}, behind all that was sent ({lsn(9)}): its log"
        " goes on"
    )


@pytest.mark.parametrize("now", [Fork("C", "B", lsn(99)), Fork("B"), Fork("B", "A")])
def test_what_the_server_does_not_tell_of_counts_as_lost(now: Fork):
    with pytest.raises(PositionLost, match="does not say where it left recovery fork A"):
        check_fork(AT_9, now)


@pytest.mark.parametrize(
    ("sent", "now"),
    [(AT_9, Fork("A")), (AT_9, Fork("A", "Z", lsn(1))), (AT_9, None), (replace(AT_9, fork=""), Fork("B"))],
)
def test_the_same_fork_and_an_unknown_one_are_silent(sent: SentPosition, now: Fork | None):
    assert check_fork(sent, now) == ""


@given(st.data())
def test_no_history_of_failovers_hides_that_commits_are_lost(data: st.DataObject):
    """A replica or backup that has a prefix of the log goes on in its place, any number of times."""
    log, fork = [f"a{n}" for n in range(data.draw(st.integers(1, 6)))], Fork("0")
    sent = data.draw(st.integers(1, len(log)))
    streamed = log[:sent]
    for number in range(1, data.draw(st.integers(0, 4)) + 1):
        kept = data.draw(st.integers(0, len(log)))
        fork = Fork(str(number), fork.id, lsn(kept + 1))
        log = log[:kept] + [f"{number}-{n}" for n in range(data.draw(st.integers(0, 6)))]
    position = SentPosition("shop", "0", LogPosition(lsn(sent)))

    if log[:sent] != streamed:
        with pytest.raises(PositionLost):
            check_fork(position, fork)
    elif fork.id in {"0", "1"}:
        check_fork(position, fork)  # nothing is lost, and the server tells it


def test_a_database_that_changes_to_another_fork_ends_the_session():
    check_same_fork(Asked(Fork("A", "Z", lsn(1))), Fork("A"))
    check_same_fork(Asked(Fork("B")), None)
    for now in (Fork("B", "A", lsn(99)), None):
        with pytest.raises(SourceError, match="has changed to another recovery fork") as caught:
            check_same_fork(Asked(now), Fork("A"))
        assert not isinstance(caught.value, PositionLost)


def test_a_fork_that_is_not_told_now_stays_the_saved_one():
    forks = Forks()
    forks.told = {"seen": Fork("B"), "unseen": None}
    for name in ("seen", "unseen", "older"):
        forks.stream(name, saved_fork({"databases": {name: {"fork": "A"}}} if name != "older" else {}, name))

    assert forks.streamed == {"seen": "B", "unseen": "A", "older": ""}


def test_a_position_that_somebody_sets_is_one_of_the_present_fork():
    memory = {"names": ["shop"], "databases": {"shop": {"instances": [], "fork": "A"}}}
    state = State(position=position_of([LogPosition(lsn(9))]), memory=memory)

    moved = at_position(cast("Any", None), state, lsn(4))

    assert saved_fork(state.memory, "shop") == "A"
    assert moved.memory["databases"] == {"shop": {"instances": []}}


class Failing:
    """A connection whose server answers with an error of this number, or with these rows."""

    def __init__(self, number: int = 0, rows: list[tuple[Any, ...]] | None = None) -> None:
        self._number, self._rows = number, rows or []

    def exec_driver_sql(self, _text: str, _parameters: object) -> Failing:
        if self._number:
            raise DBAPIError(
                "x", None, Exception("42S02", f"[42S02] refused ({self._number}) (SQLExecDirectW)")
            )
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


@pytest.mark.parametrize("number", [208, 229, 297, 300])
def test_a_server_without_the_view_and_a_login_without_the_right_tell_no_fork(number: int):
    assert Catalog(cast("Any", Failing(number)), "shop").fork() is None


def test_a_fault_is_not_taken_for_an_unknown_fork():
    with pytest.raises(SourceError):
        Catalog(cast("Any", Failing(10054)), "shop").fork()


@pytest.mark.parametrize(
    ("row", "fork"),
    [
        (("A", None, None), Fork("A")),
        (("A", "A", None), Fork("A")),
        (("B", "A", "37000000348000162"), Fork("B", "A", "00000025:00000d98:00a2")),
        ((None, None, None), None),
    ],
)
def test_the_view_s_columns_are_read_as_documented(row: tuple[Any, ...], fork: Fork | None):
    assert Catalog(cast("Any", Failing(rows=[row])), "shop").fork() == fork
    assert Catalog(cast("Any", Failing()), "shop").fork() is None
