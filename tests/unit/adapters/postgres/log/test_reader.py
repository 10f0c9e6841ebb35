"""How the log is asked for, and what its failures mean; reading it is a matter of a real server."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from adapters.postgres.log.assembler import Cut
from adapters.postgres.log.reader import PostgresLog, SessionTools
from adapters.postgres.log.span import Span
from adapters.postgres.log.stream.subscription import Start, Subscription
from adapters.postgres.log.timeline import SpanPart, TransactionContext
from adapters.postgres.server.replication import log_error
from adapters.system import system_clock
from engine.errors import PositionLost, SourceError
from engine.model import Position

START = 'START_REPLICATION SLOT "slot" LOGICAL 16/B374D848 '


@pytest.mark.parametrize(
    ("publication", "options", "expected"),
    [
        ("pub", (), """("proto_version" '1', "publication_names" '"pub"', "messages" 'true')"""),
        (
            "it's",
            (("binary", "off"),),
            """("proto_version" '1', "publication_names" '"it''s"', "messages" 'true', "binary" 'off')""",
        ),
    ],
)
def test_replication_starts_at_a_place_with_quoted_options(publication, options, expected):
    assert Subscription("slot", publication, options).command(0x16B374D848, 130_000) == START + expected


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        (130_020, True, 1),
        (140_000, True, 2),
        (150_004, True, 3),
        (160_000, True, 4),
        (180_000, True, 4),
        (180_000, False, 1),
    ],
)
def test_open_transactions_are_asked_of_a_server_that_can_send_them(version, wanted, expected):
    command = Subscription("slot", "pub", streaming=wanted).command(0, version)

    assert ("\"streaming\" 'on'" in command) == (expected > 1)
    assert f"\"proto_version\" '{expected}'" in command


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("ERROR:  requested WAL segment 000000010000000000000001 has already been removed", PositionLost),
        ('ERROR:  can no longer get changes from replication slot "s"', PositionLost),
        ('ERROR:  replication slot "s" has been invalidated', PositionLost),
        ("FATAL:  terminating connection due to administrator command", SourceError),
        ("connection closed", SourceError),
        ('ERROR:  replication slot "s" is active for PID 7', SourceError),
    ],
)
def test_only_a_log_that_is_gone_is_a_lost_position(said, expected):
    error = log_error(said)

    assert type(error) is expected
    assert said in str(error)


def span(*entries: int) -> Span:
    part = SpanPart(pa.array([], pa.large_binary()), TransactionContext())
    cuts = tuple(Cut(part, {}, count) for count in entries)
    return Span(Position((1, 0)), Position((2, 0)), cuts, 0.0, None)


@pytest.mark.parametrize(
    ("one", "entries", "silent"),
    [
        pytest.param(span(), 0, True, id="the position moved"),
        pytest.param(span(0), 0, False, id="an empty transaction"),
        pytest.param(span(3, 4), 7, False, id="entries"),
    ],
)
def test_a_span_tells_entries_from_silence(one, entries, silent):
    assert (one.entries, one.silent) == (entries, silent)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_log_that_can_not_be_opened_leaves_no_file_open(tmp_path):
    before = open_files()
    for _ in range(5):
        with pytest.raises(SourceError):
            PostgresLog(
                "host=127.0.0.1 port=1 connect_timeout=2",
                subscription=Subscription("slot", "publication"),
                start=Start(Position((0, 0))),
                tools=SessionTools(system_clock(), tmp_path),
            )

    assert open_files() == before
