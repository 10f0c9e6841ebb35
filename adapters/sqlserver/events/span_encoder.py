"""Encodes a span: small parts in the driver, parts in files on the executors.

Owns the task that turns a part of the span into a part of the turn. Events go straight to the sink's writer;
only the facts about them return to the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adapters.source.table_faults import write_part
from adapters.sqlserver.events.decode import Decoded, Watch, decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.sqlserver.events.decode import Rules
    from adapters.sqlserver.events.schema_changes import SchemaChange
    from adapters.sqlserver.events.transactions import OpenTransaction
    from adapters.sqlserver.log.changes import Part
    from engine.ports import Executors, PartWriter


@dataclass(frozen=True, slots=True)
class PartTask:
    """One part of a span on its way to the sink."""

    part: Part
    number: int
    before: OpenTransaction | None = None
    changes: tuple[SchemaChange, ...] = ()


@dataclass(frozen=True, slots=True)
class EncodePart:
    """What to do with a part. Sent to the executors."""

    rules: Rules
    watch: Watch
    writer: PartWriter
    now_ms: int
    again: bool = False
    """Whether earlier parts may exist that hold events of a table that is now left out."""

    def __call__(self, task: PartTask) -> Decoded:
        """Decode, encode and write a part.

        Returns what was decoded, with the written part instead of the events.
        """
        batches = task.part.load()
        decoded = decode(batches, self.rules, self.watch, self.now_ms, task.before, task.changes)
        return write_part(self.writer, task.number, decoded, again=self.again)


class SpanEncoder:
    """Encodes spans. Parts that lie in files go to the executors."""

    def __init__(self, executors: Executors) -> None:
        self._executors = executors

    def encode(
        self,
        task: EncodePart,
        parts: Sequence[Part],
        before: OpenTransaction | None,
        changes: Sequence[SchemaChange] = (),
    ) -> list[Decoded]:
        """The parts' facts, in order. `before` is the transaction that the last span left open.

        Schema changes go into the first part, so that a table's shape precedes its rows.
        """
        tasks = [PartTask(part, number) for number, part in enumerate(parts)]
        if tasks and changes:
            tasks[0] = replace(tasks[0], changes=tuple(changes))
        if task.rules.settings.transaction_metadata:
            return _one_by_one(task, tasks, before)
        if any(part.files for part in parts):
            return self._executors.map(task, tasks)
        return [task(one) for one in tasks]


def _one_by_one(task: EncodePart, tasks: Sequence[PartTask], before: OpenTransaction | None) -> list[Decoded]:
    """Encode the parts in sequence, since transaction counters pass from part to part."""
    done: list[Decoded] = []
    for one in tasks:
        done.append(task(replace(one, before=before)))
        before = done[-1].open
    return done
