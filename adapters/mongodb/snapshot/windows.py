"""The windows in progress: how they are opened, and what is told to them while the log is streamed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adapters.mongodb.events.codec import codec_of
from adapters.mongodb.events.facts import Watch
from adapters.mongodb.events.rows import ReadEvents
from adapters.mongodb.events.source_block import marked_sources, read_source
from adapters.mongodb.snapshot.blocking import BlockingViews
from adapters.mongodb.snapshot.chunk_reader import RunRead
from adapters.mongodb.snapshot.initial import KEEP_IT, TOO_OLD
from adapters.mongodb.snapshot.watermark import AtBeginning, ClusterTime, SignalDocuments, Watermark
from adapters.mongodb.snapshot.window import MongoWindow
from adapters.source.signals.stop_watch import StopWatch
from adapters.source.window_reader import reading_of
from engine.config.settings import Watermarking
from engine.errors import InvariantError
from engine.events.record.envelope import PLAIN
from engine.snapshot.merge import Superseded
from engine.verify.deletes import DeleteEvents
from signals.window_rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adapters.mongodb.events.codec import Rules
    from adapters.mongodb.events.facts import Emptied
    from adapters.mongodb.server.questions import Questions
    from adapters.mongodb.session import Session
    from adapters.mongodb.tools import SourceTools
    from engine.config.settings import Settings
    from engine.model import CollectionId, Window


class OpenWindows:
    """The windows that are open. `opened` has them by id, in order. Used by the job's thread alone."""

    def __init__(self, settings: Settings, questions: Questions, tools: SourceTools) -> None:
        self._settings, self._questions, self._clock = settings, questions, tools.clock
        self._chunks, self._first = tools.chunks, tools.initial
        self._pool = tools.pool
        signals = settings.signals.table
        stops = StopWatch(partial(questions.stops, signals), self._clock.monotonic) if signals else None
        self.blocking = BlockingViews(stops)
        self.opened: dict[str, MongoWindow] = {}

    def watch(self) -> Watch:
        """What may supersede documents of any open window."""
        if not self.opened:
            return Watch()
        windows = self.opened.values()
        collections = frozenset(collection for window in windows for collection in window.collections)
        return Watch(collections, min(window.watermark.at for window in windows))

    def streamed(self, signal_ids: Iterable[str | None]) -> None:
        """Tell the windows that documents of the signal collection have been streamed."""
        ids = list(signal_ids)
        for window in self.opened.values():
            for signal_id in ids:
                window.watermark.streamed(signal_id)

    def emptied(self, emptied: Sequence[Emptied]) -> dict[str, Superseded]:
        """What each window loses by drops and renames, by its id."""
        return {name: Superseded(truncated=window.emptied(emptied)) for name, window in self.opened.items()}

    def open(self, window: Window, session: Session, streamed_to: tuple[int, int]) -> MongoWindow:
        """Choose a cluster time, and start the tasks that read the window's runs as of it."""
        # The time first. If a collection is unchanged after that, it was the same at the time, or the log has
        # a rename after the measurement.
        watermark = self._watermark(window, streamed_to)
        known = session.tables.readings(window.runs)
        loose = {run.target.collection for run in window.runs if known[run.target.collection].capped}
        if loose and window.blocking:
            self.blocking.release()
            watermark = ClusterTime(self._questions, streamed_to)
        if loose:
            watermark.loosen()
        now_ms = self._clock.now_ms
        snapshot = PLAIN if window.as_initial else "incremental"
        reads = [
            RunRead(
                index,
                run,
                _events(run.target.collection, session.rules, watermark.at, now_ms, snapshot),
                loose=run.target.collection in loose,
            )
            for index, run in enumerate(window.runs)
        ]
        read = partial(self._chunks.read, window.id, reads, watermark.at)
        opened = MongoWindow(
            frozenset(run.target.collection for run in window.runs),
            watermark,
            reading_of(window, read, self._chunks.jobs, self._settings.snapshot, self._forget, self._pool),
        )
        self.opened[window.id] = opened
        return opened

    def deletes(
        self, collection: CollectionId, session: Session, streamed_to: tuple[int, int]
    ) -> DeleteEvents:
        """How delete events of documents are written that only a copy has."""
        rules, settings = session.rules, self._settings.events
        codec = codec_of(collection, rules)
        source = read_source(settings, collection, rules.replica_set, streamed_to, "incremental")
        affixes = codec.delete_affixes(source, self._clock.now_ms)
        return DeleteEvents(codec.topic, codec.key_wrap, affixes, (), settings.tombstones)

    def _forget(self, window_id: str) -> None:
        self.opened.pop(window_id, None)

    def _watermark(self, window: Window, streamed_to: tuple[int, int]) -> Watermark:
        held, signal = self._first.held, self._settings.signals.collection
        if window.initial and held is not None:
            return AtBeginning(held.at, partial(self._first.lose, TOO_OLD, KEEP_IT))
        if window.blocking and window.runs[0].keys:
            self.blocking.release()  # what superseded them is later
        elif window.blocking and (view := self.blocking.open(self._questions.now, streamed_to)) is not None:
            return view
        if self._settings.snapshot.watermarking is Watermarking.VISIBILITY:
            return ClusterTime(self._questions, streamed_to)
        if signal is None:
            raise InvariantError("signal documents need a signal collection")
        marks = rows_of(window, self._clock.now_ms)
        return SignalDocuments(self._questions, signal, marks, lambda: self._clock.now_ms, streamed_to)


def _events(
    collection: CollectionId, rules: Rules, at: tuple[int, int], now_ms: int, snapshot: str
) -> ReadEvents:
    source = read_source(rules.settings, collection, rules.replica_set, at, snapshot)
    marked = marked_sources(rules.settings, collection, rules.replica_set, at, snapshot)
    return ReadEvents(codec_of(collection, rules), source, now_ms, marked)
