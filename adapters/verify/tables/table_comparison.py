"""The comparison of a table that a sink keeps with the rows that windows have seen, in a thread.

The target is scanned once, as of one moment (`TargetRows`). Its rows, the keys touched and the rows seen are
sorted into partitions by key. Tasks compare a partition at a time.

Some keys may have to be looked at again, and then the target is scanned once more. By that time others have
been written, which the first scan had decided. So its files are kept: scans are the only history that a table
has. The row that a scan has found is that of the key's last turn up to the scan's:

    turns      ── W: read ──── scan 1 ──── t: written ──── scan 2 ──►
    events     row of scan 1, turn 0 ──────── row of scan 2, turn t

Where nothing keeps a table from having several rows of a key, these equal nothing: the key counts as one row
too many, or as one that differs.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from adapters.verify.events.copied_events import SortSeen
from adapters.verify.failures import as_source_errors
from adapters.verify.partitions import keys_shown, partition_of, partitions_of, write_partitions
from adapters.verify.threaded_comparison import Cancellable, ThreadedComparison
from engine.errors import SourceError
from engine.verify.compared_digests import DIGEST, SEEN_ROWS
from engine.verify.comparison import COPIED, Keeps, compare
from engine.verify.copy import FIRST_KEYS, MOST_MENDED, ExtraRow, Findings
from engine.verify.settled import SEVERAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from engine.events.values.text import Ints
    from engine.ports.executors import Executors
    from engine.verify.copy import ComparisonRequest

Keys: TypeAlias = "dict[bytes, tuple[str | None, ...]]"
_TURNS: Final = 1 << 40
"""More than there are turns."""
_ROW_BYTES: Final = 64
"""What the delete of an extra row takes, about."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The target's rows after the turn `upto`, in files of COPIED, by partition. Goes to the executors."""

    upto: int
    paths: tuple[str, ...]
    partitions: int


@dataclass(frozen=True, slots=True)
class Work:
    """The directory for sorting, the file of the rows seen, their number, and earlier scans in order."""

    directory: str
    seen: str
    rows: int
    earlier: tuple[Scan, ...] = ()


@dataclass(frozen=True, slots=True)
class Ends:
    """What a comparison takes from its copy.

    `touched` gives batches of `touched_schema` of the turns up to one, each with the digests of its keys.
    `learn` is told the keys of rows that only the target has, if they are to be deleted, and the scan, whose
    files it must remove.
    """

    held: TargetRows
    touched: Callable[[int], Iterator[tuple[pa.Array, pa.RecordBatch]]]
    learn: Callable[[Keys, Scan], None]


class TargetRows(Cancellable, Protocol):
    """The target's rows as of one moment. Used by one thread; `cancel` by any. All raise SinkError."""

    def ready(self, upto: int, moments: Callable[[float], Iterator[None]]) -> int | None:
        """Have the target as of the turn `upto`, or of a later one, and return which.

        None: nothing can be compared with it. Who waits does so between `moments`, which are that many
        seconds apart and end by an error once the comparison is given up.
        """

    def size(self) -> int:
        """About how many bytes the rows take."""

    def sorted(
        self, into: str, partitions: int, while_wanted: Callable[[Iterable[pa.Table]], Iterator[pa.Table]]
    ) -> list[str]:
        """Write the rows to files of COPIED, by partition, as events of turn 0; returns their paths."""

    def keys(self, extra: Sequence[ExtraRow]) -> Keys:
        """The keys of these rows, as the target writes them."""


class TableComparison(ThreadedComparison):
    """A comparison in a thread, with a snapshot of the target."""

    def __init__(
        self,
        work: Work,
        ends: Ends,
        executors: Executors,
        asked: ComparisonRequest,
    ) -> None:
        self._work, self._ends = work, ends
        self._executors, self._asked = executors, asked
        self._kept = False
        super().__init__(ends.held)

    def _run(self) -> Findings:
        work = self._work
        shutil.rmtree(work.directory, ignore_errors=True)
        try:
            Path(work.directory).mkdir(parents=True)
            with as_source_errors():
                return self._compared()
        except OSError as error:
            hint = "make room there"
            raise SourceError(f"rows can't be sorted: {error}", where=work.directory, hint=hint) from error
        finally:
            if not self._kept:
                shutil.rmtree(work.directory, ignore_errors=True)
            self._ends.held.close()

    def _compared(self) -> Findings:
        work, held = self._work, self._ends.held
        upto = held.ready(self._asked.span.upto, self._moments)
        if upto is None:
            return Findings(stale=True)
        asked = replace(self._asked, span=replace(self._asked.span, upto=upto))
        earlier = work.earlier
        partitions = earlier[0].partitions if earlier else partitions_of(work.rows, held.size())
        rows = held.sorted(f"{work.directory}/rows", partitions, self._while_wanted)
        scan = Scan(upto, tuple(rows), partitions)
        touched = self._sorted_touched(upto, partitions)
        seen = SortSeen(work.directory, partitions)(work.seen)
        scans = (*work.earlier, scan)
        task = ComparePartition(tuple(sorted_file.path for sorted_file in seen), scans, tuple(touched), asked)
        found = reduce(or_, self._executors.map(task, range(partitions)), Findings())
        keys = held.keys(found.extra)
        for path in (*touched, *(sorted_file.path for sorted_file in seen)):
            Path(path).unlink(missing_ok=True)
        self._kept = not self._given_up.is_set()
        self._ends.learn(keys if self._asked.mends else {}, scan)
        first = tuple(
            orjson.dumps(list(keys[row.key])).decode() for row in found.extra[:FIRST_KEYS] if row.key in keys
        )
        return replace(found, first=found.first | {"extra": first})

    def _sorted_touched(self, upto: int, partitions: int) -> list[str]:
        """Files of the keys touched up to a turn, as events of COPIED without rows."""
        paths: list[str] = []
        for keys, batch in self._ends.touched(upto):
            paths.append(f"{self._work.directory}/touched-{len(paths)}.arrow")
            write_partitions(paths[-1], self._deletes(keys, batch), partitions)
        return paths

    def _deletes(self, keys: pa.Array, batch: pa.RecordBatch) -> pa.Table:
        none = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        late = pc.greater(batch.column("turn"), self._asked.look)
        ahead = pc.and_(batch.column("update"), late)
        rows = pa.nulls(batch.num_rows, DIGEST)
        columns = [keys, rows, batch.column("turn"), none, none, none, batch.column("lacks"), ahead]
        return pa.Table.from_arrays(columns, schema=COPIED)


@dataclass(frozen=True, slots=True)
class StaleComparison:
    """A comparison that can't be made: everything must be read again."""

    def poll(self) -> Findings:
        """Say so."""
        return Findings(stale=True)

    def close(self) -> None:
        """Do nothing: there is no comparison to continue."""


@dataclass(frozen=True, slots=True)
class ComparePartition:
    """The task that compares a partition of the rows seen with that of the target's rows."""

    seen: tuple[str, ...]
    scans: tuple[Scan, ...]
    touched: tuple[str, ...]
    asked: ComparisonRequest

    def __call__(self, partition: int) -> Findings:
        """What differs in a partition. `extra` has places of the target's rows instead of an event's."""
        seen = partition_of(self.seen, partition, SEEN_ROWS)
        scans = [(scan.upto, once(partition_of(scan.paths, partition, COPIED))) for scan in self.scans]
        copied = as_events(scans, partition_of(self.touched, partition, COPIED))
        turns_compared = self.asked.span.since, self.asked.span.upto
        found = compare(seen, copied, (), turns_compared, Keeps.ROWS)
        undecided = seen.take(pa.array(found.undecided)).select(["merge_key", "key"]).to_pylist()
        # Rows that share their key all go, before the right one is sent.
        several = _several(seen, found.different, scans[-1][1])
        different = found.different[~several]
        numbers = {"missing": found.missing.tolist(), "different": different.tolist(), "older": []}
        wrong = [*numbers["missing"], *numbers["different"]][:MOST_MENDED] if self.asked.mends else []
        turns = copied.column("turn").to_numpy()[found.extra]
        unread = found.extra[turns <= self.asked.known]
        most = MOST_MENDED if self.asked.mends else FIRST_KEYS
        places = pc.index_in(
            seen.column("key").take(pa.array(found.different[several])), copied.column("key")
        )
        extra = np.concatenate((unread, places.to_numpy().astype(np.int64)))
        return Findings(
            found.equal,
            found.changed,
            {kind: len(rows) for kind, rows in numbers.items()} | {"extra": len(extra)},
            {kind: keys_shown(seen, rows[:FIRST_KEYS]) for kind, rows in numbers.items()},
            tuple((row["merge_key"], row["key"]) for row in undecided),
            tuple(seen.column("merge_key").take(pa.array(wrong, pa.int64())).to_pylist()),
            tuple(
                ExtraRow(row["key"], 0, row["part"], row["offset"], _ROW_BYTES)
                for row in copied.take(pa.array(extra[:most])).to_pylist()
            ),
            len(found.extra) - len(unread),
        )


def once(rows: pa.Table) -> pa.Table:
    """Rows of COPIED, one for each key. One that stands for several rows has a digest that equals nothing."""
    if not len(rows):
        return rows
    coded = rows.column("key").combine_chunks().dictionary_encode()
    if len(coded.dictionary) == len(rows):
        return rows
    ids = coded.indices.to_numpy(zero_copy_only=False)
    _ids, first, counts = np.unique(ids, return_index=True, return_counts=True)
    kept = rows.take(pa.array(first))
    digests = pc.if_else(pa.array(counts > 1), pa.scalar(SEVERAL, DIGEST), kept.column("row"))
    place = COPIED.get_field_index("row")
    return kept.set_column(place, COPIED.field(place), digests)


def _several(seen: pa.Table, rows: Ints, held: pa.Table) -> NDArray[np.bool_]:
    """For which of these rows seen the table has several."""
    shared = held.filter(pc.equal(held.column("row"), pa.scalar(SEVERAL, DIGEST))).column("key")
    found = pc.is_in(seen.column("key").take(pa.array(rows)), value_set=shared.combine_chunks())
    several: NDArray[np.bool_] = found.to_numpy()
    return several


def as_events(scans: Sequence[tuple[int, pa.Table]], touched: pa.Table) -> pa.Table:
    """What is known of a table, as events: its rows after some turns, oldest first, and all keys touched.

    A row is the event of the turn that touched it last before its scan, or of turn 0. An earlier scan's
    counts only if its key was touched before the next scan. Of all other turns that touched keys nothing is
    known: they are events without a row.
    """
    keys = pa.chunked_array(
        [
            chunk
            for table in (touched, *(rows for _upto, rows in scans))
            for chunk in table.column("key").chunks
        ],
        DIGEST,
    )
    ids = keys.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    places = ids[: len(touched)] * _TURNS + touched.column("turn").to_numpy()
    order = np.argsort(places, kind="stable")
    places = places[order]
    last = np.append(places[1:] != places[:-1], np.ones(min(1, len(places)), np.bool_))
    places, touches = places[last], touched.take(pa.array(order[last]))
    unknown = np.ones(len(places), np.bool_)
    found: list[pa.Table] = []
    begin = len(touched)
    for number, (upto, rows) in enumerate(scans):
        its = ids[begin : begin + len(rows)]
        begin += len(rows)
        at = _last_up_to(places, its, upto)
        counts = np.arange(len(rows))
        if number + 1 < len(scans):
            counts = np.flatnonzero(at != _last_up_to(places, its, scans[number + 1][0]))
        at = at[counts]
        unknown[at[at >= 0]] = False
        found.append(_as_of(rows.take(pa.array(counts)), touches, at))
    return pa.concat_tables([*found, touches.take(pa.array(np.flatnonzero(unknown)))])


def _last_up_to(places: Ints, ids: Ints, turn: int) -> Ints:
    """Where the last touch of each key up to a turn stands; -1 if there is none."""
    found = np.searchsorted(places, ids * _TURNS + turn, side="right") - 1
    known = found >= 0
    known[known] = places[found[known]] // _TURNS == ids[known]
    return np.where(known, found, -1)


def _as_of(rows: pa.Table, touches: pa.Table, at: Ints) -> pa.Table:
    """Rows as events of these touches, of turn 0 where there is none."""
    for name, none in (("turn", 0), ("lacks", False), ("ahead", False)):
        known = np.append(touches.column(name).to_numpy(), none)[at]  # -1: the one appended
        place = COPIED.get_field_index(name)
        column = pa.chunked_array([pa.array(known, COPIED.types[place])])
        rows = rows.set_column(place, COPIED.field(place), column)
    return rows


def held_rows(keys: pa.Array, rows: pa.Array, blocks: pa.Array, items: pa.Array) -> pa.Table:
    """Rows of the target as events of turn 0, with their places as part and offset."""
    none = pa.repeat(pa.scalar(0, pa.int64()), len(keys))
    no = pa.repeat(pa.scalar(False), len(keys))  # noqa: FBT003
    return pa.Table.from_arrays([keys, rows, none, blocks, items, none, no, no], schema=COPIED)
