"""How long a server may be silent before its connection is given up."""

from __future__ import annotations

import pytest

from adapters.postgres.log.stream.server_silence import ServerSilence
from engine.errors import SourceError


def test_a_silence_is_measured_from_the_last_answer():
    silence = ServerSilence(10.0, 100.0, pytest.fail)
    silence.heard_s = 103.0

    assert silence.check(105.0) == 2.0


def test_a_long_silence_is_told_once_and_again_after_the_server_has_answered(caplog):
    silence = ServerSilence(10.0, 0.0, pytest.fail)
    for now_s in (6.0, 7.0, 8.0):
        silence.check(now_s)
    told = len(caplog.records)
    silence.heard_s = 8.0
    silence.check(9.0)
    silence.check(14.0)

    assert (told, len(caplog.records)) == (1, 2)


def test_a_connection_that_is_silent_for_too_long_is_given_up():
    given_up: list[bool] = []
    silence = ServerSilence(10.0, 0.0, lambda: given_up.append(True))

    with pytest.raises(SourceError, match="replication connection"):
        silence.check(10.5)
    assert given_up == [True]


def test_no_limit_waits_for_ever(caplog):
    assert ServerSilence(0.0, 0.0, pytest.fail).check(1e6) == 1e6
    assert not caplog.records
