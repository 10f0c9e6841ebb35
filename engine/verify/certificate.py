"""The certificate of a collection's snapshot: what was asked, what was read when, and what was sent. Pure.

A certificate is one line of JSON. The next one names its SHA-256, so a certificate that was changed or taken
away shows. SIGNALS.md describes the fields, `row_digest.py` the sums.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.verify.certified_ranges import sum_of
from engine.verify.row_digest import ALGORITHM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.snapshot.queue_entry import Table
    from engine.verify.certified_ranges import CertifiedRange, CertifiedRanges, Frontier

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Chain:
    """The certificates of a job: the SHA-256 of the `last` one, and those `issued` in the newest turn."""

    last: str = ""
    issued: tuple[str, ...] = ()

    def with_next(self, certificate: str) -> Chain:
        """The chain with one more certificate."""
        return Chain(hashlib.sha256(certificate.encode()).hexdigest(), (*self.issued, certificate))

    @property
    def written(self) -> Chain:
        """The chain once its newest certificates are kept elsewhere."""
        return Chain(self.last) if self.issued else self


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a certificate says besides the snapshot: release, source, time, and where the stream is."""

    engine: str
    source: Mapping[str, str]
    ended_ms: int
    position: str


def certificate(table: Table, sent: CertifiedRanges, circumstances: Circumstances, previous: str) -> str:
    """The certificate of an entry that is read to its end. `previous` is the SHA-256 of the one before."""
    progress = table.progress
    document = {
        "version": VERSION,
        "engine": circumstances.engine,
        "signals": [{"signal": request.signal, "id": request.id} for request in table.requests],
        "source": dict(circumstances.source),
        "scope": {
            "collection": str(table.target.collection),
            "condition": table.target.condition,
            "surrogate_key": table.target.surrogate_key,
            "part": table.target.scope is not None,
            "key": list(progress.extent.key) if progress else [],
            "schema": progress.extent.schema or None if progress else None,
        },
        "began_ms": progress.since_ms if progress else None,
        "ended_ms": circumstances.ended_ms,
        "position": circumstances.position,
        "hash": {"algorithm": ALGORITHM, "seed": sent.seed},
        "rows": _counts(sent.read, sent.emitted),
        "sum": sum_of(sent.all),
        "ranges": [_range(part) for part in sent.ranges],
        "single_keys": None if sent.again is None else _part(sent.again),
        "previous": previous or None,
    }
    return orjson.dumps(document).decode()


def _counts(read: int, emitted: int) -> dict[str, int]:
    return {"read": read, "superseded": read - emitted, "emitted": emitted}


def _range(part: CertifiedRange) -> dict[str, Any]:
    ends = {"holds_after": part.holds_after, "lacks_upto": part.lacks_upto}
    unusual = {name: value for name, value in ends.items() if value}
    return {"after": part.after, "upto": part.upto, **unusual, **_part(part)}


def _part(part: CertifiedRange) -> dict[str, Any]:
    windows = [_frontier(frontier) for frontier in dict.fromkeys((part.first, part.last))]
    return {**_counts(part.read, part.emitted), "sum": part.sum, "windows": windows}


def _frontier(frontier: Frontier) -> dict[str, str | int]:
    visible = {"visible": frontier.visible} if frontier.visible else {}
    return {"position": frontier.position, **visible, "turn": frontier.turn}
