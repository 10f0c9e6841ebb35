"""What the stream carries while a window opens on SQL Server (`adapters/source/opening_window.py`).

    turns      ──── opens ───── span 1 ───── span 2 ───── joins ──── span 3 ──►
    thread              └─ primary? ─ catalog C ─ mark ─┘   └─ rows are read ──►

- Rows are read only once the window has joined, with locks. So they contain whatever was committed before,
  and with it spans 1 and 2: nothing that is streamed before superseded them. From then on the window is
  watched as any other, before its first row is read.
- C may be older than spans 1 and 2. If one of them says that a table of the window has another shape, or
  comes from another change table, C is not believed: the window does not join, and its tables are measured
  again.
- The mark (an opening row, or the right to ask where the log ends) only has to come before the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from engine.errors import SchemaChanged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.source.opening_window import OpeningWindow
    from adapters.sqlserver.snapshot.tables import CatalogedTables
    from adapters.sqlserver.snapshot.window import SqlServerWindow
    from engine.model import CollectionId

Catalogs: TypeAlias = "Mapping[str, CatalogedTables]"
"""What the catalogs of a window's databases say, by database."""
SqlServerOpening: TypeAlias = "OpeningWindow[Catalogs, SqlServerWindow]"
"""A window that is being opened."""


@dataclass(slots=True)
class OpeningWatch:
    """What the stream says of a window's tables while it opens."""

    tables: frozenset[CollectionId]
    _switched: list[CollectionId] = field(default_factory=list)

    def note_switch(self, table: CollectionId) -> None:
        """Note that a table's changes have another shape from here on."""
        if table in self.tables:
            self._switched.append(table)

    def check(self) -> None:
        """Raise SchemaChanged if the catalog may be older than what was streamed of a table."""
        if self._switched:
            raise SchemaChanged("another capture instance took over", where=self._switched[0])
