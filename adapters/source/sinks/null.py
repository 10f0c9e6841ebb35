"""Puts the sink `null` into a job."""

from __future__ import annotations

from typing import Final

from adapters.sinks.null import NullSink
from adapters.source.sinks.wiring import SinkWiring


def _make(*_given: object) -> NullSink:
    return NullSink()


WIRING: Final = SinkWiring(_make, stores=False)
