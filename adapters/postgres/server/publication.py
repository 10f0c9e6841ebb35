"""What a publication carries: which tables, under which names, which of their columns and rows.

Reads `pg_publication` and its relations by the rules of PostgreSQL's view `pg_publication_tables`. The view
itself is not used because it opens every table and so waits for locks. Also owns the publication itself: it
is found, created if the settings ask for it, or reported with the statement to run.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.postgres.settings import Autocreate
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from adapters.postgres.server.connection import Server
    from adapters.postgres.server.questions.publications import Entry, Publications
    from engine.model import CollectionId

_log = logging.getLogger("adapters")
_PUBLISHES_IN_PART = 150_000
_PARTITIONED = "p"


@dataclass(frozen=True, slots=True)
class Share:
    """What the log carries of a table.

    `columns` are the published ones (None: all that are not generated), `row_filter` is the condition of
    published rows, as SQL. `mark` changes whenever another transaction creates or changes the entries that
    publish the table.
    """

    columns: tuple[str, ...] | None
    row_filter: str | None
    mark: str


class Publication:
    """One publication, and which of its tables the include and exclude lists capture."""

    def __init__(self, name: str, captures: Callable[[str, str], bool]) -> None:
        self.name, self._captures = name, captures

    def captured(self, asked: Publications) -> list[CollectionId]:
        """The names of the captured tables, in order."""
        found = _by_table(asked.entries(self.name))
        return [
            entries[0].id for entries in found if _as_itself(entries) and self._captures(*entries[0].id.parts)
        ]

    def marks(self, asked: Publications) -> dict[int, str]:
        """The marks of the captured tables, by oid (`Share.mark`)."""
        found = _by_table(asked.entries(self.name))
        return {
            entries[0].oid: _share(entries).mark
            for entries in found
            if _as_itself(entries) and self._captures(*entries[0].id.parts)
        }

    def inheriting(self, asked: Publications) -> set[int]:
        """The captured tables that only an entry of an ancestor publishes, by oid."""
        found = _by_table(asked.entries(self.name))
        return {entries[0].oid for entries in found if entries[0].level and _as_itself(entries)}

    def groups(self, asked: Publications) -> dict[CollectionId, list[CollectionId]]:
        """Partitioned tables that are not captured themselves, with their captured partitions."""
        captured = set(self.captured(asked))
        found: dict[CollectionId, list[CollectionId]] = {}
        for group, leaf in asked.partitions():
            if leaf in captured and group not in captured:
                found.setdefault(group, []).append(leaf)
        return found

    def shares(self, asked: Publications, oids: Sequence[int]) -> dict[int, Share]:
        """What is published of these tables, by oid; a table not published under its own name is left out."""
        found = _by_table(asked.entries(self.name, oids))
        return {entries[0].oid: _share(entries) for entries in found if _as_itself(entries)}

    def lacking(self, asked: Publications) -> str:
        """The operations that are not published, as a comma-separated list; empty if all are."""
        return asked.lacking(self.name)

    def bare_inserts(self, asked: Publications) -> list[CollectionId]:
        """The captured tables of which the log may bring an insert without its large values, in order.

        A key change that brings a row into the row filter is published as an insert. What the update left
        unchanged is in the log only under REPLICA IDENTITY FULL.
        """
        if "update" in self.lacking(asked):
            return []
        found = [
            entries[0]
            for entries in _by_table(asked.entries(self.name))
            if _as_itself(entries) and _share(entries).row_filter and self._captures(*entries[0].id.parts)
        ]
        loose = asked.not_full([entry.oid for entry in found]) if found else set()
        return [entry.id for entry in found if entry.oid in loose]

    def leaves(self, asked: Publications, root: int) -> list[CollectionId]:
        """The captured partitions below a table."""
        return [leaf for leaf in asked.leaves(root) if self._captures(*leaf.parts)]


def _by_table(entries: Iterable[Entry]) -> list[list[Entry]]:
    """The entries of each table: its own first, then its ancestors'."""
    found: dict[int, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.oid, []).append(entry)
    return list(found.values())


def _as_itself(entries: Sequence[Entry]) -> bool:
    """Whether changes of the table carry its own name, not that of an ancestor or of its partitions."""
    return entries[-1].level == 0 if entries[0].via_root else entries[0].kind != _PARTITIONED


def _share(entries: Sequence[Entry]) -> Share:
    own = entries[0] if entries[0].level == 0 else None
    mark = ", ".join(entry.mark for entry in entries)
    return Share(own.columns, own.row_filter, mark) if own else Share(None, None, mark)


def ensure_publication(
    server: Server, name: str, mode: Autocreate, captured: Callable[[], Sequence[CollectionId]]
) -> None:
    """Find the publication or create it; for `filtered` also update its tables.

    `captured` returns the tables that the lists capture, and is called only for `filtered`. Raises
    ConfigError with the statement to run if the publication is missing and may not be created.
    """
    with server.open() as questions:
        all_tables = questions.publications.has_all_tables(name)
        wanted = captured() if mode is Autocreate.FILTERED else None
        if all_tables is None:
            _create(questions.publications, name, mode, wanted)
        elif wanted is not None and not all_tables:
            _alter(questions.publications, name, wanted)


def _create(asked: Publications, name: str, mode: Autocreate, wanted: Sequence[CollectionId] | None) -> None:
    """Create the publication for the tables that are wanted, or for all."""
    if wanted is not None and not wanted:
        raise ConfigError("no table matches the include and exclude lists", hint="mend the lists")
    if mode is Autocreate.DISABLED:
        text = asked.creation(name, wanted)
        raise ConfigError(f"publication {name!r} does not exist", hint=f"run: {text}")
    asked.create(name, wanted)
    _log.info("created publication %s", name)


def _alter(asked: Publications, name: str, wanted: Sequence[CollectionId]) -> None:
    """Have the publication name the tables that are wanted."""
    if asked.tables(name) != set(wanted):
        asked.set_tables(name, wanted)
        _log.info("publication %s now names %d tables", name, len(wanted))
