"""A job from Python, as PYTHON.md shows it, on a source and a sink of another package."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

import tidemark
from engine.model import CollectionId
from tests.memory_source import Change, MemoryDatabase
from tests.toys.memory import DATABASES
from tests.toys.shelf import SHELVES, Shelf

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[2] / "PYTHON.md"
T = CollectionId(("public", "t"))
PROPERTIES = """\
connector.class=memory
topic.prefix=tm
memory.database=shop
signal.data.collection=public.signals
tidemark.sink=shelf
shelf.name=top
"""


def examples() -> list[str]:
    """The one that starts a job, the one that runs a job, and those that read changes with Spark."""
    return [str(block) for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)]


def until(condition: Callable[[], Any], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_examples_use_nothing_below_the_face():
    imported = [re.findall(r"^(?:from|import) (\S+)", example, re.MULTILINE) for example in examples()]

    assert imported[:2] == [["tidemark"], ["threading", "tidemark"]]
    assert {name for names in imported[2:] for name in names} == {
        "tidemark",
        "delta.tables",
        "pyspark.sql.functions",
    }


@pytest.mark.usefixtures("toys", "spark")
def test_the_example_that_starts_a_job_takes_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    database, shelf = MemoryDatabase(), Shelf()
    monkeypatch.setitem(DATABASES, "shop", database)
    monkeypatch.setitem(SHELVES, "top", shelf)
    tmp_path.joinpath("orders.properties").write_text(PROPERTIES + f"tidemark.checkpoint={tmp_path}/state\n")
    monkeypatch.chdir(tmp_path)
    for key in range(20):
        database.commit(Change(CollectionId(("public", "orders")), key, f"v{key}"))
    namespace: dict[str, Any] = {}
    exec(compile(examples()[0], "PYTHON.md", "exec"), namespace)  # noqa: S102  our own page
    namespace["snapshot_orders"]()

    reads = [event for event in shelf.events if orjson.loads(event["value"] or "{}").get("op") == "r"]
    assert len(reads) == 20
    said = capsys.readouterr().out
    assert "finished: " in said
    assert "JobStatus(job='tm', standing=<JobPhase.STREAMING" in said


@pytest.mark.usefixtures("toys")
def test_the_example_runs_a_source_and_a_sink_of_another_package(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    database, shelf = MemoryDatabase(), Shelf()
    monkeypatch.setitem(DATABASES, "shop", database)
    monkeypatch.setitem(SHELVES, "top", shelf)
    config = tmp_path / "orders.properties"
    config.write_text(PROPERTIES + f"tidemark.checkpoint={tmp_path}/state\n")
    monkeypatch.chdir(tmp_path)
    for key in range(20):
        database.commit(Change(T, key, f"v{key}"))
    namespace: dict[str, Any] = {"spark": spark}
    job = threading.Thread(target=exec, args=(compile(examples()[1], "PYTHON.md", "exec"), namespace))
    job.start()
    try:
        until(lambda: len(shelf.events) == 20)
        database.signal("s", "execute-snapshot", '{"data-collections": ["public.t"]}')
        until(lambda: len(shelf.events) >= 41)
    finally:
        until(lambda: "stop" in namespace)
        namespace["stop"].set()
        job.join(30)

    assert not job.is_alive()
    keys = [event["key"] for event in shelf.events if event["topic"] == str(T)]
    assert keys == [str(key) for key in range(20)] * 2
    assert shelf.tasks == 2
    reads = [orjson.loads(event["value"] or "{}") for event in shelf.events][-20:]
    assert {read["op"] for read in reads} == {"r"}


@pytest.mark.usefixtures("toys")
def test_a_configuration_is_checked_from_python(tmp_path: Path):
    config = tmp_path / "orders.properties"
    config.write_text(PROPERTIES)

    report = tidemark.check(config)

    assert [row.name for row in report.properties][:2] == ["connector.class", "topic.prefix"]
    assert any("tidemark.checkpoint" in warning for warning in report.warnings)
    assert tidemark.read(config) == tidemark.read(tidemark.read(config))
    with pytest.raises(tidemark.ConfigError, match=r"missing 'topic.prefix'"):
        tidemark.read({"connector.class": "memory"})
