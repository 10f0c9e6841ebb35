"""Judges a partition of the rows seen and of those that a table holds. Runs in tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from adapters.verify.partitions import keys_shown, partition_of
from engine.verify.compared_digests import SEEN_ROWS
from engine.verify.copy import FIRST_KEYS, Findings
from engine.verify.settled import DIFFERENCES, HELD, TOUCHED, HeldPlace, Since, judge


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Files by partition: rows seen, rows held, keys touched. `before` has a file for each partition."""

    seen: tuple[str, ...]
    held: tuple[str, ...]
    touched: tuple[str, ...]
    before: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JudgedPartition:
    """The findings, the positions of the first extra rows, and the file of the differences."""

    findings: Findings
    extra: tuple[HeldPlace, ...]
    path: str


@dataclass(frozen=True, slots=True)
class JudgePartition:
    """The task. What differs is written to files whose names begin with `into`.

    `since` lacks the tables. At most `most_again` keys are named that must be looked at again.
    """

    sorted: SortedRows
    into: str
    since: Since
    most_again: int

    def __call__(self, partition: int) -> JudgedPartition:
        """Judge a partition."""
        files = self.sorted
        seen = partition_of(files.seen, partition, SEEN_ROWS)
        held = partition_of(files.held, partition, HELD)
        touched = partition_of(files.touched, partition, TOUCHED)
        before = DIFFERENCES.empty_table()
        if files.before:
            with pa.memory_map(files.before[partition]) as file, pa.ipc.open_file(file) as stream:
                before = stream.read_all()
        found = judge(seen, held, replace(self.since, differences=before, touched=touched))
        path = f"{self.into}-{partition}.arrow"
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, DIFFERENCES) as stream:
            stream.write_table(found.differences)
        again = [
            row
            for table, rows in ((seen, found.again), (held, found.unseen))
            for row in table.take(pa.array(rows[: self.most_again])).select(["merge_key", "key"]).to_pylist()
        ][: self.most_again]
        numbers = {"missing": found.missing, "different": found.different}
        findings = Findings(
            found.equal,
            found.changed,
            {kind: len(rows) for kind, rows in numbers.items()} | {"extra": len(found.extra)},
            {kind: keys_shown(seen, rows[:FIRST_KEYS]) for kind, rows in numbers.items()},
            tuple((row["merge_key"], row["key"]) for row in again),
            more=len(found.again) + len(found.unseen) - len(again),
            unsettled=found.unread,
        )
        extra = held.take(pa.array(found.extra[:FIRST_KEYS])).select(["place", "key"]).to_pylist()
        return JudgedPartition(findings, tuple(HeldPlace(row["place"], row["key"]) for row in extra), path)
