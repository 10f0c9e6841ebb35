"""Watches which tables are published, and by which entry of the publication; the log does not show it.

If a table is removed from the publication and added again, or a publication is dropped and recreated, the
only trace in the log is missing changes. The catalog shows it: the entry is a different one. The last entries
seen are kept with the state, so a change is found even if no job was running.

    dropped        changed          recreated
    ───────┬──────────┬──────────────────┬───────────►  log
           └── in no log: a gap ─────────┘

The entry is not all. A partition may leave its published parent and come back, and a table's name may go to
another one. `absences.py` finds what the catalog shows of that.

A slot that is found without a saved state keeps log from before anybody looked. If the slot's oldest
transaction is older than an entry, that entry may publish its table only from some place of this log on. A
younger slot can look as old as another slot of the server; its tables are then reported without need.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from adapters.postgres.server.visibility import FIRST_XID
from adapters.postgres.server.watches import absences
from engine.isolation.incomplete import Cause, Incomplete
from engine.model import Arrival, CollectionId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from adapters.postgres.saved import SavedMembers
    from adapters.postgres.server.publication import Publication
    from adapters.postgres.server.questions.publications import UserTables
    from adapters.postgres.server.questions.questions import Questions

_EVERY_S = 5.0
_XIDS = 2**32


@dataclass(frozen=True)
class Members:
    """The captured tables that are published, by oid, with the entries that publish each.

    `publication` is its oid and the last transaction that altered its options; empty if there is no
    publication. `names` are the tables' names, and `visible` is the snapshot that they were seen in. A state
    has no names of tables that share an entry: it publishes whatever comes under their names.
    """

    publication: str = ""
    entries: Mapping[int, str] = field(default_factory=dict)
    names: Mapping[int, CollectionId] = field(default_factory=dict)
    visible: str = ""

    @classmethod
    def of(cls, marks: Mapping[int, str], tables: UserTables | None = None) -> Members:
        """From `Publication.marks`, each of which begins with the publication's two numbers."""
        split = {oid: _split(mark) for oid, mark in marks.items()}
        publication = next(iter(split.values()))[0] if split else ""
        entries = {oid: entry for oid, (_publication, entry) in split.items()}
        if tables is None:
            return cls(publication, entries)
        names = {oid: tables.by_oid[oid].id for oid in entries if oid in tables.by_oid}
        return cls(publication, entries, names, tables.visible)

    @cached_property
    def saved(self) -> SavedMembers:
        """The form saved with each turn: oids by entry, since many tables may share one."""
        by_entry: dict[str, list[int]] = {}
        for oid, entry in sorted(self.entries.items()):
            by_entry.setdefault(entry, []).append(oid)
        alone = (oids[0] for oids in by_entry.values() if len(oids) == 1)
        names = {str(oid): _two(self.names[oid]) for oid in alone if oid in self.names}
        return {
            "publication": self.publication,
            "entries": by_entry,
            "names": names,
            "visible": self.visible,
        }

    @classmethod
    def from_json(cls, saved: SavedMembers | None) -> Members | None:
        """Read what `saved` wrote; None if nothing was saved."""
        if saved is None:
            return None
        entries = {oid: entry for entry, oids in saved["entries"].items() for oid in oids}
        names = {int(oid): CollectionId(tuple(name)) for oid, name in saved.get("names", {}).items()}
        return cls(saved["publication"], entries, names, saved.get("visible", ""))

    def gaps(self, now: Members, name: str) -> dict[int, str]:
        """Why tables may lack changes between these members and `now`, by oid."""
        recreated = self.publication.split()[:1] != now.publication.split()[:1]
        found: dict[int, str] = {}
        for oid, entry in self.entries.items():
            if oid not in now.entries:
                found[oid] = f"publication {name!r} does not have it any more"
            elif recreated:
                found[oid] = f"publication {name!r} was dropped and recreated"
            elif self.publication != now.publication:
                found[oid] = f"the options of publication {name!r} were altered"
            elif entry != now.entries[oid]:
                found[oid] = (
                    f"it was taken out of publication {name!r} and added again, or otherwise published"
                )
        return found


def _two(name: CollectionId) -> tuple[str, str]:
    schema, table = name.parts
    return schema, table


def _split(mark: str) -> tuple[str, str]:
    oid, xmin, *rest = mark.split(" ")
    return f"{oid} {xmin}", " ".join(rest)


def _written_since(mark: str, oldest: int) -> bool:
    """Whether what publishes a table was written by `oldest` or a later transaction.

    Transaction ids are compared as the server does, on a circle.
    """
    written = (int(xid) for entry in mark.split(", ") for xid in entry.split(" ")[1::2])
    return any(xid >= FIRST_XID and (xid - oldest) % _XIDS < _XIDS // 2 for xid in written)


def newly_published(
    before: Members, now: Members, existing: Collection[int] | None, unchanged: Collection[int]
) -> dict[int, bool]:
    """The tables that are published since `before`, by oid, and whether the log has all their rows.

    It has if the table did not exist before, what publishes it did (the publication for all tables, or for
    its schema, or an ancestor), and the table is `unchanged` since it was created: it had rows in the log
    from the first one. `existing` are the tables of that time, None if nobody knows.
    """
    new = now.entries.keys() - before.entries.keys()
    same = existing is not None and before.publication == now.publication
    known = {*before.entries.values(), ""}  # no entry: the publication is for all tables
    created = {oid for oid in new if same and oid not in (existing or ()) and oid in unchanged}
    return {oid: oid in created and now.entries[oid] in known for oid in sorted(new)}


class MembershipWatch:
    """Looks at the publication periodically, over the control connection.

    `captures` are the include and exclude lists: a table that they leave out lacks nothing. With `fills` a
    table that was created while captured is not one that the log tells, if a column was added with a default
    after some of its rows.
    """

    def __init__(
        self,
        questions: Questions,
        publication: Publication,
        captures: Callable[[str, str], bool],
        clock: Callable[[], float],
        *,
        fills: bool = False,
    ) -> None:
        self._questions, self._publication, self._fills = questions, publication, fills
        self._captures, self._clock = captures, clock
        self._due, self._digest = 0.0, ""
        self._tables: UserTables | None = None
        self._appeared: list[Arrival] = []
        self._since = ""
        self.members = Members()

    def begin(self, saved: SavedMembers | None, position: str, oldest: int | None = None) -> list[Incomplete]:
        """Compare with what was saved at `position`; returns the tables that lack changes since then.

        `oldest` is the oldest transaction of a slot that was found without a saved state.
        """
        self._digest, self._tables, self._appeared = self._look(), None, []
        marks = self._publication.marks(self._questions.publications)
        tables = self._questions.publications.user_tables()
        now = Members.of(marks, tables)
        before = Members.from_json(saved) or now
        found = self._compared(before, now, tables, position)
        self._since, self._due = position, self._clock() + _EVERY_S
        if saved is None and oldest is not None:
            why = f"publication {self._publication.name!r} has it by an entry that may be newer than the slot"
            young = {oid: why for oid, mark in marks.items() if _written_since(mark, oldest)}
            found += self._incomplete(young, position)
        return found

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
        marks = self._publication.marks(self._questions.publications)
        tables = self._questions.publications.user_tables()
        return self._compared(self.members, Members.of(marks, tables), tables, since)

    def _compared(self, before: Members, now: Members, tables: UserTables, since: str) -> list[Incomplete]:
        """Note the members and tables as they are now; returns the tables that lack changes since."""
        known, self.members, self._tables = self._tables, now, tables
        unchanged = {
            oid
            for oid, table in tables.by_oid.items()
            if table.unchanged and (table.born_as_partition or not table.parent)
        }
        existing = None if known is None else known.by_oid
        self._appeared += self._named(newly_published(before, now, existing, unchanged))
        gaps = before.gaps(now, self._publication.name)
        if known is not None:
            gaps |= absences.renamed(known, before.entries.keys() & now.entries.keys(), tables)
        if before.visible:
            asked = self._questions.publications
            inheriting = partial(self._publication.inheriting, asked)
            gaps |= absences.reattached(before, now, tables, inheriting)
            gaps |= absences.attached(before, now, tables, asked.is_empty)
        others = absences.other_tables(before, now, tables, self._publication.name)
        found = self._incomplete(gaps, since)
        return found + [
            Incomplete(name, cause, since, why)
            for name, (cause, why) in others.items()
            if self._captures(*name.parts)
        ]

    def take_appeared(self) -> list[Arrival]:
        """Take the tables that are published since the last call, or since the state was saved."""
        found, self._appeared = self._appeared, []
        return found

    def _named(self, found: Mapping[int, bool]) -> list[Arrival]:
        names = self._questions.layouts.names(list(found)) if found else {}
        filled = self._questions.layouts.filled(list(found)) if found and self._fills else ()
        return [
            Arrival(names[oid], told and oid not in filled)
            for oid, told in found.items()
            if oid in names and self._captures(*names[oid].parts)
        ]

    def skipped(self, since: str) -> list[Incomplete]:
        """All members, because the log was skipped since a position."""
        why = f"publication {self._publication.name!r} did not exist for a while"
        return self._incomplete(dict.fromkeys(self.members.entries, why), since)

    def _look(self) -> str:
        asked = self._questions.publications
        digest = asked.digest(self._publication.name)
        return f"{digest} {asked.user_tables_digest()}" if digest else ""

    def _incomplete(self, gaps: Mapping[int, str], since: str) -> list[Incomplete]:
        """Gaps by table name; a dropped table has none and is left out."""
        names = self._questions.layouts.names(list(gaps)) if gaps else {}
        return [
            Incomplete(names[oid], Cause.GAP, since, why)
            for oid, why in gaps.items()
            if oid in names and self._captures(*names[oid].parts)
        ]
