"""What the worlds of all sources share: signals by tables' names, and what happens to a server's log.

A source's world says how its job is assembled, which rows a window reads, and how its server is damaged.
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import orjson

from engine.errors import PositionLost, SinkRefused, StateError
from signals.answers import Outcome
from signals.parse.scope import scope_of
from tests.simulation.copies import ALL
from tests.simulation.record_sink import RecordSink, shown
from tests.simulation.storage import is_lease
from tests.simulation.violation import Violation
from tests.simulation.world import Life, World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.errors import TidemarkError
    from engine.job.loop import Job
    from engine.model import CollectionId, Scope
    from signals.answers import Answer
    from tests.simulation.sink import SimSink

_PENDING = re.compile(r"turn-(\d+)\.\d+\.pending\.json")
_HINTS = re.compile(r"\(did you mean [^)]*\)")
_WINDOW_ROWS = 4
"""The most that a setup draws."""


class RowsRead(NamedTuple):
    """Rows of a table that a window in progress reads."""

    collection: CollectionId
    keys: Sequence[Any]


class SourceWorld(World):
    """Plays one history over an adapter.

    `open_windows`, `rows_read`, `commit_signal`, `end_sessions` and `put_in_place` are each source's own.
    `blow` names what happened to the server's log or to the checkpoint, after which a job may have to end.
    """

    surrogate: ClassVar[Mapping[str, str]] = {}
    """The column that a signal cuts a table without a key by, by the table's name."""
    blow = ""
    server: Any
    _windows = 0
    _lacks = ""
    _common = 0
    _undone: Sequence[Any] = ()
    _copy: Any = None
    _next_log: Any = None
    _states: dict[str, bytes] | None = None

    def topic(self, collection: CollectionId) -> str:
        """The topic of a collection's events, as the settings of all sources make it."""
        return f"tm.{collection}"

    def sink_of(self, life: Life) -> SimSink:
        """A sink that takes rendered events."""
        return RecordSink(self.sent, life, life.epoch)

    def shown(self, event: Any) -> str:
        """An event in the story."""
        return shown(event)

    def excused(self, error: TidemarkError) -> bool:
        """A job must end where its log may be lost."""
        if isinstance(error, PositionLost | StateError | SinkRefused) and self.blow:
            self.happened["ends because the log is lost"] += 1
            return True
        return False

    def _judge(self, turn: int, epoch: int, events: Any) -> None:
        if self._lacks and any(event.op != "r" for event in events):
            raise Violation(f"turn {turn} goes on with a log that lacks what was sent: {self._lacks}")
        super()._judge(turn, epoch, events)

    # What the job tells.

    def hear(self, answer: Answer) -> None:
        """An answer was given; one that accepts a signal may refuse some of its names at once."""
        super().hear(answer)
        asked = self.answers.asked[answer.label]
        if answer.outcome is Outcome.ACCEPTED and "no collection matches" in answer.text:
            refused = _HINTS.sub("", answer.text.partition("no collection matches")[2])
            for collection in asked.collections:
                if f"'{collection}'" in refused:
                    asked.outcomes.setdefault(str(collection), []).append(Outcome.REJECTED)

    def tickets_of(self, label: str) -> tuple[int]:  # noqa: ARG002  READs don't tell
        """What all READs have."""
        return (ALL,)

    def turn_begins(self, life: Life, job: Job) -> bool:
        """Whether the job is to stop: at the end of the history, once it has come to rest."""
        self.step(life, "turn")
        windows = len(self.open_windows(life))
        if windows > self._windows:
            self.happened["windows"] += windows - self._windows
            self.happened["overlapping windows"] += windows > 1
            self.note(f"window opens, {windows} in progress", "window")
        self._windows = windows
        return self.rests(job)

    def at_rest(self, job: Job) -> bool:
        """Whether everything was sent and answered, of the log that was opened last."""
        return (
            self._next_log is None
            and self.oracle.position == len(self.database.log)
            and not job.state.snapshot.tables
            and not self.answers.waiting()
            and not self.oracle.untold
        )

    def open_windows(self, life: Life) -> Sequence[Any]:
        """The windows in progress of a job."""
        raise NotImplementedError

    def windows_hit(self, life: Life) -> Sequence[Any]:
        """The windows whose rows are changed on purpose."""
        return self.open_windows(life)

    def with_opening(self, life: Life, windows: Any) -> Sequence[Any]:
        """The windows in progress of a job, and the one of these that opens beside the stream."""
        found = list(self.open_windows(life))
        if windows and windows.meanwhile:
            found.append(windows.meanwhile)
            self.happened["windows opening beside the stream"] += 1
        return found

    def rows_read(self, window: Any, index: int) -> RowsRead | None:
        """A table that a window reads; None if it has no rows."""
        raise NotImplementedError

    # Steps.

    def _alter_now(self) -> None:
        """Change what waits to be changed."""

    def _hurry(self) -> None:
        """Read windows at once, but none of a whole table: most of them overlap in the end."""
        self.setup = replace(self.setup, reading_polls=1, opening_polls=0, joining_polls=0)
        object.__setattr__(self.pace, "window_rows", _WINDOW_ROWS)

    def _hit(self, life: Life, newest: int, what: str, index: int, other: int, visible: int) -> None:
        """Change a row of a table that a window in progress reads."""
        windows = self.windows_hit(life)
        if not windows:
            self._tx(life, ("t", what, index, other), visible)
            return
        found = self.rows_read(windows[-1 if newest else 0], index)
        if found is None:
            return
        number = found.keys[index % len(found.keys)]
        if found.collection != self.bag and what in {"move", "slip"} and other % 3 == 0:
            other = number + 1
        self._tx(life, (found.collection.parts[-1], what, number, other), visible)
        self.happened["rows hit in a window"] += 1

    def _execute(self, _life: Life, mask: int, type_: str = "incremental") -> None:
        chosen = self._masked(mask)
        if type_ != "incremental":
            self._ask(chosen, {"type": type_})
            return
        keyed = tuple(table for table in chosen if table.parts[-1] not in self.surrogate)
        for table in chosen:
            if (surrogate := self.surrogate.get(table.parts[-1])) is not None:
                self._ask((table,), {"surrogate-key": surrogate})
        if keyed:
            self._ask(keyed, {})

    def _masked(self, mask: int) -> tuple[CollectionId, ...]:
        return tuple(table for bit, table in enumerate(self.tables) if mask >> bit & 1)

    def _ask(
        self, chosen: tuple[CollectionId, ...], more: Mapping[str, Any], scope: Scope | None = None
    ) -> None:
        fields = {**more, "data-collections": [str(collection) for collection in chosen]}
        data = orjson.dumps(fields).decode()
        if "keys" in fields or "ranges" in fields:
            scope = scope_of(data, fields)
        self._signal("execute", chosen, f"s{self._at}|execute-snapshot|{data}", scope)

    def _execute_some(self, _life: Life, table: str, form: int, *rest: int) -> None:
        """Ask for some rows of a table, or for all of them by another key."""
        first, second, third, priority, rows_per_s = rest
        fields: dict[str, Any] = {"priority": priority}
        if rows_per_s:
            fields["max-rows-per-second"] = rows_per_s
        if form == 0:
            fields["keys"] = [[key] for key in (first, second, third)]
        elif form == 3:
            fields["surrogate-key"] = "pos"
        else:
            ends = sorted((first, second))
            fields["ranges"] = [{"from": [ends[0]], "to": [ends[1] + 1]}, {"from": [third]}][: form + 1]
        self._ask((self.names[table],), fields)

    def _poison(self, _life: Life, table: str, key: int) -> None:
        self.poisoned.add((self.names[table], key))
        self.happened["rows that can't be read"] += 1

    def _heal(self, _life: Life) -> None:
        self.poisoned.clear()

    # What happens to the server's log, and to the checkpoint.

    def _back_up(self, _life: Life) -> None:
        """Copy the server: a backup, or a standby that lags behind from now on."""
        if self._copy is None and self.oracle.started:
            self._copy = self.copied()

    def copied(self) -> Any:
        """A copy of the server's data."""
        return copy.deepcopy(self.database)

    def _restore(self, _life: Life) -> None:
        """Put the backup in the server's place."""
        self._replace("restored", promoted=False)

    @property
    def _sent_undone(self) -> bool:
        """Whether something was sent that the server's log does not have any more."""
        return bool(self._lacks) or (self._next_log is not None and self.oracle.position > self._common)

    def _replace(self, how: str, *, promoted: bool) -> None:
        found, self._copy = self._copy, None
        if found is None or self.is_busy() or len(self._seats) > 1 or self.blow:
            return
        self.happened[how] += 1
        self.blow = how
        self.end_sessions()
        self._common = len(found.log)
        self._undone = self.database.log[self._common :]
        self.put_in_place(found, promoted=promoted)
        self._next_log = found
        self._lose_signals(self._common)

    def is_busy(self) -> bool:
        """Whether somebody waits to change a definition."""
        return False

    def end_sessions(self) -> None:
        """End all sessions of the server."""
        raise NotImplementedError

    def put_in_place(self, found: Any, *, promoted: bool) -> None:
        """Let an older copy of the server go on in its place."""
        raise NotImplementedError

    def _lose_signals(self, entries: int) -> None:
        """Signals behind these entries are in no log any more; but they may have been obeyed before."""
        for label, asked in self.answers.asked.items():
            if self.signalled_at(label) >= entries:
                asked.lose()

    def signalled_at(self, label: str) -> int:
        """The number of a signal's entry; -1 for none."""
        raise NotImplementedError

    def _log_opened(self) -> None:
        """The log is opened. What was taken from the one before belongs to a turn that has ended by now."""
        if self._next_log is not None:
            self.oracle.follow(self._next_log)
            undone = self._undone[: max(0, self.oracle.position - self._common)]
            if any(entry.op != "noop" for entry in undone):
                self._lacks = "it was restored or promoted"
            elif undone:
                self.oracle.position = self._common
            self._next_log = None

    def _damage(self, what: str, change: Callable[[], object]) -> None:
        """Do something to the log, once a history, behind the first turns."""
        if self.blow or self.oracle.last_turn < 2 or self._state_is_new():
            return
        self.happened[what] += 1
        self.blow = what
        change()

    def _state_is_new(self) -> bool:
        """Whether no turn was saved yet."""
        return not any(re.fullmatch(r"turn-\d*[1-9]\d*\.json", name) for name in self.directory.files)

    def _keep_state(self, _life: Life) -> None:
        """Copy the checkpoint, without a pending state whose turn was not sent.

        If that turn is sent with other content later, nothing tells the copy's pending state from the one
        that belongs to it.
        """
        if not self._state_is_new():
            self._states = {
                name: content
                for name, content in self.directory.files.items()
                if (match := _PENDING.fullmatch(name)) is None or int(match[1]) in self.sent.turns
            }

    def _stale_state(self, life: Life) -> None:
        """Put the copy of the checkpoint in its place, while no job runs."""
        if self._states is None or self.blow or len(self._seats) > 1:
            return
        self.happened["stale states"] += 1
        self.blow = "stale states"
        self._crash(life)
        self._clear_checkpoint()
        for name, content in self._states.items():
            if not is_lease(name):
                self.directory.write(name, content)

    def _lose_state(self, life: Life) -> None:
        """The checkpoint is gone, while no job runs."""
        if self.blow or len(self._seats) > 1 or self._state_is_new():
            return
        self.happened["lost states"] += 1
        self.blow = "lost states"
        self._crash(life)
        self._clear_checkpoint()

    def _clear_checkpoint(self) -> None:
        """Remove all but the leases.

        The sink has a lease of its own, and its epochs go on. Here one lease stands for both.
        """
        for name in [name for name in self.directory.files if not is_lease(name)]:
            del self.directory.files[name]
