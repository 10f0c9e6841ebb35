"""Columns that are added with a default: the histories that have their tables read, and a scene.

The writers' transactions add such columns in any history. Only a job that begins with an initial snapshot may
read tables on its own.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.torture.scene import Scene
    from tests.torture.script import Script

NEW: Final = "tidemark.snapshot.new"
_SHARE: Final = 0.6


def with_new_columns(script: Script) -> Script:
    """The script, in which tables may be read because of new columns."""
    if not script.initial or Random(f"{script.seed}/columns").random() >= _SHARE:
        return script
    return replace(script, properties={**script.properties, NEW: "columns"})


def column_added(scene: Scene) -> None:
    """A table gets a column with a default after the initial snapshot, and one of its rows is changed."""
    scene.until(lambda: _said(scene, "public.t0 completed"), "the initial snapshot is finished")
    scene.until_streamed()
    scene.run(["sql", 0, "ALTER TABLE {table} ADD COLUMN c0 int DEFAULT 7"], ["touch", 0, [3]])


def _said(scene: Scene, text: str) -> bool:
    return any(note["text"].startswith(text) for note in scene.journal.of("answer"))
