"""The verdict of a verification: words for an answer, and a document that joins the certificates. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from engine.snapshot.queue_entry import Table
    from engine.verify.certificate import Circumstances
    from engine.verify.copy import Findings, Span

VERSION = 1


@dataclass(frozen=True, slots=True)
class RepairCounts:
    """What a repair has sent: READ events and delete events."""

    reads: int
    deletes: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of a collection whose copy was compared up to a turn, at `position` of the stream.

    After a repair, `mended` is what it has sent before. `against` names a copy that somebody else keeps.
    """

    findings: Findings
    span: Span
    position: str
    mended: RepairCounts | None = None
    against: str = ""

    @property
    def accepts(self) -> bool:
        """Whether nothing differs."""
        return not self.findings.differences

    @property
    def facts(self) -> dict[str, Any]:
        """The numbers, for programs."""
        found = self.findings
        numbers = {"equal": found.equal, "changed": found.changed, **found.counts}
        first = {kind: list(keys) for kind, keys in found.first.items() if keys}
        if found.undecided_rows:
            numbers["undecided"] = found.undecided_rows
        sent = {} if self.mended is None else {"reads": self.mended.reads, "deletes": self.mended.deletes}
        said = {"verdict": "accept" if self.accepts else "reject"}
        if self.against:
            said |= {"against": self.against, "basis": "settled" if found.settled else "marker"}
        return {**said, **numbers, **sent, "first": first}

    def __str__(self) -> str:
        found = self.findings
        meanwhile = "changed" if self.against else "sent anew"
        changed = f", {found.changed} {meanwhile} meanwhile" if found.changed else ""
        if found.undecided_rows:
            changed += f", {found.undecided_rows} not decided, since they changed each time"
        if self.mended is not None:
            changed += f"; the repair has sent {self.mended.reads} rows and {self.mended.deletes} deletes"
        where = "as settled" if found.settled else f"at {self.position}"
        if self.accepts:
            return f"the copy is accepted {where}: {found.equal} rows are equal{changed}"
        kinds = ", ".join(
            f"{count} {kind}{_first(found, kind)}" for kind, count in found.counts.items() if count
        )
        return f"the copy is rejected {where}: {kinds}; {found.equal} rows are equal{changed}"

    def document(self, table: Table, circumstances: Circumstances, previous: str) -> str:
        """One line of JSON, which names the SHA-256 of the certificate before it."""
        document = {
            "version": VERSION,
            "engine": circumstances.engine,
            "kind": "verification" if self.mended is None else "repair",
            "signals": [{"signal": request.signal, "id": request.id} for request in table.requests],
            "source": dict(circumstances.source),
            "scope": {
                "collection": str(table.target.collection),
                "schema": table.progress.extent.schema or None if table.progress else None,
            },
            "began_ms": table.progress.since_ms if table.progress else None,
            "ended_ms": circumstances.ended_ms,
            "position": None if self.findings.settled else self.position,
            "turns": {"since": self.span.since, "upto": self.span.upto},
            **self.facts,
            "previous": previous or None,
        }
        return orjson.dumps(document).decode()


def _first(found: Findings, kind: str) -> str:
    keys = found.first.get(kind, ())
    more = ", …" if found.counts[kind] > len(keys) else ""
    return f" ({', '.join(keys)}{more})"
