"""Sinks with a client or table format of their own are made by modules that are loaded when needed."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from adapters.source.assembly.job_sink import MODULES
from engine.config.sinks.settings import SinkKind

GIVEN = 5
"""The settings, how the job stages, what it has leased, the session, and the clock."""


@pytest.mark.parametrize("kind", MODULES)
def test_the_module_that_makes_a_sink_is_there(kind: SinkKind):
    make = import_module(MODULES[kind]).make

    assert len(inspect.signature(make).parameters) == GIVEN
