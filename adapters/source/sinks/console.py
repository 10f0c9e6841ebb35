"""Puts the sink `console` into a job."""

from __future__ import annotations

from typing import Final

from adapters.sinks.console import ConsoleSink
from adapters.source.sinks.wiring import SinkWiring


def _make(*_given: object) -> ConsoleSink:
    return ConsoleSink()


WIRING: Final = SinkWiring(_make)
