"""What a verification knows of the tables of a sink: their names, their columns, the scans that it keeps."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from adapters.lake.row_columns import columns_of, source_of
from engine.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pyarrow as pa

    from adapters.jdbc.touched_keys import TouchedKeys
    from adapters.lake.row_columns import Columns
    from adapters.lake.table_name import CollectionTables, TableName
    from adapters.verify.tables.table_comparison import Scan
    from engine.model import CollectionId


@dataclass(slots=True)
class KeptScans:
    """Scans of one verification, which `of` names by its ticket and its first turn.

    A table has no other history.
    """

    of: tuple[int, int] = (-1, -1)
    all: tuple[Scan, ...] = ()

    def begin(self, of: tuple[int, int]) -> None:
        """Forget those of other verifications."""
        if of != self.of:
            self.forget()
            self.of = of

    def add(self, scan: Scan) -> None:
        """Keep a scan."""
        self.all += (scan,)

    def forget(self) -> None:
        """Remove all files."""
        for path in {str(Path(path).parent) for scan in self.all for path in scan.paths}:
            shutil.rmtree(path, ignore_errors=True)
        self.all = ()


@dataclass(slots=True)
class KnownTable:
    """What is known of a topic's table.

    `columns` are those of the rows that were read first, `changed` says that they have changed since.
    """

    name: TableName
    columns: Columns | None = None
    changed: bool = False
    scans: KeptScans = field(default_factory=KeptScans)

    def forget(self) -> None:
        """Nothing that was found until now can be compared with what is read from now on."""
        self.scans.forget()
        self.columns, self.changed = None, False


Known = TypeVar("Known", bound=KnownTable)


class KnownTables(Generic[Known]):
    """The tables of the topics that are compared. `make` makes one by its name."""

    def __init__(
        self, names: CollectionTables, touched: TouchedKeys, make: Callable[[TableName], Known]
    ) -> None:
        self._names, self._touched, self._make = names, touched, make
        self._known: dict[str, Known] = {}

    def __getitem__(self, topic: str) -> Known:
        return self._known[topic]

    def values(self) -> Collection[Known]:
        """All of them."""
        return self._known.values()

    def follow(self, topics: Collection[str]) -> None:
        """Have the sink note which keys of these topics it touches, and forget other topics' tables."""
        self._touched.follow(topics)
        for topic in self._known.keys() - set(topics):
            self._known.pop(topic).scans.forget()

    def learn(self, topic: str, captured: Mapping[str, CollectionId]) -> str:
        """Learn the name of a topic's table. Returns why it has none of its own; empty if it has one."""
        try:
            name = self._names.unshared(topic, captured)
        except SinkError as error:
            return str(error)
        self._known.setdefault(topic, self._make(name))
        return ""

    def read(self, topic: str, batch: pa.RecordBatch) -> tuple[Known, Columns]:
        """The table of rows that windows have read, and the columns of these rows."""
        columns = columns_of(batch)
        name = self._names.naming.table(topic, source_of(batch))
        table = self._known.setdefault(topic, self._make(name))
        table.changed |= table.columns is not None and list(table.columns.all) != list(columns.all)
        return table, columns
