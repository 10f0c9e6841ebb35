"""Blocks that need no shared disk: what a task hands over, and what the driver knows of them."""

from __future__ import annotations

import pickle

import pytest

from adapters.staging.executor_blocks import (
    ExecutorBlock,
    ExecutorBlocks,
    TaskBlock,
    outbox,
    present,
    remember,
)
from adapters.staging.pieces import PIECE
from engine.errors import InvariantError, SourceError

ROWS = "rows"


def sent(store: ExecutorBlocks) -> ExecutorBlocks:
    """The store as a task has it."""
    copy: ExecutorBlocks = pickle.loads(pickle.dumps(store))  # noqa: S301  our own bytes
    return copy


def written(store: ExecutorBlocks, name: str, content: bytes) -> ExecutorBlock:
    block = store.create(name)
    block.write(content)
    return block.finish()


def content(block: ExecutorBlock) -> bytes:
    with block.open(ROWS) as found:
        return bytes(found)


def contents(block: TaskBlock) -> list[bytes]:
    return [piece.content() for piece in block.pieces]


class Shelf:
    """Keeps blocks elsewhere."""

    def __init__(self, **blocks: bytes) -> None:
        self.blocks, self.released = blocks, list[str]()

    def fetch(self, name: str) -> bytes | None:
        return self.blocks.get(name.rpartition("/")[2])

    def release(self, name: str) -> None:
        self.released.append(name)


def test_a_small_block_of_a_task_goes_out_with_its_result():
    store = ExecutorBlocks(small=10)
    with outbox() as staged:
        small, large = written(sent(store), "small", b"0123456789"), written(sent(store), "large", b"x" * 11)

        assert staged.small == {small.name: b"0123456789"}
        assert [(block.name, contents(block)) for block in staged.large] == [(large.name, [b"x" * 11])]


def test_small_blocks_stop_being_small_when_there_are_many():
    store = ExecutorBlocks()
    with outbox() as staged:
        for number in range(6):
            written(sent(store), str(number), bytes(256 << 10))

        assert (len(staged.small), len(staged.large)) == (4, 2)


def test_a_large_block_goes_out_in_pieces():
    with outbox() as staged:
        written(sent(ExecutorBlocks()), "a", b"a" * (9 * PIECE + 1))

        assert [len(piece) for piece in contents(staged.large[0])] == [*[PIECE] * 9, 1]


def test_a_task_without_an_outbox_may_not_stage():
    with pytest.raises(InvariantError, match="nobody keeps"):
        sent(ExecutorBlocks()).create("a")


def test_the_driver_fetches_what_is_kept_elsewhere():
    store = ExecutorBlocks(small=0)
    with outbox():
        block = written(sent(store), "a", b"rows")
    shelf = Shelf(a=b"rows")
    remember({}, {block.name: shelf})

    assert content(block) == b"rows"
    store.clear()
    assert shelf.released == [block.name]
    with pytest.raises(SourceError, match="are gone"):
        content(block)


def test_what_comes_from_elsewhere_is_verified():
    with outbox():
        block = written(sent(ExecutorBlocks(small=0)), "a", b"rows")
    remember({}, {block.name: Shelf(a=b"others")})

    with pytest.raises(SourceError, match="checksum"):
        content(block)
    block.remove()


def test_a_task_opens_what_came_with_it_and_nothing_else():
    with outbox():
        block = written(sent(ExecutorBlocks(small=0)), "a", b"rows")

    with present({block.name: b"rows"}):
        assert content(block) == b"rows"
    with pytest.raises(SourceError, match="are gone"):
        content(block)


def test_clearing_a_part_leaves_the_others():
    store = ExecutorBlocks()
    mine, other = written(store.within("w1"), "a", b"1"), written(store.within("w10"), "a", b"2")
    store.within("w1").clear()

    with pytest.raises(SourceError, match="are gone"):
        content(mine)
    assert content(other) == b"2"
    store.clear()
