"""The compressed pieces of a block."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.staging import pieces
from adapters.staging.pieces import Pieces


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

    assert block._file._rolled  # type: ignore[attr-defined]  # nothing else tells
    assert b"".join(piece.content() for piece in block) == bytes(range(256))
    block.release()
