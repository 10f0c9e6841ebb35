"""The JDBC sink: tables in PostgreSQL that are kept equal to their sources, exactly once.

Owns what a turn is. Its parts wait as files. A commit folds them, table by table, to the last event of each
key, and writes all tables and the turn's number in one transaction (`turns.py`). So a turn is there whole or
not at all, whenever the process, the machine or the connection dies. A commit whose outcome is unknown is
settled by asking for the number, which waits for the transaction to end.

A table that refuses its rows takes its topics out of the turn: the transaction is rolled back, and the turn
is begun again without them.
"""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg

from adapters.jdbc.connection import Target, is_tables_fault, message_of
from adapters.jdbc.folding.fold import Fold
from adapters.jdbc.folding.turn_events import PlacedBatch, TurnEvents
from adapters.jdbc.parts import Removal, packed, removal_of, topic_of, unpacked
from adapters.jdbc.table import Table, TableGoneError, naming
from adapters.jdbc.touched_keys import TouchedKeys
from adapters.jdbc.turns import Claimant, Turns
from adapters.staging.turn_parts import ArrowPart, ArrowParts, Staging, number, written_files
from engine.config.sinks.settings import TopicRecreated
from engine.errors import SinkError, SinkRefused, TopicRemade, TopicsRefused
from engine.events.batch import EventForm
from engine.staging.column_rows import ColumnRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from adapters.jdbc.placeholders import Placeholders
    from adapters.jdbc.settings import JdbcSettings
    from adapters.lake.table_name import TableName
    from engine.model import Part
    from engine.ports.sink import PartWriter


class Holder(NamedTuple):
    """Who writes: the job's name, the process, and its lease on the checkpoint."""

    job: str
    owner: str
    checkpoint: str = ""
    epoch: int = 0


class JdbcSink:
    """Writes turns to the database of `settings`; parts wait below `directory`."""

    form: Final = EventForm.COLUMNS
    row_form: Final = ColumnRows()

    def __init__(
        self, settings: JdbcSettings, directory: Path | str, holder: Holder, placeholders: Placeholders
    ) -> None:
        self._settings, self._directory = settings, Path(directory).absolute()
        self.database, self.job = settings.database, holder.job
        self._naming = naming(settings.database.table_format)
        self._staging = Staging(self._directory)
        # Names of sessions are cut at 63 bytes.
        session = f"tidemark sink {_digest(holder.job)}"
        self._target = Target(settings.database, session)
        self._turns = Turns(Claimant(*holder._replace(checkpoint=_digest(holder.checkpoint)), session))
        self._placeholders = placeholders
        self._session: psycopg.Connection | None = None
        self._tables: dict[TableName, Table] = {}
        self._entered = self._claimed = self._resumed = False
        self._committed: int | None = None
        self._withheld: frozenset[str] = frozenset()
        self._written: frozenset[str] = frozenset()
        # Beside the staging directory, whose content each attempt removes.
        self.touched = TouchedKeys(self._directory.with_name(f"{self._directory.name}-touched"))
        self._attempt = self._directory

    def writer(self, turn: int) -> PartWriter:
        """Begin a turn."""
        self._claim()
        if self._committed is not None and turn <= self._committed:
            raise SinkRefused(
                f"turn {turn} is committed already",
                where=self._target.address,
                hint="use the checkpoint that belongs to these tables",
            )
        self._withheld = frozenset()
        self._attempt = self._staging.begin(turn)
        return ArrowParts(self._attempt)

    def withhold(self, parts: Sequence[Part], topic: str) -> Iterator[pa.RecordBatch]:
        """Leave a topic's events out of the turn, and return them as records."""
        self._withheld |= {topic}
        found = [
            batch for _part, batch in _events(_written(self._attempt, parts)) if topic_of(batch) == topic
        ]
        return (packed(batch) for batch in found)

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        """Apply the turn's events and note its number, in one transaction."""
        if turn == self._committed:
            return
        self._staging.begun(turn)
        written = list(_written(self._attempt, parts))
        tables, removals = self._by_table(written), _removals(written)
        self.touched.begin()
        with self._target.connection() as connection:
            self._know(connection)
            known = frozenset(self._tables)
            with connection.transaction():
                self._refuse_gap(self._turns.lock(connection), turn)
                for name in sorted(tables):
                    fold = self._apply(connection, name, tables[name], known=name in known)
                    self.touched.note(turn, _topics(tables[name]), fold)
                for removal in removals:
                    self._table(removal.table).delete(connection, removal.key, removal.rows)
                self._turns.save(connection, turn)
        self._written |= frozenset(map(str, tables))
        self._committed = turn
        self.touched.note_commit(turn)
        self._staging.clear()

    def resolve_commit(self, turn: int) -> bool:
        """Find out whether the turn's number is in the target. No earlier process can commit it any more."""
        self._claim()
        with self._target.connection() as connection:
            self._committed = self._turns.settle(connection)
        return self._committed is not None and turn <= self._committed

    def newest_turn(self) -> int | None:
        """The newest committed turn."""
        return self._look()[1]

    def resume(self, saved: Mapping[str, str]) -> None:
        """Take over from earlier processes, and learn which tables they have written."""
        if not self._resumed:
            self._written |= frozenset(saved)
            self._resumed = True
        self._claim()

    def memory(self) -> Mapping[str, str]:
        """The tables that were written; they are not to be missing later."""
        return dict.fromkeys(sorted(self._written), "")

    def identity(self) -> str:
        """The id that the target has for the job's tables."""
        return self._look()[0]

    def close(self) -> None:
        """Close the connection, and remove what was not committed."""
        self._target.close()
        self.touched.clear()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _look(self) -> tuple[str, int | None]:
        with self._target.connection() as connection:
            if not self._entered:
                self._turns.enter(connection)
                self._entered = True
            return self._turns.newest_turn(connection)

    def _claim(self) -> None:
        """Once, take the right to commit away from all earlier processes of the job."""
        if self._claimed:
            return
        self._look()
        with self._target.connection() as connection:
            self._turns.claim(connection)
            self._committed = self._turns.settle(connection)
        self._claimed = True

    def _refuse_gap(self, newest: int | None, turn: int) -> None:
        """A target that was restored from a backup lacks turns that the checkpoint counts on."""
        if newest is not None and newest != turn - 1:
            raise SinkRefused(
                f"the target's newest turn is {newest}, the checkpoint's {turn - 1}",
                where=self._target.address,
                hint="was the database restored? use an empty checkpoint, with tidemark.sink.ahead=repeat for"
                " one start, to take a new snapshot",
            )

    def _know(self, connection: psycopg.Connection) -> None:
        """Forget the tables of an earlier connection, whose staging tables are gone."""
        if self._session is not connection:
            self._session, self._tables = connection, {}

    def _by_table(self, written: Iterable[PlacedBatch]) -> dict[TableName, list[PlacedBatch]]:
        tables: dict[TableName, list[PlacedBatch]] = {}
        for part, batch in _events(written):
            topic = topic_of(batch) or ""
            tombstones = batch.column("op").null_count
            events = batch.filter(batch.column("op").is_valid()) if tombstones else batch
            if not events.num_rows or topic in self._withheld:
                continue
            source = events.column("source")[0].as_py()
            try:
                name = self._naming.table(topic, source)
            except SinkRefused as error:
                raise TopicsRefused({topic: error}) from error
            tables.setdefault(name, []).append(PlacedBatch(part, events))
        return tables

    def _apply(
        self, connection: psycopg.Connection, name: TableName, batches: list[PlacedBatch], *, known: bool
    ) -> Fold:
        """Write a table's events, and return what they were folded to.

        Raises TopicsRefused if it can't have them.
        """
        topics = _topics(batches)
        try:
            fold = Fold(TurnEvents(batches), self._placeholders)
            self._table(name).apply(connection, fold)
        except TableGoneError:
            raise self._gone(name, topics) from None
        except SinkRefused as error:
            refusal = error
        except psycopg.Error as error:
            if not is_tables_fault(error):
                raise
            if known:
                # Somebody may have altered the table. The next attempt looks at it anew.
                raise SinkError(message_of(error), where=str(name)) from error
            refusal = SinkRefused(message_of(error), where=str(name))
        else:
            return fold
        raise TopicsRefused(dict.fromkeys(topics, refusal)) from refusal

    def _table(self, name: TableName) -> Table:
        if name not in self._tables:
            written = str(name) in self._written
            self._tables[name] = Table(name, len(self._tables), self._settings.evolution, written=written)
        return self._tables[name]

    def _gone(self, name: TableName, topics: Sequence[str]) -> SinkError:
        """The error for a table that somebody has dropped; the next attempt creates it."""
        recreated, what = self._settings.recreated, f"the table {name}"
        if recreated is TopicRecreated.STOP:
            return SinkRefused(
                "the table was dropped, and what was written before is lost",
                where=str(name),
                hint="set tidemark.sink.topic.recreated=snapshot for one start, which takes one, or =warn",
            )
        self._written -= {str(name)}
        snapshot = recreated is TopicRecreated.SNAPSHOT
        return TopicsRefused({topic: TopicRemade(topic, snapshot=snapshot, what=what) for topic in topics})


def _written(attempt: Path, parts: Sequence[Part]) -> Iterator[PlacedBatch]:
    """What was written for a turn, in the order of its parts."""
    checksums = {part.number: part.checksum for part in parts}
    for path in written_files(attempt, parts):
        for batch in ArrowPart(path, checksums[number(path)]).batches():
            yield PlacedBatch(number(path), batch)


def _events(written: Iterable[PlacedBatch]) -> Iterator[PlacedBatch]:
    """The typed events among it."""
    for part, batch in written:
        if removal_of(batch) is None:
            typed = [batch] if topic_of(batch) is not None else unpacked(batch)
            yield from (PlacedBatch(part, events) for events in typed)


def _removals(written: Iterable[PlacedBatch]) -> list[Removal]:
    """What a repair deletes in this turn."""
    return [removal for _part, batch in written if (removal := removal_of(batch)) is not None]


def _topics(batches: Sequence[PlacedBatch]) -> list[str]:
    return sorted({topic_of(batch.events) or "" for batch in batches})


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
