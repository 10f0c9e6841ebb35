"""What must stand before the log is read: the right database, and a slot that reaches back."""

from __future__ import annotations

import psycopg
import pytest

from adapters.postgres.log.slots.slot import Slot, check_slot
from adapters.postgres.server.connection import Identity, Server, check_identity
from adapters.postgres.server.failures import source_errors
from engine.config.text.references import resolve
from engine.errors import ConfigError, LoginRefused, PositionLost, SourceError, StateError
from engine.model import Position

THERE = Identity("7001", 2, "app")
HERE = {"system": "7001", "timeline": "1", "database": "app"}


@pytest.mark.parametrize("confirmed", [0, 999, 1000])
@pytest.mark.parametrize("sequence", [0, 5])
def test_a_slot_that_reaches_back_serves(confirmed, sequence):
    slot = Slot(confirmed)

    assert check_slot(slot, "s", Position((1000, sequence))) is slot


@pytest.mark.parametrize(
    ("slot", "said"),
    [
        (Slot(1001), "begins at 0/3E9, past the saved position 0/3E8; changes"),
        (None, "does not exist; it must hold the saved position 0/3E8; set slot.name"),
    ],
)
def test_a_slot_that_was_moved_on_or_dropped_is_a_lost_position(slot, said):
    with pytest.raises(PositionLost, match=said) as caught:
        check_slot(slot, "s", Position((1000, 0)))

    assert "take snapshots again" in caught.value.hint


@pytest.mark.parametrize("saved", [{}, HERE, {**HERE, "timeline": "2"}])
def test_a_state_of_this_database_is_taken(saved):
    check_identity(saved, THERE)


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        ({**HERE, "system": "7002"}, "system '7002', now '7001'"),
        ({**HERE, "system": "7002", "database": "other"}, "system '7002', now '7001', database 'other'"),
    ],
)
def test_a_state_of_another_database_is_refused(saved, said):
    with pytest.raises(StateError, match=said):
        check_identity(saved, THERE)


def test_a_driver_s_error_is_ours_with_its_cause():
    with (
        pytest.raises(SourceError, match="postgresql: measuring failed: no such server") as caught,
        source_errors("measuring"),
    ):
        raise psycopg.OperationalError("no such server\n")

    assert isinstance(caught.value.__cause__, psycopg.OperationalError)


def test_what_the_driver_says_of_values_is_not_repeated():
    with pytest.raises(SourceError) as caught, source_errors("measuring"):
        raise psycopg.DataError("can't parse int 'a-row-s-value'")

    assert str(caught.value) == "postgresql: measuring failed: DataError"


def test_other_errors_pass():
    with pytest.raises(KeyError), source_errors("measuring"):
        raise KeyError("ours")


def test_parameters_are_quoted_for_libpq():
    server = Server({"host": "db", "password": "it's \\ a secret"})

    assert server.conninfo == r"host=db password='it\'s \\ a secret' application_name=tidemark"


def test_a_login_is_refused_for_good_unless_it_has_served_and_may_change(tmp_path):
    (tmp_path / "password").write_text("first")
    found, _unresolved = resolve({"password": f"${{dir:{tmp_path}:password}}"}, {})
    server = Server({"host": str(tmp_path), "password": found["password"]})
    fixed = Server({"host": str(tmp_path), "password": "first"})
    with pytest.raises(ConfigError), server.admission():
        raise LoginRefused("refused")

    with server.admission():
        (tmp_path / "password").write_text("second")

    assert "password=second" in server.conninfo
    assert "password=second" in server.log_conninfo
    with pytest.raises(SourceError, match="refused"), server.admission():
        raise LoginRefused("refused")
    with pytest.raises(ConfigError), fixed.admission():
        raise LoginRefused("refused")
