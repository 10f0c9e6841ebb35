"""The guards, each to be switched off by name. A job without one must not pass the oracle.

Owns what replaces each guard, and the scene that exposes its absence. Each scene is first played with all
guards. Not here: the guard of truncates, which no history on a server can need, because a window's locks keep
them out; and guards that only make a window close sooner. Unit and property tests cover those.
"""

from __future__ import annotations

import contextlib
import inspect
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa

from adapters.postgres import source, streamed_spans
from adapters.postgres.events import decode, relations
from adapters.postgres.log import assembler, cuts, forks, unseen_rows
from adapters.postgres.log.reader import PostgresLog
from adapters.postgres.server import connection, table, text_settings, visibility
from adapters.postgres.server.questions import layouts, transactions
from adapters.postgres.server.watches import column_watch, lock_watch, membership
from adapters.postgres.snapshot import (
    blocking,
    chunk_reader,
    eligibility,
    initial,
    superseded_keys,
    tables,
    watermark,
    windows,
)
from adapters.postgres.snapshot.table_changes import partitions
from adapters.sinks.files import FilesSink
from adapters.source.assembly import job as assembly_job
from adapters.storage.state import FileStateStore
from engine.isolation import incomplete
from engine.job import recovery
from engine.job.checkpoint import Checkpoint
from engine.job.loop import Job
from engine.job.snapshots.windows_in_progress import WindowsInProgress
from engine.job.turns import Turns
from engine.job.verify import courses
from engine.job.verify.repair import Repair
from engine.snapshot import copies
from engine.snapshot.changes import moved_rows
from engine.snapshot.merge import SupersededKeys
from engine.staging import text_rows
from engine.verify.copy import Findings
from signals.desk import Desk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.clock import Clock


@dataclass(frozen=True, slots=True)
class Mutant:
    """What replaces the guard, `(where, name, made from the original)`, and the scene that exposes it."""

    scene: str
    patches: tuple[tuple[Any, str, Callable[[Any], Any]], ...]


@contextlib.contextmanager
def switched_off(mutant: Mutant | None) -> Iterator[None]:
    """Run without a guard. None: with all of them."""
    if mutant is None:
        yield
        return
    with contextlib.ExitStack() as restored:
        for where, attribute, made in mutant.patches:
            # As it stands there: a class gives a static method as a plain function.
            stood = inspect.getattr_static(where, attribute)
            static = isinstance(stood, staticmethod)
            patch = made(getattr(where, attribute))
            setattr(where, attribute, staticmethod(patch) if static else patch)
            restored.callback(setattr, where, attribute, stood)
        yield


def _any_slot(_was: Any) -> Any:
    return lambda slot, *_more: slot


def _nothing_queued(_was: Any) -> Any:
    return lambda state, *_more: state


def _always(gives: Any) -> Callable[[Any], Any]:
    """A function that always returns this."""
    return lambda _was: lambda *_args, **_more: gives


def _new_keys_only(touched: Any) -> Any:
    def without_old(entries: Any, *more: Any) -> Any:
        return touched(replace(entries, old=None) if entries.op == "u" else entries, *more)

    return without_old


def _nothing_superseded(superseding_rows: Any) -> Any:
    def none(touched: Any, *more: Any) -> Any:
        return superseding_rows(touched, *more).slice(0, 0)

    return none


def _forgetful(memory: Any) -> Any:
    return lambda source: {**memory(source), "unsettled": ()}


def _snapshots_epoch(_widen: Any) -> Any:
    def widened(shown: Any, xids: Any) -> Any:
        return np.asarray((shown.xmax >> 32 << 32) | xids.astype(np.int64), np.int64)

    return widened


def _own_snapshot(session_statement: Any) -> Any:
    def without(exported: Any, *more: Any, **named: Any) -> Any:
        statement: str = session_statement(exported, *more, **named)
        adopts = statement.index(" SET TRANSACTION SNAPSHOT")
        settings = statement.index(";", adopts) + 1
        return statement[:adopts] + statement[settings : statement.index("SELECT CASE")] + "SELECT 1"

    return without


def _without_locks(export: Any) -> Any:
    return lambda held, _tables, *more: export(held, (), *more)


def _no_settings(settings: dict[str, str]) -> Any:
    return {"client_encoding": settings["client_encoding"]}


def _passing_over_nothing(resumed: Any) -> Any:
    def begun(assembler: Any, commit_lsn: int) -> int:
        resumed(assembler, commit_lsn)
        assembler._skip = 0
        return 0

    return begun


def _acknowledging(take: Any) -> Any:
    def acknowledged(log: Any, timeout_s: float) -> Any:
        span = take(log, timeout_s)
        if span is not None:
            log.acknowledge(span.end)
        return span

    return acknowledged


_KEPT: dict[int, bytes] = {}


def _keeping(_save: Any) -> Any:
    return lambda _store, turn, document: _KEPT.update({turn: document})


def _saving_late(promote: Any) -> Any:
    save = FileStateStore.save_pending

    def promoted(store: Any, turn: int) -> None:
        if turn in _KEPT:
            save(store, turn, _KEPT.pop(turn))
        promote(store, turn)

    return promoted


def _settling(*, answer: bool) -> Callable[[Any], Any]:
    def made(settle: Any) -> Any:
        def settled(job: Any) -> None:
            with mock.patch.object(FilesSink, "resolve_commit", return_value=answer):
                settle(job)

        return settled

    return made


def _telling_at_once(commands: Any) -> Any:
    def told(desk: Any, *more: Any) -> Any:
        found = commands(desk, *more)
        desk.tell(1)
        return found

    return told


def _not_between_slices(supersede: Any) -> Any:
    def superseding_whole(windows: Any, superseded: Any) -> None:
        opened = windows.opened
        windows.opened = [attempt for attempt in opened if not attempt.sent]
        supersede(windows, superseded)
        windows.opened = opened

    return superseding_whole


def _first_window_only(supersede: Any) -> Any:
    def superseding_first(windows: Any, superseded: Any) -> None:
        opened = windows.opened
        windows.opened = opened[:1]
        supersede(windows, superseded)
        windows.opened = opened

    return superseding_first


def _last_stretch_left(blanked: Any) -> Any:
    def left(texts: Any, batches: Any, mask: Any) -> Any:
        survives = mask.to_numpy().copy()
        gone = np.flatnonzero(~survives)
        begin = gone[np.flatnonzero(np.diff(gone, prepend=-2) > 1)[-1]]
        survives[begin:] = True
        return blanked(texts, batches, pa.chunked_array([survives]))

    return left


def _showing_the_log(turn: Any) -> Any:
    def shown(turns: Any, log: Any) -> Any:
        turns._checkpoint.log = log
        return turn(turns, log)

    return shown


def _acknowledging_early(commit: Any) -> Any:
    def committed(checkpoint: Any, after: Any, *more: Any) -> Any:
        if after.position is not None:
            checkpoint.log.acknowledge(after.position)
        return commit(checkpoint, after, *more)

    return committed


def _all_copies(left: Any) -> Any:
    def none_left(keys: Any, gone: Any) -> Any:
        every = pa.array(np.full(gone.num_rows, -(1 << 40)))
        return left(keys, gone.set_column(gone.schema.get_field_index("low"), "low", every))

    return none_left


def _no_copies_before(before: Any) -> Any:
    return lambda *args: replace(before(*args), copies={})


def _by_first_window(superseded: Any) -> Any:
    def counted(encoding: Any, decoded: Any) -> Any:
        first = next(iter(superseded(encoding, decoded).values()), None)
        return {
            name: replace(keys, copies=first.copies)
            for name, keys in superseded(encoding, decoded).items()
            if first
        }

    return counted


def _keys_of_root(merge_key: Any) -> Any:
    return lambda shown: merge_key(replace(shown, leaves=()))


def _inserts_stay(moved: Any) -> Any:
    def places(cut: Any, entries: Any, codec: Any) -> Any:
        found = moved(cut, entries, codec)
        return None if entries.op == "c" else found

    return places


def _looking(tick: Any) -> Any:
    def ticked(source: Any, state: Any) -> Any:
        source._tools.slot.watch.look()
        return tick(source, state)

    return ticked


def _by_the_drivers_clock(visible: Any) -> Any:
    return lambda asked: (visible(asked)[0], time.time())


def _any_clock(opened: Any) -> Any:
    def by_the_wall(settings: Any, spark: Any, leased: Any, clock: Clock, *more: Any) -> Any:
        return opened(settings, spark, leased, replace(clock, monotonic=time.time), *more)

    return by_the_wall


def _forkless(_check_fork: Any) -> Any:
    return lambda _saved, _now, history, _sent: forks.fork_of(history, _saved)


def _knowing_nothing_earlier(opened: Any) -> Any:
    def forgetful(views: Any, *more: Any) -> Any:
        view = opened(views, *more)
        view.superseded = SupersededKeys()
        return view

    return forgetful


def _without_release(_tick: Any) -> Any:
    return lambda views, state, **_reading: views.want(
        table.target.collection for table in state.snapshot.leading if table.blocking
    )


_SOURCE = source.PostgresSource


def _in_the_first_turn(was: Any) -> Any:
    """Compare what windows have read with what the copy held at the beginning."""
    return lambda table, _turn: was(table, 1)


_VIEWS = blocking.BlockingViews
MUTANTS: dict[str, Mutant] = {
    "which entries supersede": Mutant("in-window", ((unseen_rows, "superseding_rows", _nothing_superseded),)),
    "old keys": Mutant("in-window", ((decode, "keys_touched", _new_keys_only),)),
    "streamed, not yet visible": Mutant(
        "hidden", ((superseded_keys, "update_pending", lambda _was: lambda waiting, *_: waiting),)
    ),
    "the same, over a restart": Mutant("hidden-dropped", ((_SOURCE, "memory", _forgetful),)),
    "large values, of rows dropped": Mutant("in-window", ((SupersededKeys, "unsent", _always(frozenset())),)),
    "large values, of rows moved": Mutant(
        "moved-past", ((moved_rows, "read_again", lambda _was: lambda now, *_: now),)
    ),
    "large values, moved in hiding": Mutant("hidden-move", ((_SOURCE, "hidden_moves", _always({})),)),
    "when to emit": Mutant("stalled-log", ((watermark.VisibilityWatermark, "reached", _always(gives=True)),)),
    "32-bit ids": Mutant("wrap", ((visibility.Visibility, "widen", _snapshots_epoch),)),
    "unflushed log": Mutant("open-writer", ((watermark, "_PUSH_AFTER_S", lambda _was: 1e6),)),
    "readers on the exact snapshot": Mutant(
        "late-readers", ((chunk_reader, "session_statement", _own_snapshot),)
    ),
    "locks": Mutant("rewritten", ((watermark.ExportedSnapshot, "_export", _without_locks),)),
    "giving way": Mutant("ddl-waits", ((lock_watch.LockWatch, "look", _always(None)),)),
    "bounds of a changed key": Mutant("other-key", ((windows, "_refuse_other_forms", _always(None)),)),
    "text of keys and values": Mutant(
        "odd-settings",
        ((text_settings, "TEXT_SETTINGS", _no_settings), (chunk_reader, "TEXT_SETTINGS", _no_settings)),
    ),
    "counting inside transactions": Mutant(
        "mid-transaction", ((assembler, "_ENTRIES", lambda was: was | frozenset(b"R")),)
    ),
    "passing over what was sent": Mutant(
        "mid-transaction", ((assembler.Assembler, "_resumed", _passing_over_nothing),)
    ),
    "saved before acknowledged": Mutant("every-step", ((PostgresLog, "take", _acknowledging),)),
    "saved before sent": Mutant(
        "every-step",
        ((FileStateStore, "promote", _saving_late), (FileStateStore, "save_pending", _keeping)),
    ),
    "a pending turn counts only if sent": Mutant("every-step", ((Job, "settle", _settling(answer=True)),)),
    "a pending turn counts if sent": Mutant("every-step", ((Job, "settle", _settling(answer=False)),)),
    "acknowledged after the commit": Mutant(
        "every-step",
        ((Turns, "turn", _showing_the_log), (Checkpoint, "commit", _acknowledging_early)),
    ),
    "between slices": Mutant("between-slices", ((WindowsInProgress, "supersede", _not_between_slices),)),
    "both windows": Mutant("beside-another", ((WindowsInProgress, "supersede", _first_window_only),)),
    "every stretch blanked": Mutant("few-of-many", ((text_rows, "_blank", _last_stretch_left),)),
    "tables as they were": Mutant("exporter-ends", ((windows.OpenWindows, "_check_tables", _always(None)),)),
    "locks are watched beside the turn": Mutant(
        "stalled-sink",
        ((lock_watch.LockWatch, "_run", _always(None)), (_SOURCE, "tick", _looking)),
    ),
    "lag by the server's clock": Mutant(
        "clock-ahead", ((transactions.Transactions, "visible", _by_the_drivers_clock),)
    ),
    "a clock that nobody sets": Mutant("clock-set-back", ((assembly_job, "opened", _any_clock),)),
    "a silent server is given up": Mutant("lost-log", ((connection.Server, "silence_s", _always(0.0)),)),
    "what was sent behind a fork": Mutant(
        "lagging-standby", ((initial, "check_fork", _forkless), (initial, "_last_commit", _always(None)))
    ),
    "the last commit sent must come again": Mutant(
        "restored-copy", ((initial, "check_reach", _always(None)), (initial, "_last_commit", _always(None)))
    ),
    "told of what is set aside": Mutant(
        "disguised", ((incomplete, "with_faults", lambda _was: lambda known, _: tuple(known)),)
    ),
    "what the publication lacks": Mutant("unpublished", ((membership.Members, "gaps", _always({})),)),
    "rows moved by another key": Mutant("slid-past", ((cuts.Cut, "always_logged", lambda _was: True),)),
    "rows that come into a filter": Mutant("into-filter", ((cuts.Cut, "moved_rows", _inserts_stay),)),
    "one copy of equal rows": Mutant("alike", ((copies, "remaining_rows", _all_copies),)),
    "copies taken before the window": Mutant(
        "alike-hidden", ((superseded_keys, "of_pending", _no_copies_before),)
    ),
    "copies counted per window": Mutant(
        "alike-beside", ((streamed_spans.StreamedSpans, "_superseded", _by_first_window),)
    ),
    "partitions that log no key of the root": Mutant(
        "other-leaf", ((eligibility.Eligibility, "_check_leaves", _always(None)),)
    ),
    "keys that all partitions log": Mutant(
        "leaves-by-index",
        tuple((where, "merge_key", _keys_of_root) for where in (table, eligibility, relations)),
    ),
    "a key that gains a column": Mutant("key-gains", ((tables, "_refuse_other_key", _always(None)),)),
    "labels of enums": Mutant("relabelled", ((layouts, "_LABELS", lambda was: f"{was} HAVING false"),)),
    "partitions truncated under their root": Mutant(
        "leaf-truncated", ((partitions.Partitions, "take_emptied", _always({})),)
    ),
    "what a view's position has and it lacks": Mutant(
        "blocking", ((blocking.BlockingView, "note_span", _always(None)),)
    ),
    "what is streamed and a view lacks": Mutant("blocking", ((_VIEWS, "_opened", _knowing_nothing_earlier),)),
    "rows of a view after its position": Mutant(
        "blocking", ((watermark.VisibilityWatermark, "reached", _always(gives=True)),)
    ),
    "a stream that waits": Mutant(
        "blocking", ((_VIEWS, "waits", _always(gives=False)), (PostgresLog, "hold", _always(None)))
    ),
    "what arrives while the stream waits": Mutant(
        "blocking", ((PostgresLog, "_stopped", lambda _was: property(lambda log: log._full)),)
    ),
    "columns that are added with a default": Mutant(
        "column-added", ((column_watch.ColumnWatch, "take_appeared", _always([])),)
    ),
    "what a verdict counts": Mutant(
        "verified", ((Findings, "differences", lambda _was: property(lambda _found: 0)),)
    ),
    "rows as of their window's turn": Mutant("verified", ((courses, "seen_rows", _in_the_first_turn),)),
    "rows that only the copy has": Mutant("verified", ((Repair, "next_extra", _always([])),)),
    "a slot that somebody else has moved": Mutant("slot-moved", ((initial, "check_slot", _any_slot),)),
    "what a lost log had is repaired": Mutant("slot-moved", ((recovery, "_queued", _nothing_queued),)),
    "rows that a lost log had deleted": Mutant("slot-moved", ((Repair, "next_extra", _always([])),)),
    "a view that lacks what the log lacks": Mutant(
        "unpublished-behind-view", ((_VIEWS, "outdate", _always(None)),)
    ),
    "a stream that goes on": Mutant("blocking-alone", ((_VIEWS, "tick", _without_release),)),
    "answers wait for the turn": Mutant("every-step", ((Desk, "commands", _telling_at_once),)),
}
