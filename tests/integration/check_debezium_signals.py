"""The cases of Debezium's SignalsIT and BinlogSignalsIT, by their names there, on three sources.

`make debezium-cases` runs them. Where our behaviour differs on purpose, the test says what it is instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from adapters.http.monitor import Monitor
from adapters.source.assembly import signal_desk
from adapters.source.assembly.supplied import Onlookers
from adapters.system import system_clock
from engine.config import parse
from engine.model import Channel
from signals.actions import ReceivedSignal, SignalAction
from tests import driven
from tests.debezium_subjects import OnPostgres, Subject, subject, subject_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.servers.kafka import KafkaBroker

pytestmark = pytest.mark.integration
__all__ = ["subject"]

MESSAGE = '{"message": "Signal message at offset \'{}\'"}'
STATED = {
    "type": "ALTER",
    "table": {
        "defaultCharsetName": None,
        "primaryKeyColumnNames": ["pk", "aa"],
        "columns": [
            {
                "name": name,
                "jdbcType": 4,
                "nativeType": 23,
                "typeName": "int",
                "typeExpression": "int",
                "charsetName": None,
                "length": 10,
                "scale": 0,
                "position": place,
                "optional": place > 1,
                "autoIncremented": False,
                "generated": False,
            }
            for place, name in enumerate(("pk", "aa"), 1)
        ],
    },
}


def logged(subject: Subject, **more: str) -> str:
    """The answer to a `log` signal that is sent between two changes, which are both streamed."""
    subject.table("a", rows=0)
    with subject.job(**more) as job:
        subject.insert("a", [(1, 1)])
        subject.signal("log", MESSAGE)
        subject.insert("a", [(2, 2)])
        job.until_answered("accepted")
        subject.drain(job)

        assert subject.values(job) == {1: 1, 2: 2}
        (answer,) = job.answers
    return str(answer.text)


def test_signal_log(subject: Subject):
    said = logged(subject)

    assert said.startswith("Signal message at offset '")
    assert "{}" not in said


def test_signal_log_with_escaped_character(request: pytest.FixtureRequest):
    said = logged(subject_of(request, "postgres"), signal__data__collection='public."signals"')

    assert said.startswith("Signal message at offset '")


def test_signal_log_via_in_process_channel(subject: Subject, monkeypatch: pytest.MonkeyPatch):
    """A program sends it through the job's own process."""
    settings = parse({"tidemark.http.control": "true", **_LEAST})
    monitor = Monitor(settings, system_clock())
    monkeypatch.setattr(driven, "Onlookers", lambda **more: Onlookers(**more, monitor=monitor))
    subject.table("a", rows=0)
    with subject.job() as job:
        assert monitor.channel is not None
        monitor.channel.send(b'{"id": "1", "type": "log", "data": ' + MESSAGE.encode() + b"}")
        job.until_answered("accepted")

        assert job.answers[0].text.startswith("Signal message at offset '")
        assert Channel.IN_PROCESS in job.job.state.channels


def test_signaling_disabled(subject: Subject, tmp_path: Any):
    """Without a channel the signal table is a table like others, and asks for nothing."""
    (tmp_path / "signals").touch()
    file = {"signal__enabled__channels": "file", "signal__file": str(tmp_path / "signals")}
    subject.table("a", rows=0)
    with subject.job(**file) as job:
        subject.signal("log", MESSAGE)
        subject.insert("a", [(1, 1)])
        subject.drain(job)

        assert job.answers == []
        assert subject.values(job) == {1: 1}


def test_signal_schema_change(subject: Subject):
    """Events keep to what the server says of a table. Only SQL Server has a history to record it in."""
    subject.table("a", rows=0)
    quoted = subject.quoted("a")
    data = {"database": "shop", "changes": [{**STATED, "id": quoted}]}
    with subject.job(include__schema__changes="true") as job:
        subject.insert("a", [(1, 1)])
        subject.signal("schema-changes", orjson.dumps(data).decode())
        job.until(lambda: job.answers)
        subject.insert("a", [(2, 2)])
        subject.drain(job)

        assert len({tuple(event["key"]) for event in job.events("a")}) == 1
        (answer,) = job.answers
        if not hasattr(subject, "shop"):
            assert (answer.outcome, "is for SQL Server alone" in answer.text) == ("rejected", True)
            return
        told = [event["value"]["tableChanges"][0] for event in job.events() if event["topic"] == "tm"]
        keys = [
            notification["table"]["primaryKeyColumnNames"]
            for notification in told
            if notification["id"] == quoted
        ]
        assert keys == [["pk"], ["pk", "aa"]]
        assert answer.outcome == "accepted"


def test_custom_action(subject: Subject, monkeypatch: pytest.MonkeyPatch):
    received: list[Mapping[str, Any]] = []

    def custom_log(signal: ReceivedSignal) -> str:
        received.append(signal.data)
        return f"[CustomLog] {signal.data['message']}"

    monkeypatch.setattr(signal_desk, "registered_actions", lambda: {"customLog": SignalAction(custom_log)})
    with subject.job() as job:
        subject.signal("customLog", '{"message": "hello"}')
        job.until_answered("accepted")

        assert job.answers[0].text == "[CustomLog] hello"
        assert received == [{"message": "hello"}]


class TestKafkaSignals:
    """The cases of BinlogSignalsIT, which are about signals in a topic and not about a database.

    There they are named `given offset commit enabled` or `disabled`; the place in a topic is saved here with
    the job's state, and nothing else decides.
    """

    @pytest.fixture
    def more(self, kafka: KafkaBroker, topic: str) -> dict[str, str]:
        kafka.create_topic(topic)
        return {
            "signal__enabled__channels": "source,kafka",
            "signal__kafka__topic": topic,
            "signal__kafka__bootstrap__servers": kafka.bootstrap,
        }

    def send(self, kafka: KafkaBroker, topic: str, subject: Subject, table: str) -> None:
        data = {"data-collections": [f"{subject.prefix}{table}"], "type": "INCREMENTAL"}
        kafka.send(topic, orjson.dumps({"type": "execute-snapshot", "data": data}).decode(), "tm")

    def test_a_signal_sent_with_connector_running(
        self, subject: Subject, kafka: KafkaBroker, topic: str, more: dict[str, str]
    ):
        subject.table("b", rows=10)
        with subject.job(**more) as job:
            self.send(kafka, topic, subject, "b")
            job.until_answered("finished")

            assert sorted(subject.reads(job, "b")) == list(range(1, 11))

    def test_a_signal_sent_with_connector_not_running_and_multiple_signals(
        self, subject: Subject, kafka: KafkaBroker, topic: str, more: dict[str, str]
    ):
        subject.table("b", rows=10)
        subject.table("c", rows=10)
        self.send(kafka, topic, subject, "b")
        with subject.job(**more) as job:
            job.until_answered("finished")
        self.send(kafka, topic, subject, "c")
        with subject.job(**more) as job:
            # The answers of the last turn before the restart may be given again, so they tell nothing here.
            job.until(lambda: len(subject.reads(job, "c")) == 10)
            subject.drain(job)

            for table in ("b", "c"):
                assert sorted(subject.reads(job, table)) == list(range(1, 11))


@pytest.mark.parametrize("channel", ["jmx"])
def test_jmx_signals(request: pytest.FixtureRequest, channel: str):
    """There is no JMX. The setting is accepted and named as without effect; other channels go on."""
    subject = subject_of(request, "postgres")
    assert isinstance(subject, OnPostgres)
    said = logged(subject, signal__enabled__channels=f"source,{channel}")

    assert said.startswith("Signal message at offset '")


_LEAST = {
    "database.hostname": "localhost",
    "database.user": "me",
    "database.password": "secret",
    "database.dbname": "d",
    "topic.prefix": "tm",
    "plugin.name": "pgoutput",
    "tidemark.http.port": "0",
    "tidemark.sink": "null",
    "tidemark.checkpoint": "/nowhere",
}
