"""The compressed pieces of a block."""

from __future__ import annotations

import resource
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.staging import pieces
from adapters.staging.pieces import Pieces

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 16)
    monkeypatch.setattr(pieces, "_IN_MEMORY", 64)


def written(*writes: bytes) -> Pieces:
    found = Pieces()
    for write in writes:
        found.write(memoryview(write))
    found.finish()
    return found


@given(st.lists(st.binary(max_size=100), max_size=12))
def test_what_was_written_comes_back_in_pieces_of_one_size(writes):
    content = b"".join(writes)
    block = written(*writes)

    found = [piece.content() for piece in block]

    assert b"".join(found) == content
    assert [len(piece) for piece in found] == [
        len(content[at : at + 16]) for at in range(0, len(content), 16)
    ]
    assert [piece.content() for piece in block] == found
    block.release()


def test_a_block_larger_than_memory_waits_on_the_executors_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    block = written(bytes(range(256)))

    # The file has no name; `/proc` tells where it was made.
    assert Path(f"/proc/self/fd/{block._file.fileno()}").readlink().is_relative_to(tmp_path)
    assert b"".join(piece.content() for piece in block) == bytes(range(256))
    block.release()


def test_what_is_small_once_compressed_stays_in_memory(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 4096)
    monkeypatch.setattr(pieces, "_IN_MEMORY", 1024)
    block = written(bytes(3 * 4096))

    assert not block._file._rolled  # type: ignore[attr-defined]  # nothing else tells
    assert b"".join(piece.content() for piece in block) == bytes(3 * 4096)
    block.release()


def test_a_full_disk_is_told_when_the_block_is_finished_and_not_later(monkeypatch, tmp_path):
    """What is buffered is written then, so that the task fails with an error of ours."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    block = Pieces()
    block.write(memoryview(bytes(range(256))))
    with file_size_limit(0), pytest.raises(OSError, match="File too large"):
        block.finish()

    with file_size_limit(0):
        block.release()


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process grows beyond the size."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
