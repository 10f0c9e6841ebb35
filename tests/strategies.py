"""Hypothesis strategies that several suites share."""

from __future__ import annotations

from hypothesis import strategies as st

from engine.job.saved.attempt import Attempt
from engine.job.saved.state import State
from engine.model import CollectionId, Limit, Position, Range, Scope, Stretch, Target
from engine.snapshot.extent import Extent, FailedSnapshot, Gap, Progress, ScopeExtent
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Request, Table
from engine.verify.certificate import Chain
from engine.verify.certified_ranges import CertifiedRange, CertifiedRanges, Frontier
from tests.unit.adapters.postgres.wal import WalServer

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
"""Any text that a database can hold."""
counts = st.integers(0, 2**63 - 1)

collections = st.builds(CollectionId, st.lists(names, min_size=1, max_size=3).map(tuple))
_json_keys = st.lists(st.sampled_from(["1", '"a"', "null", '{"$oid":"5"}']), min_size=1, max_size=2).map(
    tuple
)
scopes = st.builds(Scope, st.lists(_json_keys, max_size=2).map(tuple)) | st.builds(
    Scope,
    st.just(()),
    st.lists(st.builds(Stretch, st.none() | _json_keys, st.none() | _json_keys), max_size=2).map(tuple),
)


def _targets(scope: st.SearchStrategy[Scope | None]) -> st.SearchStrategy[Target]:
    texts = st.none() | names
    return st.builds(Target, collections, condition=texts, surrogate_key=texts, scope=scope)


targets = _targets(st.none() | scopes)
keys = st.lists(st.none() | names, min_size=1, max_size=3).map(tuple)
positions = st.lists(counts | names, min_size=1, max_size=3).map(tuple).map(Position)

# The state of a job.

_spans = st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
_plain_ranges = st.builds(Range, st.none() | keys, st.none() | keys)
_ranges = st.builds(Range, st.none() | keys, st.none() | keys, st.booleans(), st.booleans())
"""With ends that only entries with a scope have."""
_points = st.lists(keys, max_size=2).map(tuple)
extents = st.builds(
    Extent,
    counts,
    counts,
    whole=st.booleans(),
    greatest=st.none() | keys,
    span=st.none() | _spans,
    as_of=st.lists(counts, max_size=2).map(tuple),
    scoped=st.none() | st.builds(ScopeExtent, counts, st.lists(_ranges, max_size=2).map(tuple), _points),
)


def _gaps(ranges: st.SearchStrategy[Range]) -> st.SearchStrategy[tuple[Gap, ...]]:
    gaps = st.builds(Gap, st.none() | ranges, st.lists(keys, max_size=2).map(tuple), names, _points)
    return st.lists(gaps, max_size=3).map(tuple)


_frontiers = st.builds(Frontier, names, names, st.integers(0, 9))
_certified_parts = st.builds(
    CertifiedRange,
    counts,
    counts,
    st.none() | names,
    _frontiers,
    _frontiers,
    st.none() | keys,
    st.none() | keys,
    st.booleans(),
    st.booleans(),
)
_certified = st.builds(
    CertifiedRanges,
    names,
    st.lists(_certified_parts, max_size=2).map(tuple),
    st.none() | _certified_parts,
)


def _progresses(ranges: st.SearchStrategy[Range]) -> st.SearchStrategy[Progress]:
    return st.builds(
        Progress,
        extents,
        counts,
        left=st.lists(ranges, max_size=3).map(tuple),
        rows=counts,
        emitted=counts,
        chunks=counts,
        reread=st.lists(keys, max_size=3).map(tuple),
        rounds=counts,
        missing=_gaps(ranges),
        points=_points,
        found=counts,
        certified=st.none() | _certified,
    )


def _failures_of(
    scope: st.SearchStrategy[Scope | None], ranges: st.SearchStrategy[Range]
) -> st.SearchStrategy[FailedSnapshot]:
    return st.builds(FailedSnapshot, _targets(scope), st.lists(names, max_size=2).map(tuple), _gaps(ranges))


def _entries(
    scope: st.SearchStrategy[Scope | None], ranges: st.SearchStrategy[Range]
) -> st.SearchStrategy[Table]:
    return st.builds(
        Table,
        counts,
        names,
        _targets(scope),
        st.none() | _progresses(ranges),
        st.none() | names,
        st.none() | _failures_of(scope, ranges),
        ordinal=st.none() | st.tuples(counts, counts),
        merged=st.lists(st.builds(Request, names, st.none() | names), max_size=2).map(tuple),
        priority=st.integers(-(2**31), 2**31 - 1),
        limit=st.builds(Limit, st.none() | counts, st.none() | counts),
    )


progresses = _progresses(_ranges)
tables = _entries(st.none(), _plain_ranges) | _entries(scopes, _ranges)
_failed = _failures_of(st.none(), _plain_ranges) | _failures_of(scopes, _ranges)
_failures = st.lists(_failed, max_size=2).map(
    lambda some: tuple(sorted(some, key=lambda failed: failed.target.scope is not None))
)
"""Those with a scope last, as they are saved."""
snapshots = st.builds(Snapshot, st.lists(tables, max_size=4).map(tuple), counts, _failures)
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
    attempt=st.none() | st.builds(Attempt, positions, st.dictionaries(names, _json, max_size=3)),
    certificates=st.builds(Chain, names, st.lists(names, max_size=2).map(tuple)),
)

# PostgreSQL's log.

_steps = st.lists(
    st.tuples(st.sampled_from(["row", "row", "row", "alter", "message"]), st.integers(1, 3)), max_size=6
)


def _logged(records: list[list[tuple[str, int]] | None]) -> WalServer:
    server = WalServer()
    for record in records:
        if record is None:
            server.message()
        else:
            server.transaction(record)
    return server


wal_servers = st.lists(st.none() | _steps, min_size=1, max_size=6).map(_logged)
"""Servers whose logs hold transactions, and messages outside of them."""
