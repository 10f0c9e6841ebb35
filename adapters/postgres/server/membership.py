"""Watches which tables are published, and by which entry of the publication; the log does not show it.

If a table is removed from the publication and added again, or a publication is dropped and recreated, the
only trace in the log is missing changes. The catalog shows it: the entry is a different one. The last entries
seen are kept with the state, so a change is found even if no job was running.

    dropped        changed          recreated
    ───────┬──────────┬──────────────────┬───────────►  log
           └── in no log: a gap ─────────┘
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from engine.isolation.incomplete import Cause, Incomplete

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.postgres.saved import SavedMembers
    from adapters.postgres.server.publication import Publication
    from adapters.postgres.server.questions.questions import Questions

_EVERY_S = 5.0


@dataclass(frozen=True)
class Members:
    """The captured tables that are published, by oid, with the entries that publish each.

    `publication` is its oid and the last transaction that altered its options; empty if there is no
    publication.
    """

    publication: str = ""
    entries: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, marks: Mapping[int, str]) -> Members:
        """From `Publication.marks`, each of which begins with the publication's two numbers."""
        split = {oid: _split(mark) for oid, mark in marks.items()}
        publication = next(iter(split.values()))[0] if split else ""
        return cls(publication, {oid: entry for oid, (_publication, entry) in split.items()})

    @cached_property
    def saved(self) -> SavedMembers:
        """The form saved with each turn: oids by entry, since many tables may share one."""
        by_entry: dict[str, list[int]] = {}
        for oid, entry in sorted(self.entries.items()):
            by_entry.setdefault(entry, []).append(oid)
        return {"publication": self.publication, "entries": by_entry}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any] | None) -> Members | None:
        """Read what `saved` wrote; None if nothing was saved."""
        if saved is None:
            return None
        entries = {oid: entry for entry, oids in saved["entries"].items() for oid in oids}
        return cls(saved["publication"], entries)

    def gaps(self, now: Members, name: str) -> dict[int, str]:
        """Why tables may lack changes between these members and `now`, by oid."""
        recreated = self.publication.split()[:1] != now.publication.split()[:1]
        found: dict[int, str] = {}
        for oid, entry in self.entries.items():
            if oid not in now.entries:
                found[oid] = f"publication {name!r} does not have it any more"
            elif recreated:
                found[oid] = f"publication {name!r} was dropped and made anew"
            elif self.publication != now.publication:
                found[oid] = f"the options of publication {name!r} were altered"
            elif entry != now.entries[oid]:
                found[oid] = (
                    f"it was taken out of publication {name!r} and added again, or otherwise published"
                )
        return found


def _split(mark: str) -> tuple[str, str]:
    oid, xmin, *rest = mark.split(" ")
    return f"{oid} {xmin}", " ".join(rest)


class MembershipWatch:
    """Looks at the publication periodically, over the control connection.

    `captures` are the include and exclude lists: a table that they leave out lacks nothing.
    """

    def __init__(
        self,
        questions: Questions,
        publication: Publication,
        captures: Callable[[str, str], bool],
        clock: Callable[[], float],
    ) -> None:
        self._questions, self._publication = questions, publication
        self._captures, self._clock = captures, clock
        self._due, self._digest = 0.0, ""
        self._since = ""
        self.members = Members()

    def begin(self, saved: Mapping[str, Any] | None, position: str) -> list[Incomplete]:
        """Compare with what was saved at `position`; returns the tables that lack changes since then."""
        self._digest = self._look()
        now = Members.of(self._publication.marks(self._questions.publications))
        before = Members.from_json(saved) or now
        self.members, self._since = now, position
        self._due = self._clock() + _EVERY_S
        return self._incomplete(before.gaps(now, self._publication.name), position)

    def look(self, position: str) -> list[Incomplete]:
        """The tables that lack changes since the last look; looks only if it is time to."""
        if self._clock() < self._due:
            return []
        self._due = self._clock() + _EVERY_S
        digest, since = self._look(), self._since
        self._since = position
        if digest == self._digest:
            return []
        self._digest = digest
        before, self.members = self.members, Members.of(self._publication.marks(self._questions.publications))
        return self._incomplete(before.gaps(self.members, self._publication.name), since)

    def skipped(self, since: str) -> list[Incomplete]:
        """All members, because the log was skipped since a position."""
        why = f"publication {self._publication.name!r} did not exist for a while"
        return self._incomplete(dict.fromkeys(self.members.entries, why), since)

    def _look(self) -> str:
        return self._questions.publications.digest(self._publication.name)

    def _incomplete(self, gaps: Mapping[int, str], since: str) -> list[Incomplete]:
        """Gaps by table name; a dropped table has none and is left out."""
        names = self._questions.layouts.names(list(gaps)) if gaps else {}
        return [
            Incomplete(names[oid], Cause.GAP, since, why)
            for oid, why in gaps.items()
            if oid in names and self._captures(*names[oid].parts)
        ]
