"""Every tenth recorded MongoDB case gives the recorded events, or our own.

All of them take five minutes: `make golden` runs them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden import engine_under_test
from tests.golden.case import OWN_CASES, case_folders, load_case
from tests.golden.mongo_runner import MongoRunner
from tests.golden.verdict import verdict
from tests.servers.mongodb import MongoServer

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.usefixtures("spark")]


CASES = case_folders(OWN_CASES / "mongodb")[::10]


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_a_recorded_case_gives_its_events(folder: Path, mongodb: MongoServer):
    result = verdict(folder, MongoRunner(mongodb, engine_under_test.start_mongodb).run)

    assert result.fault is None


def test_a_transaction_may_go_on_over_several_steps_and_files(mongodb: MongoServer, tmp_path: Path):
    """Two at once, one of which ends where the connector has started again."""
    folder = tmp_path / "mongodb" / "x1_sessions"
    folder.mkdir(parents=True)
    steps = {
        "setup": [command("inventory", {"create": "a"})],
        "change": [
            {"session": "one", "start": True},
            command("inventory", inserting(1)) | {"session": "one"},
            command("inventory", inserting(2)) | {"session": "two"},
            command("inventory", inserting(3)),
            {"session": "one", "abort": True},
            command("inventory", inserting(4)) | {"session": "one"},
            {"session": "one", "commit": True},
        ],
        "between": [command("inventory", inserting(5)) | {"session": "two"}],
        "change2": [{"session": "two", "commit": True}],
    }
    for name, operations in steps.items():
        (folder / f"{name}.json").write_text(json.dumps(operations))
    (folder / "events.jsonl").touch()
    (folder / "connector.properties").write_text(
        "connector.class=io.debezium.connector.mongodb.MongoDbConnector\n"
        "mongodb.connection.string=mongodb://${host}/\ntopic.prefix=x\nsnapshot.mode=never\n"
        "key.converter.schemas.enable=false\nvalue.converter.schemas.enable=false\n"
    )

    events = MongoRunner(mongodb, engine_under_test.start_mongodb).run(load_case(folder))

    assert [event.key["id"] for event in events] == ["3", "4", "2", "5"]


def command(database: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"db": database, "cmd": given}


def inserting(number: int) -> dict[str, Any]:
    return {"insert": "a", "documents": [{"_id": number}]}
