"""What the stream has carried so far."""

from __future__ import annotations

import pytest

from adapters.postgres.log.timeline import TransactionContext
from adapters.postgres.stream_state import StreamState


@pytest.mark.parametrize(
    ("last_commit_end", "context", "expected"),
    [
        pytest.param(None, None, None, id="nothing yet"),
        pytest.param(540, None, 540, id="between transactions"),
        pytest.param(540, TransactionContext(commit_lsn=500), 540, id="after one that was counted"),
        pytest.param(None, TransactionContext(xid=7, commit_lsn=500), 500, id="in the first one"),
        pytest.param(540, TransactionContext(xid=8, commit_lsn=600), 600, id="in a later one"),
    ],
)
def test_reads_come_after_the_commit_of_an_open_transaction(last_commit_end, context, expected):
    # A span may end anywhere: a signal's row comes before the commit that a slow network brings.
    streamed = StreamState(last_commit_end=last_commit_end, context=context)

    assert streamed.committed_before_reads == expected
