"""What a job compares its collections with is up to its sink, one of another package included."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from adapters.sinks.null import NullSink
from adapters.source.assembly.verifying import Verifiable, verification_of
from adapters.spark.executors import ThreadExecutors
from adapters.system import system_clock
from adapters.verify.events.copied_events import Traits
from adapters.verify.kept_events import NOT_SHARED, CopyTools
from engine.config import parse
from engine.config.sinks.settings import SinkSettings
from tests.unit.engine.config.least import POSTGRES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


KEPT: Any = SimpleNamespace()
NOTHING: Mapping[str, str] = {}


class Keeps:
    """A sink of another package whose content can be compared, if tasks see the driver's files."""

    tools: CopyTools
    traits: Traits

    def copy(self, tools: CopyTools, traits: Traits) -> Any:
        """Its content."""
        self.tools, self.traits = tools, traits
        return KEPT if tools.shared_disk else NOT_SHARED


def compared(
    sink: Any, tmp_path: Path, *, shared_disk: bool = True, more: Mapping[str, str] = NOTHING
) -> Any:
    """What a job with this sink compares with."""
    tools = CopyTools(
        ThreadExecutors(1), str(tmp_path), f"{tmp_path}/verified", system_clock(), shared_disk, "shop"
    )
    verifiable = Verifiable(Traits(looked_up=True), deletes=lambda _collection: KEPT)
    return verification_of(parse({**POSTGRES, **more}), sink, tools, verifiable).copies


def test_a_sink_that_keeps_a_copy_is_given_what_a_copy_needs(tmp_path: Path):
    sink = Keeps()

    assert compared(sink, tmp_path).own is KEPT
    assert sink.traits == Traits(looked_up=True)
    assert (sink.tools.work, sink.tools.database) == (f"{tmp_path}/compared", "shop")


def test_what_a_sink_says_against_it_is_the_reason(tmp_path: Path):
    copies = compared(Keeps(), tmp_path, shared_disk=False)

    assert (copies.own, copies.why) == (None, NOT_SHARED)


def test_a_sink_that_keeps_nothing_has_no_copy(tmp_path: Path):
    assert compared(NullSink(), tmp_path).why.startswith(
        "only the sinks files, kafka, jdbc, delta and iceberg"
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"skipped.operations": "d"}, "skipped.operations leaves changes out: d"),
        ({"tidemark.keep.debezium.faults": "all"}, "tidemark.keep.debezium.faults makes streamed rows"),
    ],
)
def test_settings_may_speak_against_it(tmp_path: Path, more: dict[str, str], why: str):
    assert compared(Keeps(), tmp_path, more=more).why.startswith(why)


def test_a_sink_names_the_datasets_that_it_writes_or_none():
    named = SimpleNamespace(datasets=lambda topics: [("shelf", topic) for topic in topics])

    assert SinkSettings("shelf", named, "made").datasets(["a", "b"]) == [("shelf", "a"), ("shelf", "b")]
    assert SinkSettings("shelf", None, "made").datasets(["a"]) == []
