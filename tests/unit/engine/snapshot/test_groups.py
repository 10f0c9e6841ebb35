"""Names that stand for several collections."""

from __future__ import annotations

from engine.model import (
    CollectionId,
    ExecuteSnapshot,
    LogMessage,
    PauseSnapshot,
    ResumeSnapshot,
    StopSnapshot,
    Target,
)
from engine.snapshot.groups import expand_groups

ROOT, A, B, OTHER = (CollectionId(("s", name)) for name in ("root", "a", "b", "other"))
GROUPS = {ROOT: [A, B]}


def test_a_group_s_collections_are_read_in_its_place_with_its_condition():
    command = ExecuteSnapshot("1", (Target(OTHER), Target(ROOT, "x > 1")), "id")

    assert expand_groups(command, GROUPS) == ExecuteSnapshot(
        "1", (Target(OTHER), Target(A, "x > 1"), Target(B, "x > 1")), "id"
    )


def test_a_collection_named_beside_its_group_is_read_once_as_it_was_named_first():
    command = ExecuteSnapshot("1", (Target(B, "y"), Target(ROOT)))

    assert expand_groups(command, GROUPS) == ExecuteSnapshot("1", (Target(B, "y"), Target(A)))


def test_a_group_is_stopped_whole():
    for command in (StopSnapshot, PauseSnapshot, ResumeSnapshot):
        assert expand_groups(command("1", (ROOT, B)), GROUPS) == command("1", (A, B))
        assert expand_groups(command("1", None), GROUPS) == command("1", None)


def test_what_names_nothing_stays_as_it_is():
    assert expand_groups(LogMessage("1", "hello"), GROUPS) == LogMessage("1", "hello")
