"""Row entries of the log, grouped by relation and form, with their tuples read but not yet encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.postgres.log.pgoutput import Messages, Tuples, parse_truncate, read_messages, read_tuples
from engine.events.damaged import reading_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.events.codec import TableCodec
    from engine.events.record.field import Mask
    from engine.events.values.text import Ints, Text

_ROWS = np.isin(np.arange(256), list(b"IUD"))
_TRUNCATE, _OLD_ROW = ord("T"), ord("O")


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows of one relation and one form. `op` is c, u or d; `messages` are their numbers, ascending.

    `old` is None where the log carries no old tuple. `full` says whether the old tuple has all columns
    (REPLICA IDENTITY FULL) or only those of the identity. Unchanged values that the old tuple has are already
    filled in.
    """

    oid: int
    op: str
    messages: Ints
    new: Tuples | None
    old: Tuples | None
    full: bool = False


def relations_in(payloads: pa.Array) -> frozenset[int]:
    """The oids of the relations whose rows the messages contain or that they truncate."""
    messages = read_messages(payloads)
    rows = messages.starts[_ROWS[messages.kinds]]
    found = {int(oid) for oid in np.unique(messages.int32(rows + 1))}
    for number in np.flatnonzero(messages.kinds == _TRUNCATE):
        found |= set(parse_truncate(bytes(messages.data[messages.starts[number] : messages.ends[number]])))
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one relation and one form that are not read yet."""

    messages: Messages
    numbers: Ints
    codec: TableCodec
    form: int

    @property
    def oid(self) -> int:
        """The relation's oid."""
        return self.form >> 16

    def read(self) -> Entries:
        """Read the rows. Raises SourceError if they do not match their relation."""
        return _entries(self.messages, self.numbers, self.codec, self.form)


def row_groups(messages: Messages, codecs: Mapping[int, TableCodec]) -> Iterator[Group]:
    """Group the rows of captured relations. Raises SourceError if a message ends too soon."""
    rows = np.flatnonzero(_ROWS[messages.kinds])
    if len(rows) == 0:
        return
    at = messages.starts[rows]
    oids = messages.int32(at + 1)
    with reading_bytes("a row of the log"):
        forms = (oids << 16) + (messages.kinds[rows].astype(np.int64) << 8) + messages.data[at + 5]
    order = np.argsort(forms, kind="stable")
    edges = np.flatnonzero(np.diff(forms[order])) + 1
    for group in np.split(order, edges):
        form = int(forms[group[0]])
        codec = codecs.get(form >> 16)
        if codec is not None:
            yield Group(messages, rows[group], codec, form)


def _entries(messages: Messages, numbers: Ints, codec: TableCodec, form: int) -> Entries:
    oid, kind, mark = form >> 16, chr(form >> 8 & 0xFF), form & 0xFF
    at = messages.starts[numbers] + 6
    width = len(codec.columns)
    if kind == "I":
        return Entries(oid, "c", numbers, read_tuples(messages, at, width)[0], None)
    full = mark == _OLD_ROW
    if kind == "D":
        return Entries(oid, "d", numbers, None, read_tuples(messages, at, width)[0], full)
    if mark == ord("N"):
        return Entries(oid, "u", numbers, read_tuples(messages, at, width)[0], None)
    old, ends = read_tuples(messages, at, width)
    new, _ = read_tuples(messages, ends + 1, width)
    return Entries(oid, "u", numbers, _filled(new, old, codec.never_filled), old, full)


def _filled(new: Tuples, old: Tuples, never: frozenset[int]) -> Tuples:
    """Fill unchanged values of the new tuples in from the old ones.

    This matters even where the old tuple has only the identity: if the key is stored out of line, the server
    logs the old tuple without a key change, and the new tuple lacks the key. The columns `never` are left as
    they are.
    """
    marks = [None if i in never else mark for i, mark in enumerate(new.unchanged)]
    columns = [_fill(column, old.columns[i], marks[i]) for i, column in enumerate(new.columns)]
    left = [new.unchanged[i] if i in never else _left(mark, old.columns[i]) for i, mark in enumerate(marks)]
    return Tuples(columns, left)


def _fill(column: Text, old: Text, mark: Mask | None) -> Text:
    return column if mark is None else pc.if_else(pa.array(mark), old, column)


def _left(mark: Mask | None, old: Text) -> Mask | None:
    """The rows whose unchanged value the old tuple lacks too; such a value is never NULL."""
    if mark is None or not old.null_count:
        return None
    both: Mask = mark & old.is_null().to_numpy(zero_copy_only=False)
    return both if both.any() else None
