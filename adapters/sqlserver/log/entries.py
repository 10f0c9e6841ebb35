"""Sorts the change rows of a part into log order, and splits them by capture instance. Pure.

An entry's number is its index in that order: by commit LSN, command id, change LSN and operation, over all
instances. An update is two rows, before (3) and after (4), which share both LSNs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from adapters.sqlserver.server.position import LogPosition
from adapters.sqlserver.server.rows import readable, row_shape
from engine.errors import SourceError
from engine.events.damaged import reading_bytes
from engine.events.values.row_texts import split_rows
from engine.events.values.text import Ints, Text, text_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adapters.sqlserver.server.table import Table
    from engine.events.codec import TableCodec
    from engine.events.values.row_form import RowMode, RowShape

DELETE, INSERT, BEFORE, AFTER = 1, 2, 3, 4
_OLD_UNKNOWN = frozenset(("text", "ntext", "image"))
_LSN = len("00000025:00000d98:00a2")
_COMMAND = 4
_WIDTH = _LSN + _COMMAND + _LSN + 1
_FIELDS = np.dtype([("commit", f"S{_LSN}"), ("command", ">u4"), ("change", f"S{_LSN}"), ("operation", "S1")])
Keys = npt.NDArray[np.bytes_]
"""Places as bytes that sort in log order: commit LSN, command id, change LSN, operation."""


@dataclass(frozen=True, slots=True)
class Instance:
    """How to decode the rows of one capture instance: its codec, and the shape and form of its texts.

    `filled` are the indexes of columns whose value an update omits from the old row when it leaves it
    unchanged.
    """

    codec: TableCodec
    shape: RowShape
    mode: RowMode
    filled: tuple[int, ...] = ()


def instance_of(table: Table, codec: TableCodec, mode: RowMode) -> Instance:
    """The instance of a table and its codec.

    An update that leaves a large value unchanged has NULL for it in the old row. In a NOT NULL column that
    can't be the value, so the new row's is used. For text, ntext and image the old row is always NULL, and
    the value unknown.
    """
    filled = (
        at
        for at, column in enumerate(readable(table))
        if column.large and not column.nullable and column.type not in _OLD_UNKNOWN
    )
    return Instance(codec, row_shape(table), mode, tuple(filled))


@dataclass(frozen=True, slots=True)
class Entries:
    """The rows of a part in log order: their positions, commits, instances and texts.

    `serials` number consecutive rows that share both LSNs, from 1.
    """

    keys: Keys
    instances: Ints
    operations: Ints
    commits: Text
    commands: Ints
    changes: Text
    committed: Text
    serials: Ints
    texts: Text

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.operations)

    def from_commit(self, lsn: str) -> int:
        """The number of the first entry of this commit or a later one."""
        return int(np.searchsorted(self.keys, np.bytes_(lsn.encode()), side="left"))

    def position(self, number: int) -> LogPosition:
        """The position of an entry."""
        commit, change = self.commits[number].as_py(), self.changes[number].as_py()
        return LogPosition(commit, int(self.commands[number]), change, int(self.operations[number]))


def in_order(batches: Sequence[pa.RecordBatch]) -> Entries:
    """All rows of the batches (raw change rows, see `changes.RAW`) in log order.

    Raises SourceError where a row's place can't be read.
    """
    with reading_bytes("a change row"):
        return _in_order(batches)


def _in_order(batches: Sequence[pa.RecordBatch]) -> Entries:
    columns = [_column(batches, name) for name in ("commit", "change", "committed", "r")]
    commits, changes, committed, texts = columns
    instances = _numbers(batches, "instance")
    operations = _numbers(batches, "operation")
    commands = _numbers(batches, "command")
    keys = _keys(commits, commands, changes, operations)
    if (keys[1:] < keys[:-1]).any():
        order = np.argsort(keys, kind="stable")
        keys, commands = keys[order], commands[order]
        instances, operations = instances[order], operations[order]
        commits, changes, committed, texts = (column.take(pa.array(order)) for column in columns)
    serials = _serials(keys)
    return Entries(keys, instances, operations, commits, commands, changes, committed, serials, texts)


def _column(batches: Sequence[pa.RecordBatch], name: str) -> Text:
    found = [batch.column(name).cast(pa.large_string()) for batch in batches]
    return found[0] if len(found) == 1 else pa.concat_arrays(found or [pa.array([], pa.large_string())])


def _numbers(batches: Sequence[pa.RecordBatch], name: str) -> Ints:
    found = [batch.column(name).to_numpy() for batch in batches]
    return np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64)


def _keys(commits: Text, commands: Ints, changes: Text, operations: Ints) -> Keys:
    rows = len(operations)
    raw = np.empty((rows, _WIDTH), np.uint8)
    raw[:, _LSN : _LSN + _COMMAND] = commands.astype(">u4").view(np.uint8).reshape(rows, _COMMAND)
    for column, start in ((commits, 0), (changes, _LSN + _COMMAND)):
        offsets, data = text_parts(column)
        raw[:, start : start + _LSN] = data[offsets[0] : offsets[-1]].reshape(rows, _LSN)
    raw[:, -1] = operations + ord("0")
    keys: Keys = raw.view(f"S{_WIDTH}").reshape(rows)
    return keys


def _same_lsns(keys: Keys, others: Keys) -> npt.NDArray[np.bool_]:
    """Whether both LSNs are equal, key by key."""
    ours, theirs = keys.view(_FIELDS), others.view(_FIELDS)
    same: npt.NDArray[np.bool_] = (ours["change"] == theirs["change"]) & (ours["commit"] == theirs["commit"])
    return same


def _serials(keys: Keys) -> Ints:
    """1, 2, … within consecutive rows that share commit and change."""
    same = _same_lsns(keys[1:], keys[:-1])
    starts = np.flatnonzero(np.concatenate([[True], ~same])) if len(keys) else np.zeros(0, np.int64)
    sizes = np.diff(np.append(starts, len(keys)))
    return np.arange(len(keys)) - np.repeat(starts, sizes) + 1


def new_groups(keys: Keys) -> Ints:
    """The entries whose commit differs from the previous entry's, including the first."""
    if not len(keys):
        return np.zeros(0, np.int64)
    groups = keys.astype(f"S{_LSN}")
    return np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))


@dataclass(frozen=True, slots=True)
class InstanceRows:
    """The rows of one instance: their numbers, operations, and columns of text."""

    instance: Instance
    numbers: Ints
    operations: Ints
    columns: list[Text]

    def of(self, operation: int) -> tuple[Ints, list[Text]]:
        """The numbers and columns of the rows of one operation."""
        rows = np.flatnonzero(self.operations == operation)
        return self.numbers[rows], self.rows(rows)

    def rows(self, rows: Ints) -> list[Text]:
        """The columns of some rows."""
        if len(rows) == len(self.numbers):
            return self.columns
        indices = pa.array(rows)
        return [column.take(indices) for column in self.columns]


def known_in(entries: Entries, instances: Mapping[int, Instance]) -> Iterator[tuple[int, Instance]]:
    """The known instances among those that have rows. Rows of other instances are skipped."""
    for index in np.unique(entries.instances).tolist():
        if (instance := instances.get(index)) is not None:
            yield index, instance


def of_instance(entries: Entries, index: int, instance: Instance) -> InstanceRows:
    """The rows of one instance.

    Raises SeparatorInData where they must be read again in the other form.
    """
    numbers = np.flatnonzero(entries.instances == index)
    whole = len(numbers) == len(entries)
    texts = entries.texts if whole else entries.texts.take(pa.array(numbers))
    columns = split_rows(texts, instance.shape, instance.mode)
    return InstanceRows(instance, numbers, entries.operations[numbers], columns)


def updates(rows: InstanceRows, entries: Entries) -> tuple[Ints, list[Text], list[Text]]:
    """The numbers of updates (of the row after), and the columns before and after.

    Raises SourceError where one of the two rows is missing.
    """
    old, before = rows.of(BEFORE)
    new, after = rows.of(AFTER)
    if len(old) != len(new) or not _same_lsns(entries.keys[old], entries.keys[new]).all():
        raise SourceError(
            f"the change table of {rows.instance.codec.collection} has an update with one of its two rows",
            hint="the change table may have been changed by hand; rows of an update share __$seqval",
        )
    for at in rows.instance.filled:
        before[at] = pc.coalesce(before[at], after[at])
    return new, before, after
