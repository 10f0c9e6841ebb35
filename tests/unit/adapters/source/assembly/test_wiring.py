from __future__ import annotations

from typing import Any, cast

import pytest

from adapters.source.assembly.supplied import SuppliedSource
from adapters.source.assembly.wiring import all_done, copied_in_part, pace
from engine.config import parse
from engine.job.parts import Pace
from engine.model import CollectionId

LEAST = {
    "database.hostname": "db",
    "database.user": "u",
    "database.dbname": "shop",
    "topic.prefix": "shop",
    "plugin.name": "pgoutput",
    "tidemark.sink": "null",
    "tidemark.checkpoint": "/state",
}
SQL_SERVER = {
    "connector.class": "SqlServerConnector",
    "database.hostname": "db",
    "database.user": "u",
    "database.names": "shop",
    "topic.prefix": "shop",
    "tidemark.sink": "null",
    "tidemark.checkpoint": "/state",
}
MONGODB = {
    "connector.class": "MongoDbConnector",
    "mongodb.connection.string": "mongodb://db/?replicaSet=rs0",
    "topic.prefix": "shop",
    "tidemark.sink": "null",
    "tidemark.checkpoint": "/state",
}
SELECTS, INCLUDED = "snapshot.select.statement.overrides", "snapshot.include.collection.list"


class Plain:
    pass


class Later:
    def __init__(self, *, behind: bool) -> None:
        self._behind = behind

    def await_shown(self) -> bool:
        return not self._behind


@pytest.mark.parametrize(
    ("sink", "nothing_left", "expected"),
    [
        (Plain(), True, True),
        (Plain(), False, False),
        (Later(behind=True), True, False),
        (Later(behind=False), True, True),
        (Later(behind=False), False, False),
    ],
)
def test_a_job_with_nothing_left_to_do_ends_once_everything_shows(
    sink: Any, *, nothing_left: bool, expected: bool
):
    wired = SuppliedSource(cast("Any", None), lambda: None, str, done=lambda _state: nothing_left)

    assert all_done(wired, sink, cast("Any", None)) == expected


def test_rows_that_wait_on_executors_go_out_in_few_large_jobs():
    settings = parse(LEAST)
    wired = SuppliedSource(cast("Any", None), lambda: None, str, longest_window_s=7.0)
    near, far = (pace(settings, wired, shared_disk=shared_disk) for shared_disk in (True, False))

    assert (near.slice_s, near.pieces, near.piece_rows) == (Pace().slice_s, Pace().pieces, Pace().piece_rows)
    assert far.slice_s > near.slice_s
    assert (near.spreads, far.spreads) == (False, True)
    assert far.piece_rows > near.piece_rows
    assert far.piece_bytes > near.piece_bytes
    assert (far.longest_window_s, far.chunk_rows) == (7.0, near.chunk_rows)


def test_windows_grow_with_the_tasks_of_executors_unless_their_size_is_set():
    wired = SuppliedSource(cast("Any", None), lambda: None, str)
    given = parse(LEAST | {"tidemark.window.max.bytes": "10m"})
    near, far, fixed = (
        pace(settings, wired, shared_disk=shared_disk)
        for settings, shared_disk in ((parse(LEAST), True), (parse(LEAST), False), (given, False))
    )

    assert (near.window_bytes, near.task_bytes) == (256 << 20, 0)
    assert (far.window_bytes, far.task_bytes) == (256 << 20, 64 << 20)
    assert (fixed.window_bytes, fixed.task_bytes) == (10 << 20, 0)


@pytest.mark.parametrize("name", ["dbo.orders", "shop.dbo.orders"])
def test_a_copy_is_in_part_by_the_names_that_the_snapshot_takes(name: str):
    orders, others = (CollectionId(("shop", "dbo", table)) for table in ("orders", "others"))
    selected = parse(
        SQL_SERVER | {SELECTS: name, f"{SELECTS}.{name}": "SELECT * FROM dbo.orders WHERE a > 0"}
    )
    listed = parse(SQL_SERVER | {INCLUDED: name.replace(".", r"\.")})

    assert "a SELECT" in copied_in_part(selected, orders)
    assert copied_in_part(selected, others) == ""
    assert copied_in_part(listed, orders) == ""
    assert "leaves it out" in copied_in_part(listed, others)


def test_a_copy_is_whole_if_the_list_names_its_collection_after_the_replica_set():
    orders, others = (CollectionId(("shop", name)) for name in ("orders", "others"))
    listed = parse(MONGODB | {INCLUDED: r"rs0\.shop\.orders"})

    assert copied_in_part(listed, orders, lambda: "rs0") == ""
    assert "leaves it out" in copied_in_part(listed, others, lambda: "rs0")
    assert "leaves it out" in copied_in_part(listed, orders, lambda: "rs1")
