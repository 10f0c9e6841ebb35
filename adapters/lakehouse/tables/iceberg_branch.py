"""Branches of Iceberg's tables: a write becomes the table's state only if nobody else has changed that.

Iceberg takes an append whatever others have appended meanwhile. So a job that stood still while another one
took over could add the same rows again. Hence each write goes to a branch, which becomes the table's state
only if the table is still what it was when the branch began:

    main      ── turn 41 ──────────────────────► 42        one step, and only if main is at 41 still
    branch            └──── INSERT or MERGE ── 42 ┘

A newcomer removes the branches of its predecessors. Iceberg takes a commit to a branch that is gone all the
same: it begins the branch again, at what main is by then. So each snapshot carries the epoch of its process,
and a branch becomes the table's state only if all of it, from its first snapshot on, is of this process:

    main      ── turn 41 ── 42 (epoch 6)
    branch of 5          ╎       └── 42 (epoch 5)      not behind 41: refused
                         removed by 6
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from engine.errors import SinkError

_NO_WORD: Final = re.compile(r"\W")
_OVERTAKEN: Final = "another process of this job has written meanwhile"


@dataclass(frozen=True, slots=True)
class Branches:
    """The branches of a job: `epoch` tells the process from others of it."""

    application: str
    epoch: int

    @property
    def name(self) -> str:
        """That of this process."""
        return f"{self._prefix}{self.epoch}"

    @property
    def _prefix(self) -> str:
        """What the names of this job's branches begin with."""
        return f"tidemark_{_NO_WORD.sub('_', self.application)}_"

    def marks(self) -> dict[str, str]:
        """The properties that each snapshot of a branch must have."""
        return {self._property: str(self.epoch)}

    @property
    def _property(self) -> str:
        return f"tidemark.epoch.{self.application}"

    def begin(self, table: Any) -> int:
        """Begin a branch at what was known of a table; returns its first snapshot. Raises SinkError."""
        current = table.currentSnapshot()
        self._remove(table)
        begun = table.manageSnapshots()
        if current is None:
            # Iceberg makes an empty snapshot, unless the table has got one meanwhile.
            begun.createBranch(self.name).commit()
        else:
            begun.createBranch(self.name, current.snapshotId()).commit()
        table.refresh()
        first, now = table.snapshot(self.name), table.currentSnapshot()
        if first is None or (current is None and now is not None):
            raise SinkError(_OVERTAKEN, where=str(table.name()))
        return int(first.snapshotId())

    def publish(self, table: Any, first: int) -> None:
        """Make the branch the table's state, if it is behind what it began at. Raises SinkError."""
        table.refresh()
        if not self._is_own(table, first):
            raise SinkError(_OVERTAKEN, where=str(table.name()))
        table.manageSnapshots().fastForwardBranch("main", self.name).removeBranch(self.name).commit()

    def _is_own(self, table: Any, first: int) -> bool:
        """Whether all snapshots of the branch behind its first one are of this process."""
        snapshot = table.snapshot(self.name)
        while snapshot is not None and int(snapshot.snapshotId()) != first:
            if snapshot.summary().get(self._property) != str(self.epoch):
                return False
            parent = snapshot.parentId()
            snapshot = None if parent is None else table.snapshot(parent)
        return snapshot is not None

    def _remove(self, table: Any) -> None:
        """Remove those of processes of this job that have died, or that have lost their lease."""
        left = [name for name in map(str, table.refs()) if name.startswith(self._prefix)]
        removing = table.manageSnapshots()
        for name in left:
            removing = removing.removeBranch(name)
        if left:
            removing.commit()
