"""Change events as the rows of a change table: an update becomes two rows if its event has the row before.

The rows have the table's columns and these:

- `_change_type`: `insert` (also for rows that a snapshot read), `update_preimage`, `update_postimage`,
  `delete`, and `truncate`, whose columns are null.
- `_commit_version`: the number of the turn; of a Kafka record, its offset.
- `_commit_timestamp`: when the transaction was committed; of a row that a snapshot read, when it was read.
- `_sequence`: the place of the event. It orders all rows of the change table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.lake.column_types import TEXT_SUFFIX, column, column_type, exactly, has_text
from engine.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from adapters.lake.event_lines import ParsedEvents
    from adapters.lake.turn_files import Piece
    from engine.events.record.schema import Schema
    from engine.events.values.text import Ints

SEQUENCE: Final = pa.struct(
    [("turn", pa.int64()), ("part", pa.int32()), ("offset", pa.int64()), ("image", pa.int32())]
)
CHANGE_COLUMNS: Final = pa.schema(
    [
        pa.field("_change_type", pa.string(), nullable=False),
        pa.field("_commit_version", pa.int64(), nullable=False),
        pa.field("_commit_timestamp", pa.timestamp("us", "UTC")),
        pa.field("_sequence", SEQUENCE, nullable=False),
    ]
)
_TYPES: Final = {
    "c": "insert",
    "r": "insert",
    "u": "update_postimage",
    "d": "delete",
    "t": "truncate",
}
_BEFORE, _AFTER = 0, 1
_TEXT: Final = pa.string()


class EventPositions(NamedTuple):
    """Where events stand, and the version that each belongs to."""

    versions: Ints
    turns: Ints
    parts: Ints
    offsets: Ints


def places_in(piece: Piece, begins: Ints) -> EventPositions:
    """The places of lines of a piece."""
    turns = np.full(len(begins), piece.turn, np.int64)
    return EventPositions(turns, turns, np.full(len(begins), piece.part, np.int64), begins)


def row_schema(envelope: Schema, topic: str) -> Schema:
    """The schema of a table's rows. Raises ConfigError if the events don't have any."""
    members = dict(envelope.fields)
    row = members.get("after")
    if row is None or row.type != "struct" or not {"op", "source", "before"} <= members.keys():
        raise ConfigError(
            f"the events of {topic!r} are no changes of a table's rows", hint="name the topic of a table"
        )
    return row


def change_schema(envelope: Schema, topic: str) -> pa.Schema:
    """The columns of a topic's change table."""
    row = row_schema(envelope, topic)
    taken = {name for name, _schema in row.fields}
    fields = []
    for name, schema in row.fields:
        fields.append(pa.field(name, column_type(schema)))
        if has_text(schema) and name + TEXT_SUFFIX not in taken:
            fields.append(pa.field(name + TEXT_SUFFIX, _TEXT))
    if clash := taken & set(CHANGE_COLUMNS.names):
        raise ConfigError(
            f"the table of {topic!r} has columns with names of the change table's: {sorted(clash)}"
        )
    return pa.schema([*fields, *CHANGE_COLUMNS])


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Makes the rows of a change table with these columns. `ignores`: whether it may leave columns out."""

    topic: str
    columns: pa.Schema
    ignores: bool = False

    def rows(self, events: ParsedEvents, places: EventPositions) -> pa.RecordBatch:
        """The rows of these events, in order."""
        row = row_schema(events.schema, self.topic)
        envelopes = dict(zip(events.envelopes.type.names, events.envelopes.flatten(), strict=True))
        at, image, types = _images(envelopes)
        images = pa.concat_arrays([envelopes["before"], envelopes["after"]])
        values = images.take(pa.array(at + np.where(image == _BEFORE, 0, len(events.begins))))
        made = self._columns(values, row)
        made |= {
            "_change_type": types,
            "_commit_version": pa.array(places.versions[at]),
            "_commit_timestamp": _commit_times(envelopes["source"]).take(pa.array(at)),
            "_sequence": _sequence(places, at, types),
        }
        arrays = [
            made[field.name] if field.name in made else pa.nulls(len(at), field.type)
            for field in self.columns
        ]
        return pa.RecordBatch.from_arrays(
            [self._cast(array, field) for array, field in zip(arrays, self.columns, strict=True)],
            schema=self.columns,
        )

    def _columns(self, values: pa.StructArray, row: Schema) -> dict[str, pa.Array]:
        """The table's own columns by name, with the texts of what they can't hold."""
        made: dict[str, pa.Array] = {}
        wanted, own = set(self.columns.names), {name for name, _schema in row.fields}
        for (name, schema), array in zip(row.fields, values.flatten(), strict=True):
            if name not in wanted:
                self._refuse_unknown(name)
                continue
            if self._raw(name, schema):
                made[name] = pc.cast(array, _plain(array.type))
                continue
            made[name], texts = column(array, schema)
            if texts is None or texts.null_count == len(texts):
                continue
            if name + TEXT_SUFFIX not in wanted or name + TEXT_SUFFIX in own:
                raise ConfigError(
                    f"a value of {name!r} of {self.topic!r} does not fit into its type",
                    hint=f"add {name + TEXT_SUFFIX} STRING to the schema, or read {name!r} as BIGINT",
                )
            made[name + TEXT_SUFFIX] = texts
        return made

    def _raw(self, name: str, schema: Schema) -> bool:
        """Whether a date or time is wanted as the number that the event has."""
        return has_text(schema) and pa.types.is_integer(self.columns.field(name).type)

    def _refuse_unknown(self, name: str) -> None:
        if not self.ignores:
            raise ConfigError(
                f"the query lacks the column {name!r}, which events of {self.topic!r} have",
                hint="start the query again to read it; where the table has lost the column since, name all"
                " columns with .schema(), or leave out other columns with"
                ' .option("unknownColumns", "ignore")',
            )

    def _cast(self, array: pa.Array, field: pa.Field) -> pa.Array:
        if array.type == field.type:
            return array
        cause = None
        try:
            made = exactly(array, field.type)
        except pa.ArrowInvalid:
            made = None  # Arrow's own message quotes the value.
        except pa.ArrowNotImplementedError as error:
            made, cause = None, error
        if made is None:
            raise ConfigError(
                f"the column {field.name!r} of {self.topic!r} does not fit into {field.type}",
                hint="name a type in .schema() that holds all its values, such as STRING",
            ) from cause
        return made


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date(kind) else pa.int64()


def _images(envelopes: dict[str, pa.Array]) -> tuple[Ints, Ints, pa.Array]:
    """For each row its event, whether it is the image before or after, and its type; in order."""
    ops = envelopes["op"].to_numpy(zero_copy_only=False)
    unknown = set(ops) - _TYPES.keys()
    if unknown:
        raise SourceError(f"unknown operations: {sorted(map(str, unknown))}")
    preceded = np.flatnonzero((ops == "u") & envelopes["before"].is_valid().to_numpy(zero_copy_only=False))
    at = np.concatenate((preceded, np.arange(len(ops))))
    image = np.concatenate((np.full(len(preceded), _BEFORE), np.where(ops == "d", _BEFORE, _AFTER)))
    names = np.array([_TYPES[op] for op in ops], object)
    types = np.concatenate((np.full(len(preceded), "update_preimage", object), names))
    order = np.lexsort((np.concatenate((np.zeros(len(preceded)), np.ones(len(ops)))), at))
    return at[order], image[order], pa.array(types[order], _TEXT)


def _commit_times(source: pa.StructArray) -> pa.Array:
    names = source.type.names
    if "ts_us" in names:
        return pc.cast(source.field("ts_us"), pa.timestamp("us", "UTC"))
    return pc.cast(pc.cast(source.field("ts_ms"), pa.timestamp("ms", "UTC")), pa.timestamp("us", "UTC"))


def _sequence(places: EventPositions, at: Ints, types: pa.Array) -> pa.StructArray:
    image = pc.if_else(pc.equal(types, "update_preimage"), pa.scalar(_BEFORE, pa.int32()), _AFTER)
    return pa.StructArray.from_arrays(
        [
            pa.array(places.turns[at]),
            pa.array(places.parts[at], pa.int32()),
            pa.array(places.offsets[at]),
            pc.cast(image, pa.int32()),
        ],
        fields=list(SEQUENCE),
    )
