"""The cases of the signal tests in Debezium's core, by their names there.

SignalProcessorTest, SourceSignalChannelTest, FileSignalChannelTest, KafkaSignalChannelTest,
SnapshotSignalArrivedTest, SnapshotSignalDataCollectionsTest. Where ours differs on purpose, the test says so.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from engine.config import parse
from engine.errors import ConfigError
from engine.model import CollectionId, ExecuteSnapshot, LogMessage, SignalRow, StopSnapshot, Target
from signals.actions import ReceivedSignal, SignalAction
from signals.answers import Answer
from signals.channels.file import FileChannel
from signals.desk import Desk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from engine.model import Command

TABLES = [CollectionId(("schema", f"table{number}")) for number in (1, 2)]


def obeyed(
    type_: str | None, data: str | None, actions: Mapping[str, SignalAction] | None = None, **more: Any
) -> tuple[Sequence[Command], list[Answer]]:
    """The commands that a row of the signal table becomes, and the answers."""
    answers: list[Answer] = []
    desk = Desk(answers.append, monotonic=time.monotonic, actions=actions or {}, **more)
    commands = desk.commands([SignalRow("LSN=12345", "log1", type_, data)], lambda: TABLES)
    desk.tell(1)
    return commands, answers


def refused(type_: str | None, data: str | None) -> str:
    """Why a signal is rejected, which asks for nothing then."""
    commands, (answer,) = obeyed(type_, data)
    assert (commands, answer.outcome) == ([], "rejected")
    return answer.text


class TestSignalProcessor:
    def test_should_execute_log(self):
        commands, (answer,) = obeyed("log", '{"message": "signallog {}"}')

        assert commands == [LogMessage("LSN=12345", "signallog LSN=12345")]
        assert (answer.id, answer.outcome, answer.text) == ("log1", "accepted", "signallog LSN=12345")

    def test_only_enabled_connector_should_execute(self):
        assert obeyed("log", '{"message": "signallog {}"}', reads_table=False) == ([], [])

    def test_should_ignore_invalid_signal_type(self):
        assert "no signal type 'invalidType'" in refused("invalidType", '{"message": "signallog {}"}')

    def test_should_ignore_unparseable_data(self):
        assert "no valid JSON" in refused("log", '{"message: "signallog"}')

    def test_should_register_additional_action(self):
        called: list[int] = []

        def custom(signal: ReceivedSignal) -> str:
            called.append(signal.data["v"])
            return "done"

        _commands, (answer,) = obeyed("custom", '{"v": 5}', {"custom": SignalAction(custom)})

        assert (called, answer.text) == ([5], "done")


class TestSourceSignalChannel:
    def test_should_execute_from_envelope(self):
        received: list[ReceivedSignal] = []

        def custom(signal: ReceivedSignal) -> str:
            received.append(signal)
            return "done"

        obeyed("custom", '{"v": 5}', {"custom": SignalAction(custom)})

        assert [(signal.id, signal.type, signal.data) for signal in received] == [
            ("log1", "custom", {"v": 5})
        ]

    def test_should_ignore_invalid_envelope(self):
        """A table without the third column does not start a job; a row without a value there is answered."""
        assert "no signal type 'custom'" in refused("custom", None)


def test_should_load_file_signals_test(tmp_path: Path):
    """Blank lines are passed over, and the file is never emptied: its place is saved instead."""
    path = tmp_path / "signals"
    data = '{"data-collections":["schema.table1"]}'
    lines = [f'{{"id":"{n}","type":"execute-snapshot","data":{data}}}\n' for n in (1, 2)]
    path.write_text(f"{lines[0]}\n  \n{lines[1]}", "utf-8")
    channel = FileChannel(path)
    channel.resume({})

    received = [*channel.receive()]
    assert [b"schema.table1" in message.text for message in received if message.text.strip()] == [True, True]
    assert [*channel.receive()] == []


def test_should_fail_with_invalid_configuration_message_and_log_validation_failures():
    given = {
        "database.hostname": "localhost",
        "database.user": "me",
        "database.password": "secret",
        "database.dbname": "d",
        "topic.prefix": "tm",
        "plugin.name": "pgoutput",
        "signal.enabled.channels": "kafka",
        "signal.kafka.topic": "abc",
    }
    with pytest.raises(ConfigError, match=r"signal\.kafka\.bootstrap\.servers"):
        parse(given)


class TestSnapshotSignalArrived:
    def test_stop_snapshot_should_not_stop_anything_for_malformed_data_collections(self):
        text = refused("stop-snapshot", '{"data-collections": [["schema.table1"]]}')

        assert text == "entry 1 of 'data-collections' must be a string, not an array"

    @pytest.mark.parametrize("data", ["{}", None])
    def test_stop_snapshot_should_stop_all_for_missing_data_collections(self, data: str | None):
        assert obeyed("stop-snapshot", data)[0] == [StopSnapshot("LSN=12345", None)]

    def test_stop_snapshot_should_stop_specific_collections(self):
        commands, _answers = obeyed("stop-snapshot", '{"data-collections": ["schema.table1"]}')

        assert commands == [StopSnapshot("LSN=12345", (TABLES[0],))]


class TestSnapshotSignalDataCollections:
    def test_execute_snapshot_should_parse_string_data_collections(self):
        commands, _answers = obeyed(
            "execute-snapshot", '{"data-collections": ["schema.table1", "schema.table2"]}'
        )

        assert commands == [ExecuteSnapshot("LSN=12345", tuple(map(Target, TABLES)), "log1")]

    def test_execute_snapshot_should_be_invalid_for_nested_array_data_collections(self):
        text = refused("execute-snapshot", '{"data-collections": [["schema.table1", "schema.table2"]]}')

        assert text == "entry 1 of 'data-collections' must be a string, not an array"

    def test_execute_snapshot_should_be_invalid_when_any_data_collection_is_not_a_string(self):
        text = refused("execute-snapshot", '{"data-collections": ["schema.table1", 42]}')

        assert text == "entry 2 of 'data-collections' must be a string, not a number"

    def test_execute_snapshot_should_be_invalid_when_data_collections_missing_or_empty(self):
        """An empty list is answered as nothing to do."""
        assert "'data-collections' is missing" in refused("execute-snapshot", "{}")
        commands, (answer,) = obeyed("execute-snapshot", '{"data-collections": []}')
        assert commands == [ExecuteSnapshot("LSN=12345", (), "log1")]
        assert answer.text == "nothing to do, 'data-collections' is empty"

    def test_stop_snapshot_should_be_invalid_for_nested_array_data_collections(self):
        assert "must be a string" in refused("stop-snapshot", '{"data-collections": [["schema.table1"]]}')

    def test_stop_snapshot_should_stop_all_when_data_collections_missing_or_empty(self):
        for data in ("{}", '{"data-collections": []}'):
            assert obeyed("stop-snapshot", data)[0] == [StopSnapshot("LSN=12345", None)]
