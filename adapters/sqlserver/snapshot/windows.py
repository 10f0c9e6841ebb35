"""The windows in progress: how they are opened, and what is told to them while the log is streamed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adapters.source.opening_window import OpeningWindow
from adapters.source.window_reader import reading_of
from adapters.spark.windows.jdbc_job import RunRead
from adapters.sqlserver.checks import SIGNAL_COLUMNS, refuse_replica
from adapters.sqlserver.events.decode import Watch
from adapters.sqlserver.server.spare_connections import SpareConnections
from adapters.sqlserver.settings import SqlServerSettings
from adapters.sqlserver.snapshot.opening_window import OpeningWatch
from adapters.sqlserver.snapshot.table_reads import TableReads, merge_columns
from adapters.sqlserver.snapshot.tables import cataloged
from adapters.sqlserver.snapshot.watermark import AtBeginning, LogEnd, SignalRows, SignalTable, Watermark
from adapters.sqlserver.snapshot.window import SqlServerWindow
from engine.config.settings import Watermarking
from engine.errors import SchemaChanged, TableBusy, TidemarkError
from signals.window_rows import ROOM, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from adapters.sqlserver.databases import Databases
    from adapters.sqlserver.events.codecs import Codecs
    from adapters.sqlserver.server.questions import Questions
    from adapters.sqlserver.server.table import Column
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from adapters.sqlserver.snapshot.initial import InitialReads
    from adapters.sqlserver.snapshot.opening_window import Catalogs, SqlServerOpening
    from adapters.sqlserver.snapshot.tables import SqlServerTables
    from adapters.sqlserver.tools import SourceTools
    from engine.config.settings import Settings
    from engine.model import CollectionId, Position, Target, Window

_BOUNDED = frozenset({"char", "varchar", "nchar", "nvarchar"})


class OpenWindows:
    """The windows that are open. `opened` has them by id, in order. Used by the job's thread alone.

    `meanwhile` is what the stream carries while another one opens; None if none does. `spare` are the
    connections that this is asked over.
    """

    def __init__(
        self,
        settings: Settings,
        databases: Databases,
        codecs: Codecs,
        tables: SqlServerTables,
        tools: SourceTools,
        initial: InitialReads,
    ) -> None:
        self._settings, self._databases = settings, databases
        self._tables, self._tools, self._initial = tables, tools, initial
        self.table_reads = TableReads(settings.events, databases, codecs, tables, initial, tools.clock)
        self.opened: dict[str, SqlServerWindow] = {}
        self.meanwhile: OpeningWatch | None = None
        self.spare = SpareConnections(databases.names, databases.open, tools.clock.monotonic)

    @property
    def merges(self) -> dict[CollectionId, tuple[str, ...]]:
        """The tables being read, with the columns that match their rows to changes."""
        return {table: names for window in self.opened.values() for table, names in window.merges.items()}

    def watch(self, database: str) -> Watch:
        """The tables of open windows: everything streamed while a window is open supersedes its rows."""
        return Watch(frozenset(table for table in self.merges if table.database == database))

    def holds(self, position: Position | None) -> bool:
        """Whether the stream waits for rows of a blocking snapshot, and no rows that were read wait for it.

        What rows contain is only known once they are read. So the stream stays where it is while they are
        read, and then goes up to their watermark.
        """
        windows = [window for window in self.opened.values() if window.blocking]
        if position is None or all(window.read for window in windows):
            return False
        return not any(window.read and not window.reached(position) for window in windows)

    def note_signals(self, database: int, signal_ids: Iterable[str | None]) -> None:
        """Tell the windows that rows of a database's signal table have been streamed."""
        ids = list(signal_ids)
        for window in self.opened.values():
            for signal_id in ids:
                window.note_signal(database, signal_id)

    def note_switch(self, table: CollectionId) -> None:
        """Tell the windows that a table's changes have another shape, or come from another change table."""
        for window in self.opened.values():
            window.note_switch(table)
        if self.meanwhile is not None:
            self.meanwhile.note_switch(table)

    def open(self, window: Window) -> SqlServerWindow | SqlServerOpening:
        """Set a watermark in each database, and start the tasks that read the window's runs; or begin to."""
        tables = frozenset(target.collection for target in window.targets)
        names = list(dict.fromkeys(table.database for table in tables))
        watermarks = {name: self._watermark(window, name) for name in names}
        ask = partial(self._ask, list(tables), watermarks)
        if window.blocking or (window.initial and self._initial.waits):
            # The stream waits, or there is none yet.
            return self._join(window, watermarks, OpeningWatch(tables), ask(self._databases.questions))
        meanwhile = self.meanwhile = OpeningWatch(tables)
        opening = OpeningWindow(
            partial(self.spare.ask, names, ask),
            partial(self._join, window, watermarks, meanwhile),
            self._opens_no_more,
            self._tools.opening(),
            lambda _catalogs: self.spare.ask(names, partial(_close, watermarks)),
        )
        return opening.joined() or opening

    def _opens_no_more(self) -> None:
        self.meanwhile = None

    @staticmethod
    def _ask(
        tables: Sequence[CollectionId],
        watermarks: Mapping[str, Watermark],
        questions: Callable[[str], Questions],
    ) -> Catalogs:
        """Ask what a window has to know, and set its watermarks. Touches nothing that others change."""
        for name in watermarks:
            refuse_replica(questions(name))
        catalogs = {name: cataloged(questions(name), tables) for name in watermarks}
        for name, watermark in watermarks.items():
            watermark.open(questions(name))
        return catalogs

    def _join(
        self,
        window: Window,
        watermarks: Mapping[str, Watermark],
        meanwhile: OpeningWatch,
        catalogs: Catalogs,
    ) -> SqlServerWindow:
        """Open the window whose databases were asked."""
        try:
            meanwhile.check()
            found = self._tables.readings(window.targets, catalogs)
            merges = merge_columns(found.values())
            self._refuse_other_merges(merges)
            reads = self._reads(window, found, merges)
        except TidemarkError:
            _close(watermarks)
            raise
        numbers = {name: number for number, name in enumerate(self._databases.names)}
        session = self._initial.session if window.initial else ()
        chunks = self._tools.chunks
        read = partial(chunks.read, window.id, reads, session=session)
        opened = SqlServerWindow(
            {numbers[name]: watermark for name, watermark in watermarks.items()},
            merges,
            reading_of(window, read, chunks.jobs, self._settings.snapshot, self._forget, self._tools.pool),
            blocking=window.blocking,
        )
        self.opened[window.id] = opened
        return opened

    def _forget(self, window_id: str) -> None:
        self.opened.pop(window_id, None)

    def _refuse_other_merges(self, merges: Mapping[CollectionId, tuple[str, ...]]) -> None:
        """Refuse a second surrogate key: during a window, one choice of columns identifies changes."""
        merging = self.merges
        for table, names in merges.items():
            if merging.get(table, names) != names:
                raise TableBusy("it is being read by another surrogate key", where=table)

    def _reads(
        self,
        window: Window,
        tables: Mapping[Target, ReadTable],
        merges: Mapping[CollectionId, tuple[str, ...]],
    ) -> list[RunRead[ReadTable]]:
        """The runs and how to read them. Raises SchemaChanged where a table differs from the plan."""
        events = {
            target: self.table_reads.events(target, read, merges[target.collection])
            for target, read in tables.items()
        }
        for run in window.runs:
            if tables[run.target].fingerprint != run.key:
                raise SchemaChanged(
                    "its key is another one, or it was recreated", where=run.target.collection
                )
        return [
            RunRead(run, tables[run.target], events[run.target], self._tables.row_bytes(run.target))
            for run in window.runs
        ]

    def _watermark(self, window: Window, database: str) -> Watermark:
        if window.initial and self._initial.waits:
            return AtBeginning(self._initial.alive())
        strategy, questions = self._settings.snapshot.watermarking, self._databases.questions(database)
        signal = self._settings.source_as(SqlServerSettings).signal_table(database)
        if strategy is Watermarking.VISIBILITY:
            return LogEnd(questions)
        if signal is None:
            refusal = self._databases.refusal(database)
            raise SchemaChanged(refusal.message if refusal else "signal rows need a signal table")
        described = self._databases.instances(database).described(signal)
        columns = described.columns[:SIGNAL_COLUMNS] if described else ()
        table = SignalTable(signal, tuple(column.name for column in columns), _room(columns))
        marks, deletes = rows_of(window, self._tools.clock.now_ms), strategy is Watermarking.INSERT_DELETE
        return SignalRows(questions, table, marks, lambda: self._tools.clock.now_ms, deletes=deletes)


def _close(watermarks: Mapping[str, Watermark], questions: Callable[[str], Questions] | None = None) -> None:
    for name, watermark in watermarks.items():
        watermark.close(questions and questions(name))


def _room(columns: Sequence[Column]) -> int:
    """How many bytes the signal table's last column, that of the data, certainly takes."""
    length = columns[-1].length if columns and columns[-1].type in _BOUNDED else 0
    return length if length > 0 else ROOM
