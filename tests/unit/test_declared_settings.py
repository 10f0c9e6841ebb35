"""`tidemark check` calls a setting applied where the source, the sink or the engine reads it, and only there.

Each property is given to the parser, which shows the fields of the settings that it changes. The text of what
a job imports shows whether anything reads these fields.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from adapters.postgres.properties import TIDEMARK
from adapters.postgres.settings import PostgresSettings
from engine.config import registry
from engine.config.catalogue import catalogue_of, sink_of
from engine.config.properties.row import Kind
from engine.config.properties.values import Values
from engine.config.registry import BUILT_IN
from engine.events.settings import EventSettings
from tests.setting_samples import SINKS, SOURCES, configuration, effects, effects_of_all
from tests.settings_readers import JobModules, modules_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.setting_samples import ChangedField

UNCHANGING: Final = {
    "connector.class": "it chooses the source",
    "tidemark.sink": "it chooses the sink",
    "plugin.name": "it has one value",
}
"""Applied properties that change no field, and why."""
UNDECLARED: Final = {
    **dict.fromkeys(
        ("database.hostname", "database.port", "database.dbname"),
        "the sink jdbc looks whether it would write into the database that is read",
    ),
    "heartbeat.action.query": "the engine's heartbeat is the same for all sources, and MongoDB has no SQL",
}
"""Properties that are asked for although not every source has them, and why."""
JOBS: Final = [
    *((source, "files") for source in SOURCES),
    *(("mongodb", sink) for sink in SINKS if sink != "files"),
]
"""Each source, and each sink."""


class Look(NamedTuple):
    """What each applied property changes, by its name, and what was read that is not declared."""

    effects: dict[str, set[ChangedField] | None]
    undeclared: set[str]


@cache
def look(source: str, sink: str) -> Look:
    """With the sink files at all properties, with another sink at its own."""
    given, asked, undeclared = configuration(source, sink), set[str](), set[str]()
    catalogue, declared = catalogue_of(given), sink_of(given)
    assert declared is not None
    rows = catalogue.rows if sink == "files" else declared.rows
    with pytest.MonkeyPatch.context() as patch:
        for method in ("get", "group", "need", "sure"):
            patch.setattr(Values, method, noting(getattr(Values, method), undeclared))
        found = {row.name: effects(given, row, asked) for row in rows if row.kind is Kind.APPLIED}
    unknown = {name for name in asked if catalogue.find(name) is None}
    return Look(found, unknown | undeclared)


def noting(method: Callable[..., Any], undeclared: set[str]) -> Callable[..., Any]:
    """A method of `Values` that notes names which are not declared, or declared to have no effect."""

    def noted(self: Values, *given: Any) -> Any:
        for name in given if method.__name__ == "sure" else given[:1]:
            row = self.catalogue.find(name)
            if row is None or row.kind in {Kind.IGNORED, Kind.RENAMED, Kind.LATER}:
                undeclared.add(name)
        return method(self, *given)

    return noted


@cache
def reads(source: str, sink: str) -> Callable[[type, str], set[str]]:
    """Who reads a field in a job of this source and this sink, or in the commands beside it."""
    declared = sink_of({"tidemark.sink": sink})
    assert declared is not None
    roots = {"adapters.cli.app", str(declared.make), *modules_in(f"adapters/{source}")}
    others = {f"adapters.{name}" for name in SOURCES if name != source}
    return cache(JobModules(frozenset(roots), frozenset(others)).readers)


def test_every_source_and_sink_is_looked_at():
    assert set(BUILT_IN[registry.SINKS]) == set(SINKS)
    assert len(BUILT_IN[registry.SOURCES]) == len(SOURCES)


@pytest.mark.parametrize(("source", "sink"), JOBS)
def test_what_is_applied_changes_a_field_that_is_read(source: str, sink: str):
    unread = {
        name: fields
        for name, fields in look(source, sink).effects.items()
        if not any(reads(source, sink)(*field) for field in fields or ())
    }

    assert {name: fields for name, fields in unread.items() if name not in UNCHANGING} == {}


@pytest.mark.parametrize(("source", "sink"), JOBS)
def test_what_has_no_effect_changes_nothing(source: str, sink: str):
    given = configuration(source, sink)
    idle = [row for row in catalogue_of(given).rows if row.kind in {Kind.IGNORED, Kind.LATER}]

    assert len(idle) > 100
    assert effects_of_all(given, idle) == set()


@pytest.mark.parametrize(("source", "sink"), JOBS)
def test_what_is_read_is_declared(source: str, sink: str):
    assert look(source, sink).undeclared - set(UNDECLARED) == set()


def test_no_exception_is_out_of_date():
    looks = [look(*job) for job in JOBS]
    idle = {name for found in looks for name, fields in found.effects.items() if not fields}

    assert set(UNCHANGING) <= idle
    assert set(UNDECLARED) <= set[str]().union(*(found.undeclared for found in looks))


@pytest.mark.parametrize("source", ["mongodb", "sqlserver"])
def test_what_only_postgres_reads_has_no_effect_elsewhere(source: str):
    told = {row.name: row.kind for row in catalogue_of(configuration(source, "files")).rows}

    assert {told[row.name] for row in TIDEMARK} == {Kind.IGNORED}


def test_a_function_that_no_module_of_the_job_mentions_reads_nothing():
    assert reads("sqlserver", "files")(EventSettings, "sanitize_fields") == {"engine.events.names"}
    assert reads("mongodb", "files")(EventSettings, "sanitize_fields") == set()
    assert reads("mongodb", "files")(PostgresSettings, "wal_warn_bytes") == set()
