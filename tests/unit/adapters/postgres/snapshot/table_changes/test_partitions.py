"""Which partitions were emptied, by where their rows are."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from adapters.postgres.snapshot.table_changes.fingerprint import Form
from adapters.postgres.snapshot.table_changes.partitions import Partitions
from engine.model import CollectionId

T = CollectionId(("s", "t"))
LEAVES = {7: CollectionId(("s", "t7")), 8: CollectionId(("s", "t8"))}
FORM = Form("columns", LEAVES, "below", {7: 70, 8: 80})
MOVED = replace(FORM, files={7: 71, 8: 80})


def looked(form: Form) -> Any:
    return SimpleNamespace(tables={T: SimpleNamespace(oid=1)}, forms={1: form}, shares={1: "published"})


def seen(*forms: Form, saved: dict[str, str] | None = None) -> Partitions:
    nobody: Any = None  # nothing is asked of the server
    partitions = Partitions(nobody)
    partitions.resume(saved or {})
    for form in forms:
        partitions.note(looked(form))
    return partitions


def test_one_whose_rows_are_elsewhere_is_named_once():
    partitions = seen(FORM, MOVED, MOVED)
    (found,) = partitions.take_emptied().items()

    assert found[0] == T
    assert found[1].startswith("s.t7 were truncated")
    assert partitions.take_emptied() == {}


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(FORM, id="nothing"),
        pytest.param(replace(MOVED, partitions_columns="other"), id="rewritten by ALTER TABLE"),
        pytest.param(replace(FORM, partitions={8: LEAVES[8]}, files={8: 80}), id="detached"),
    ],
)
def test_what_else_changes_a_table_empties_none(now):
    assert seen(FORM, now).take_emptied() == {}


def test_a_restart_forgets_nothing():
    saved = seen(FORM).digests

    assert seen(FORM, saved=saved).take_emptied() == {}
    assert list(seen(MOVED, saved=saved).take_emptied()) == [T]
    assert seen(saved=saved).digests == saved
