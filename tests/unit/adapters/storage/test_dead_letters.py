"""Names of dead letters' files: one table's alone, within the directory, and short enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adapters.storage.dead_letters import DeadLetterFiles
from adapters.storage.directory import LocalStorage
from engine.model import CollectionId

if TYPE_CHECKING:
    from pathlib import Path

ODD = (
    *(("a.b", "c"), ("a", "b.c"), ("..", ".."), ("../..", "x"), ("a/b", "c\n\x1b[31m"), ("ж" * 63, "ж" * 63)),
    ("ж" * 63, "ж" * 62 + "x"),
)


@pytest.mark.parametrize("parts", ODD, ids=[str(number) for number in range(len(ODD))])
def test_a_tables_file_is_its_own_and_stays_in_the_directory(tmp_path: Path, parts: tuple[str, ...]):
    kept = tmp_path / "letters"
    letters = DeadLetterFiles(LocalStorage(kept))
    for number, name in enumerate(ODD):
        letters.keep(number, CollectionId(name), [b"line"])
    assert len(list(tmp_path.rglob("*.jsonl"))) == len(list(kept.glob("*.jsonl"))) == len(ODD)

    letters.drop(CollectionId(parts))
    assert len(list(kept.glob("*.jsonl"))) == len(ODD) - 1
    letters.settle(len(ODD), [CollectionId(name) for name in ODD])
    assert len(list(kept.glob("*.jsonl"))) == len(ODD) - 1
