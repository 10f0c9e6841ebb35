"""Hypothesis strategies that several suites share."""

from __future__ import annotations

from hypothesis import strategies as st

from engine.job.state import State
from engine.model import CollectionId, Position, Range, Target
from engine.snapshot.extent import Extent, Failed, Gap, Progress
from engine.snapshot.queue import Request, Snapshot, Table
from tests.unit.adapters.postgres.wal import WalServer

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
"""Any text that a database can hold."""
counts = st.integers(0, 2**63 - 1)

collections = st.builds(CollectionId, st.lists(names, min_size=1, max_size=3).map(tuple))
targets = st.builds(Target, collections, condition=st.none() | names, surrogate_key=st.none() | names)
keys = st.lists(st.none() | names, min_size=1, max_size=3).map(tuple)
positions = st.lists(counts | names, min_size=1, max_size=3).map(tuple).map(Position)

# The state of a job.

_spans = st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
extents = st.builds(
    Extent,
    counts,
    counts,
    whole=st.booleans(),
    greatest=st.none() | keys,
    span=st.none() | _spans,
    as_of=st.lists(counts, max_size=2).map(tuple),
)
_ranges = st.builds(Range, st.none() | keys, st.none() | keys)
_gaps = st.builds(Gap, st.none() | _ranges, st.lists(keys, max_size=2).map(tuple), names)
progresses = st.builds(
    Progress,
    extents,
    counts,
    left=st.lists(_ranges, max_size=3).map(tuple),
    rows=counts,
    emitted=counts,
    chunks=counts,
    reread=st.lists(keys, max_size=3).map(tuple),
    rounds=counts,
    missing=st.lists(_gaps, max_size=3).map(tuple),
)
_failed = st.builds(
    Failed, targets, st.lists(names, max_size=2).map(tuple), st.lists(_gaps, max_size=3).map(tuple)
)
tables = st.builds(
    Table,
    counts,
    names,
    targets,
    st.none() | progresses,
    st.none() | names,
    st.none() | _failed,
    place=st.none() | st.tuples(counts, counts),
    merged=st.lists(st.builds(Request, names, st.none() | names), max_size=2).map(tuple),
)
snapshots = st.builds(
    Snapshot, st.lists(tables, max_size=4).map(tuple), counts, st.lists(_failed, max_size=2).map(tuple)
)
_json = st.recursive(
    st.none() | st.booleans() | counts | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
states = st.builds(
    State,
    turn=counts,
    position=st.none() | positions,
    snapshot=snapshots,
    identity=st.dictionaries(names, names, max_size=3),
    memory=st.dictionaries(names, _json, max_size=3),
    channels=st.dictionaries(names, _json, max_size=3),
    sink=st.dictionaries(names, names, max_size=3),
)

# PostgreSQL's log.

_steps = st.lists(
    st.tuples(st.sampled_from(["row", "row", "row", "alter", "message"]), st.integers(1, 3)), max_size=6
)


def _logged(records: list[list[tuple[str, int]] | None]) -> WalServer:
    server = WalServer()
    for one in records:
        if one is None:
            server.message()
        else:
            server.transaction(one)
    return server


wal_servers = st.lists(st.none() | _steps, min_size=1, max_size=6).map(_logged)
"""Servers whose logs hold transactions, and messages outside of them."""
