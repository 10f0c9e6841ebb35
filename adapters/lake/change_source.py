"""Spark's own interface to changes: `spark.read` and `spark.readStream` with `format("tidemark")`.

Owns the options and the offsets of a query. A turn of the files sink never changes, so the same offsets give
the same rows: with Spark's checkpoint a query reads each change exactly once. An offset names the directory,
because the turns of another one have the same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from adapters.lake.change_rows import ChangeRows, change_schema, places_in
from adapters.lake.event_lines import newest_schema, parsed_events
from adapters.lake.spark_schema import arrow_schema
from adapters.lake.turn_files import Piece, TurnFiles, read_lines
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from engine.events.record.schema import Schema

_OPTIONS: Final = ("path", "topic", "startingVersion", "endingVersion", "unknownColumns")
_TASK_BYTES: Final = 64 << 20


class Pieces(InputPartition):
    """What one task reads."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)


class Query:
    """The options of a query, checked. Raises ConfigError."""

    def __init__(self, options: Mapping[str, str]) -> None:
        names = {name.lower(): name for name in _OPTIONS}
        given = {names.get(name.lower(), name): value for name, value in options.items()}
        if unknown := sorted(given.keys() - set(_OPTIONS)):
            raise ConfigError(f"no option {unknown[0]!r}; known: {', '.join(_OPTIONS)}")
        self.files = TurnFiles(_required(given, "path", "name the files sink's directory with load()"))
        self.topic = _required(given, "topic", "such as shop.public.orders")
        self.first = _number(given, "startingVersion") or 1
        self.last = _number(given, "endingVersion")
        choice = given.get("unknownColumns", "fail")
        if choice not in {"fail", "ignore"}:
            raise ConfigError(f"unknownColumns is 'fail' or 'ignore', not {choice!r}")
        self.ignores = choice == "ignore"

    def schema(self) -> Schema:
        """The schema of the newest events. Raises ConfigError if there are none."""
        turns = self.files.turns(self.first - 1, self.last)
        for turn in reversed(turns):
            found = None
            for piece in self.files.pieces([turn]):
                for lines in read_lines(piece):
                    found = newest_schema(lines, self.topic) or found
            if found is not None:
                return found
        raise ConfigError(
            f"there are no events of {self.topic!r} yet, so its columns are unknown",
            hint="name them with .schema(), or wait for the first event",
        )


def _required(given: Mapping[str, str], name: str, hint: str) -> str:
    if not given.get(name):
        raise ConfigError(f"the option {name!r} is missing", hint=hint)
    return given[name]


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise ConfigError(f"{name} is a turn's number, not {text!r}")
    return int(text)


def tasks(pieces: Iterable[Piece], most: int = _TASK_BYTES) -> list[Pieces]:
    """Pieces for tasks, in order; a task gets about `most` bytes."""
    found: list[Pieces] = []
    taken, size = list[Piece](), 0
    for piece in pieces:
        length = piece.end - piece.begin
        if taken and size + length > most:
            found.append(Pieces(taken))
            taken, size = [], 0
        taken.append(piece)
        size += length
    if taken:
        found.append(Pieces(taken))
    return found


def changes(pieces: Iterable[Piece], rows: ChangeRows) -> Iterator[pa.RecordBatch]:
    """The change rows of pieces."""
    for piece in pieces:
        for lines in read_lines(piece):
            for events in parsed_events(lines, rows.topic):
                yield rows.rows(events, places_in(piece, events.begins))


class _ChangeReading:
    """What both readers share."""

    def __init__(self, query: Query, schema: StructType) -> None:
        self._query = query
        self._rows = ChangeRows(query.topic, arrow_schema(schema), query.ignores)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a task's pieces; none for no task."""
        pieces = partition.pieces if isinstance(partition, Pieces) else ()
        return changes(pieces, self._rows)


class ChangeReader(_ChangeReading, DataSourceReader):
    """Reads the changes that are committed when the query is planned."""

    def partitions(self) -> list[Pieces]:
        """One per task."""
        query = self._query
        return tasks(query.files.pieces(query.files.turns(query.first - 1, query.last)))


class ChangeStreamReader(_ChangeReading, DataSourceStreamReader):
    """Reads changes as they are committed. An offset is the last turn that has been read."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  PySpark's name
        """Before the first turn."""
        return self._offset(self._query.first - 1)

    # Since PySpark 4.2 it may also be given a start and a limit; without them it is called as before.
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override,unused-ignore]  # noqa: N802
        """The newest turn, never one before the first that is asked for."""
        before = self._query.first - 1
        return self._offset(max(self._query.files.turns(before), default=before))

    def _offset(self, turn: int) -> dict[str, Any]:
        return {"directory": self._query.files.identity(), "turn": turn}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Pieces]:
        """The turns behind `start`, up to `end`. Raises ConfigError if they are not those of before."""
        files = self._query.files
        if {start["directory"], end["directory"]} != {files.identity()}:
            raise ConfigError(
                "the query has read another directory before",
                hint="read that one, or start over with an empty checkpointLocation",
            )
        if end["turn"] < start["turn"]:
            raise ConfigError(
                f"the directory ends before turn {start['turn']}, which the query has read",
                hint="never remove the newest turn",
            )
        return tasks(files.pieces(files.turns(start["turn"], end["turn"])))


class ChangeSource(DataSource):
    """The format `tidemark`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "tidemark"

    def schema(self) -> StructType:
        """The columns of the newest events, and those of a change table."""
        query = Query(self.options)
        return from_arrow_schema(change_schema(query.schema(), query.topic), prefer_timestamp_ntz=True)

    def reader(self, schema: StructType) -> ChangeReader:
        """For `spark.read`."""
        return ChangeReader(Query(self.options), schema)

    def streamReader(self, schema: StructType) -> ChangeStreamReader:  # noqa: N802  PySpark's name
        """For `spark.readStream`."""
        if "endingversion" in {name.lower() for name in self.options}:
            raise ConfigError("a stream has no endingVersion", hint="use spark.read for a range of turns")
        return ChangeStreamReader(Query(self.options), schema)
