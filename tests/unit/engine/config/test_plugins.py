"""Sources and sinks of other packages in a configuration."""

from __future__ import annotations

import pytest

from adapters.source.assembly.job_sink import wiring_of
from engine.config import explain, parse
from engine.config.properties.row import Kind
from engine.config.registry import BUILT_IN, SINKS, SOURCES
from engine.errors import ConfigError
from engine.model import Channel
from tests.toys.memory import MemorySettings
from tests.toys.shelf import ShelfSettings

LEAST = {
    "connector.class": "memory",
    "topic.prefix": "tm",
    "memory.database": "shop",
    "tidemark.sink": "shelf",
    "shelf.name": "top",
}


@pytest.mark.usefixtures("toys")
def test_a_source_and_a_sink_of_another_package_read_settings_of_their_own():
    settings = parse({**LEAST, "memory.span.rows": "7", "incremental.snapshot.chunk.size": "5"})

    assert settings.source == MemorySettings("shop", 7)
    assert settings.runs == "tests.toys.memory"
    assert settings.sink.kind == "shelf"
    assert settings.sink.own == ShelfSettings("top")
    assert settings.snapshot.chunk_size == 5


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"memory.span.rows": "many"}, "'memory.span.rows' is 'many'; it must be a whole number"),
        ({"memory.databse": "x"}, "no property 'memory.databse'; did you mean 'memory.database'?"),
        ({"memory.database": "disk"}, "'memory.database' is 'disk', which is no memory"),
        ({"slot.name": "x"}, "no property 'slot.name'"),
        ({"shelf.nmae": "x"}, "no property 'shelf.nmae'; did you mean 'shelf.name'?"),
    ],
)
def test_their_settings_are_checked_like_any_others(changed: dict[str, str], said: str):
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        parse(LEAST | changed)


@pytest.mark.usefixtures("toys")
def test_a_mandatory_setting_of_theirs_is_missed():
    given = {name: text for name, text in LEAST.items() if name != "shelf.name"}

    with pytest.raises(ConfigError, match=r"missing 'shelf.name': the shelf"):
        parse(given)


@pytest.mark.usefixtures("toys")
def test_a_signal_channel_brings_its_own_settings():
    settings = parse(LEAST | {"signal.enabled.channels": "file, in-process, Mailbox", "mailbox.name": "b"})

    assert settings.signals.channels == {Channel.FILE, Channel.IN_PROCESS}
    assert settings.signals.custom["mailbox"].settings == "b"
    with pytest.raises(ConfigError, match=r"missing 'mailbox.name': the box"):
        parse(LEAST | {"signal.enabled.channels": "mailbox"})
    with pytest.raises(
        ConfigError, match=r"'signal.enabled.channels' .* must be a list of source, kafka, file"
    ):
        parse(LEAST | {"signal.enabled.channels": "postbox"})


@pytest.mark.usefixtures("toys")
def test_their_settings_are_explained():
    explained = {row.name: row for row in explain(LEAST)}

    assert explained["memory.database"].kind is Kind.APPLIED
    assert explained["shelf.name"].text == "the shelf"


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("broken", "the entry point 'broken' of the group tidemark.sources can't be loaded"),
        ("wrong", "the entry point 'wrong' of the group tidemark.sources is no Connector"),
        ("other", "or 'memory'|, 'memory'"),
    ],
)
def test_a_connector_that_is_not_there_is_told(named: str, said: str):
    with pytest.raises(ConfigError, match=said):
        parse(LEAST | {"connector.class": named})


def test_without_the_package_its_source_and_sink_are_unknown():
    with pytest.raises(ConfigError, match=r"'connector.class' is 'memory'"):
        parse(LEAST)
    with pytest.raises(ConfigError, match=r"'tidemark.sink' is 'shelf'; it must be one of files, console"):
        parse({"database.hostname": "h", "tidemark.sink": "shelf"})


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("kind", BUILT_IN[SINKS])
def test_another_package_can_t_take_a_built_in_name(kind: str):
    with pytest.raises(ConfigError) as caught:
        parse({"connector.class": "memory", "tidemark.sink": kind, "shelf.name": "x"})
    assert "no property 'shelf.name'" in str(caught.value)


def test_a_sink_or_a_source_of_ours_needs_a_line_in_the_registry_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(BUILT_IN[SINKS], "shelf", "tests.toys.shelf:SINK")
    monkeypatch.setitem(BUILT_IN[SOURCES], "memory", "tests.toys.memory:CONNECTOR")
    settings = parse({**LEAST, "tidemark.sink": "Shelf"})

    assert (settings.runs, settings.sink.kind) == ("tests.toys.memory", "shelf")
    assert settings.sink.own == ShelfSettings("top")
    assert wiring_of(settings.sink).owned(settings.sink.own) == ""
    told = {row.name: row for row in explain({**LEAST, "tidemark.sink": "console"})}["shelf.name"]
    assert (told.kind, told.text) == (Kind.IGNORED, "tidemark.sink is not shelf")


@pytest.mark.parametrize(
    ("name", "sinks"),
    [
        ("tidemark.sink.kafka.fencing", "not kafka"),
        ("tidemark.sink.lake.mode", "neither delta nor iceberg"),
        ("tidemark.sink.topic.recreated", "none of kafka, jdbc, delta, iceberg"),
    ],
)
def test_what_only_other_sinks_read_is_told_to_have_no_effect(name: str, sinks: str):
    given = {"database.hostname": "h", "tidemark.sink": "console", name: "none"}

    (told,) = (row for row in explain(given) if row.name == name)
    assert (told.kind, told.text) == (Kind.IGNORED, f"tidemark.sink is {sinks}")
