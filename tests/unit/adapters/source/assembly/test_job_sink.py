"""Each of our own sinks tells how it is put into a job, and only the one that is asked for is loaded."""

from __future__ import annotations

import inspect

import pytest

from adapters.source.assembly.job_sink import wiring_of
from engine.config.catalogue import sink_of
from engine.config.registry import BUILT_IN, SINKS
from engine.config.sinks.settings import SinkSettings

GIVEN = 5
"""The settings, how the job stages, what it has leased, the session, and the clock."""


@pytest.mark.parametrize("kind", BUILT_IN[SINKS])
def test_the_wiring_of_a_sink_is_there(kind: str):
    declared = sink_of({"tidemark.sink": kind})
    assert declared is not None
    make = wiring_of(SinkSettings(kind, None, declared.make)).make

    parameters = inspect.signature(make).parameters.values()
    assert len(parameters) == GIVEN or [parameter.kind for parameter in parameters] == [
        inspect.Parameter.VAR_POSITIONAL
    ]
