"""What comes on a session reaches the assembler, in blocks or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.postgres.log.assembler import Assembler
from adapters.postgres.log.stream.intake import Intake
from adapters.postgres.log.streamed_transactions import StreamedTransactions
from engine.model import Position
from tests.unit.adapters.postgres.wal import begin, commit, payload, relation, row

if TYPE_CHECKING:
    from pathlib import Path

T = 16384
XID = (7).to_bytes(4, "big")
OLD, NEW = relation(T, b"old"), relation(T, b"new")


class Session:
    """A session on which these messages have arrived. It is its own `pgconn`."""

    def __init__(self, arrived: list[bytes]) -> None:
        self.pgconn, self._left = self, list(arrived)

    def get_copy_data(self, _nowait: int) -> tuple[int, bytes]:
        data = self._left.pop(0) if self._left else b""
        return len(data), data


def test_rows_after_a_replay_have_the_definition_that_was_sent_last(tmp_path: Path):
    old, first = (entry[:26] + XID + entry[26:] for entry in (OLD, row(T, 1)))
    session = Session(
        [
            *(payload(0, b"S" + XID + b"\1"), old, first, payload(0, b"E")),
            *(begin(500, 9), NEW, row(T, 2), commit(500, 540)),
            commit(600, 640)[:25] + b"c" + XID + commit(600, 640)[26:],
            *(begin(700, 10), row(T, 3), commit(700, 740)),
        ]
    )
    assembler = Assembler(Position((0, 0)), last_commit_end=None, part_rows=100, part_bytes=1 << 20)
    streamed = StreamedTransactions(tmp_path)
    intake = Intake(session, assembler, streamed, 0, lambda: 0.0)  # type: ignore[arg-type] # a fake session
    while intake.take(100, 1 << 20):
        pass
    streamed.close()

    found = {
        entry[25:]: cut.definitions[T].message
        for cut in assembler.take()
        for entry in cut.part.messages.to_pylist()
        if entry[25:26] == b"I"
    }
    assert found == {
        row(T, 2)[25:]: NEW[25:],
        row(T, 1)[25:]: OLD[25:],
        row(T, 3)[25:]: NEW[25:],
    }
