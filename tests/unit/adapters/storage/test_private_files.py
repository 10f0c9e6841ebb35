"""Whatever a checkpoint holds can be read by its owner alone, whatever the umask says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from adapters.storage.dead_letters import DeadLetterFiles
from adapters.storage.directory import LocalStorage
from adapters.storage.lease import FileLease
from adapters.storage.owner import Claim
from adapters.storage.state import FileStateStore
from engine.model import CollectionId
from tests.staged import files_in, rows, staged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def modes(directory: Path) -> tuple[set[int], set[int]]:
    """Of the directories, it included, and of the files."""
    found = [directory, *directory.rglob("*")]
    folders = {path.stat().st_mode & 0o777 for path in found if path.is_dir()}
    return folders, {path.stat().st_mode & 0o777 for path in found if path.is_file()}


@pytest.mark.usefixtures("_open_umask")
def test_states_leases_and_dead_letters_are_private(tmp_path: Path):
    state = tmp_path / "state"
    store = FileStateStore(LocalStorage(state))
    store.save_pending(1, b"{}")
    store.promote(1)
    store.save_pending(2, b"{}")
    assert FileLease(LocalStorage(state), Claim("shop")).try_take() is None
    DeadLetterFiles(LocalStorage(state / "dead-letters")).keep(1, CollectionId(("public", "t")), [b"row"])

    assert modes(state) == ({0o700}, {0o600})


@pytest.mark.usefixtures("_open_umask")
def test_staged_rows_are_private(tmp_path: Path):
    staged(files_in(tmp_path), rows(1, 2, 3))

    _folders, files = modes(tmp_path)
    assert files == {0o600}
