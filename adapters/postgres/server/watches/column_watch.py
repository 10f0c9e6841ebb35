"""Watches for columns that are added with a default, whose values in older rows the log does not have.

ALTER TABLE … ADD COLUMN … DEFAULT changes no row, or rewrites them all; neither is in the log. The catalog
shows the column: a table's columns are numbered, including those that were dropped, so a new one raises the
greatest number. The numbers seen last are kept with the state, so that a column is found even if no job was
running.

Columns often come in a burst, and each look would find some of them. So nothing is told until two looks in a
row have found the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.model import Arrival

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from adapters.postgres.saved import SavedColumns
    from adapters.postgres.server.publication import Publication
    from adapters.postgres.server.questions.layouts import AddedColumn
    from adapters.postgres.server.questions.questions import Questions
    from engine.model import CollectionId

_EVERY_S: Final = 5.0


class ColumnWatch:
    """Looks at the tables' columns periodically, over the control connection.

    `carries` says whether the settings leave a column in the events. `clock` counts seconds.
    """

    def __init__(
        self,
        questions: Questions,
        publication: Publication,
        carries: Callable[[CollectionId, str], bool],
        clock: Callable[[], float],
    ) -> None:
        self._questions, self._publication = questions, publication
        self._carries, self._clock = carries, clock
        self._due_s, self._seen, self._settled = 0.0, "", ""
        self._known: dict[int, int] = {}
        self._appeared: list[Arrival] = []

    def begin(self, saved: SavedColumns | None, tables: Collection[int]) -> None:
        """Go on from what was saved; without that, from the columns that these tables have now."""
        self._appeared, self._seen, self._settled = [], "", ""
        if saved is None:
            self._known = self._questions.layouts.widths(list(tables))
        else:
            self._known = {oid: int(width) for width, oids in saved.items() for oid in oids}

    @property
    def saved(self) -> SavedColumns:
        """The form saved with each turn: oids by their number of columns, since many tables share one."""
        by_width: dict[str, list[int]] = {}
        for oid, width in sorted(self._known.items()):
            by_width.setdefault(str(width), []).append(oid)
        return by_width

    def look(self, tables: Collection[int]) -> None:
        """Look at the columns of these tables, if it is time to."""
        if self._clock() < self._due_s:
            return
        self._due_s = self._clock() + _EVERY_S
        before, self._seen = self._seen, self._questions.layouts.widths_digest()
        if self._seen == before != self._settled:
            self._compare(tables)

    def _compare(self, tables: Collection[int]) -> None:
        self._settled = self._seen
        now = self._questions.layouts.widths(list(tables))
        grown = {oid: self._known[oid] for oid, width in now.items() if width > self._known.get(oid, width)}
        self._known = now
        if grown:
            self._appeared += self._published(self._questions.layouts.added(grown))

    def take_appeared(self) -> list[Arrival]:
        """Take the tables with such columns since the last call, or since the state was saved."""
        found, self._appeared = self._appeared, []
        return found

    def _published(self, added: Mapping[int, list[AddedColumn]]) -> list[Arrival]:
        """The columns that are published and not left out by the settings."""
        asked = self._questions
        names = asked.layouts.names(list(added))
        shares: Mapping[int, Any] = self._publication.shares(asked.publications, list(added))
        found = []
        for oid, columns in added.items():
            share, name = shares.get(oid), names.get(oid)
            if share is None or name is None:
                continue
            told = tuple(
                column.name
                for column in columns
                if (not column.generated if share.columns is None else column.name in share.columns)
                and self._carries(name, column.name)
            )
            found += [Arrival(name, columns=told)] if told else []
        return found
