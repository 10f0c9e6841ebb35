"""Which channel takes a signal, and lines appended to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adapters.source.signals.signal_sender import append, send_signal
from engine.config import parse
from engine.errors import ConfigError, SourceError
from engine.model import Channel
from signals.request import SignalRequest, SignalType

if TYPE_CHECKING:
    from pathlib import Path

LEAST = {
    "database.hostname": "db",
    "database.user": "u",
    "database.dbname": "d",
    "topic.prefix": "p",
    "tidemark.sink": "null",
}
LOG = SignalRequest("mine", SignalType.LOG, {"message": "hello"})


def test_a_file_gets_a_line(tmp_path: Path):
    file = tmp_path / "signals"

    said = send_signal(parse({**LEAST, "signal.file": str(file)}), LOG)

    assert said == f"as a line of {file}"
    assert file.read_bytes() == b'{"id":"mine","type":"log","data":{"message":"hello"}}\n'


def test_a_line_without_its_end_is_ended_first(tmp_path: Path):
    file = tmp_path / "signals"
    file.write_text("{half")

    append(file, b"{}")
    append(file, b"{}")

    assert file.read_bytes() == b"{half\n{}\n{}\n"


def test_a_file_that_can_not_be_written_is_an_error(tmp_path: Path):
    with pytest.raises(SourceError, match="not written"):
        append(tmp_path / "missing" / "signals", b"{}")


@pytest.mark.parametrize("channel", [None, Channel.KAFKA])
def test_without_a_channel_nothing_is_sent(channel: Channel | None, tmp_path: Path):
    more = {"signal.file": str(tmp_path / "signals")} if channel else {}

    with pytest.raises(ConfigError, match="no signal channel"):
        send_signal(parse(LEAST | more), LOG, channel)

    assert not (tmp_path / "signals").exists()
