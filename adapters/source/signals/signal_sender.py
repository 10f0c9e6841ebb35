"""Sends a signal through a channel of the configuration: what the desk of its job will receive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from adapters.source.commands import offered
from engine.errors import ConfigError, SourceError
from engine.model import Channel

if TYPE_CHECKING:
    from engine.config.settings import Settings
    from engine.model import CollectionId, SignalRow
    from signals.request import SignalRequest

PREFERRED: Final = (Channel.KAFKA, Channel.SOURCE, Channel.FILE)
"""The signal table's writer needs a right that the job itself need not have; the file is only local."""


class WriteSignal(Protocol):
    """Inserts a row into a source's signal table."""

    def __call__(self, settings: Settings, table: CollectionId, row: SignalRow) -> None:
        """Insert the row. Raises SourceError or ConfigError."""


def send_signal(settings: Settings, request: SignalRequest, channel: Channel | None = None) -> str:
    """Send a signal, by the preferred channel if none is given; returns where it went, in words.

    Raises ConfigError if there is no such channel, SourceError if it does not take the signal.
    """
    match _chosen(settings, channel):
        case Channel.KAFKA:
            return f"as the record {_send_record(settings, request)}"
        case Channel.SOURCE:
            return f"as a row of {_write_row(settings, request)}"
        case Channel.FILE:
            return f"as a line of {append(Path(settings.signals.file), request.message)}"
        case Channel.IN_PROCESS | Channel.CUSTOM:
            raise ConfigError("signals can't be sent this way from here", hint="use another channel")


def _chosen(settings: Settings, channel: Channel | None) -> Channel:
    """The channel to use. The signal table counts only if there is one."""
    usable = set(settings.signals.channels)
    if settings.signals.collection is None:
        usable.discard(Channel.SOURCE)
    found = [each for each in PREFERRED if each in usable and channel in {None, each}]
    if found:
        return found[0]
    which = f"no signal channel {channel.value!r}" if channel else "no signal channel"
    raise ConfigError(
        f"the configuration has {which}",
        hint="set signal.data.collection, signal.kafka.topic or signal.file, and restart the job",
    )


def _send_record(settings: Settings, request: SignalRequest) -> str:
    from adapters.kafka.signal_producer import send  # noqa: PLC0415  librdkafka is large

    return send(settings.signals.topic, settings.events.topic_prefix, request.message)


def _write_row(settings: Settings, request: SignalRequest) -> str:
    table = settings.signals.collection
    writer = offered(settings, "signal_writer")
    if table is None or writer is None:
        raise ConfigError(
            "signals can't be written to this source's signal table", hint="use another channel"
        )
    cast("WriteSignal", writer.write_signal)(settings, table, request.row)
    return str(table)


def append(path: Path, line: bytes) -> str:
    """Append a line by one write, so that lines of several writers never mix; returns the path."""
    try:
        with path.open("ab+", buffering=0) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 1))
            unfinished = size > 0 and file.read(1) != b"\n"
            file.write((b"\n" if unfinished else b"") + line + b"\n")
    except OSError as error:
        raise SourceError(f"the signal was not written: {error.strerror}", where=str(path)) from error
    return str(path)
