"""The windows in progress: how they are opened, and what is told to them while the log is streamed."""

from __future__ import annotations

from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING

from adapters.mongodb.events.codec import codec_of
from adapters.mongodb.events.facts import Watch
from adapters.mongodb.events.rows import ReadEvents
from adapters.mongodb.events.source_block import marked_sources, read_source
from adapters.mongodb.snapshot.blocking import BlockingViews
from adapters.mongodb.snapshot.chunk_reader import RunRead
from adapters.mongodb.snapshot.initial import KEEP_IT, TOO_OLD
from adapters.mongodb.snapshot.opening_window import CatalogLookup, OpeningWatch
from adapters.mongodb.snapshot.watermark import AtBeginning, ClusterTime, SignalDocuments, Watermark
from adapters.mongodb.snapshot.window import MongoWindow
from adapters.source.opening_window import ShownOpeningWindow
from adapters.source.signals.stop_watch import StopWatch
from adapters.source.window_reader import reading_of
from engine.config.settings import Watermarking
from engine.errors import InvariantError, SchemaChanged
from engine.events.record.envelope import PLAIN
from engine.snapshot.merge import SupersededKeys
from engine.verify.deletes import DeleteEvents
from signals.window_rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from adapters.mongodb.events.codec import Rules
    from adapters.mongodb.events.facts import CollectionRemoval, DecodedPart
    from adapters.mongodb.log_session import LogSession
    from adapters.mongodb.server.catalog import CollectionDescription
    from adapters.mongodb.server.questions import Questions
    from adapters.mongodb.snapshot.opening_window import MongoOpening
    from adapters.mongodb.tools import SourceTools
    from engine.config.settings import Settings
    from engine.model import CollectionId, Window


class OpenWindows:
    """The windows that are open. `opened` has them by id, in order. Used by the job's thread alone.

    `meanwhile` is what the stream carries while another one opens; None if none does. `_capped` are the keys
    of collections that turned out to be capped: their windows open no view, for which the stream would wait.
    """

    def __init__(self, settings: Settings, questions: Questions, tools: SourceTools) -> None:
        self._settings, self._questions, self._clock = settings, questions, tools.clock
        self._chunks, self._first = tools.chunks, tools.initial
        self._pool, self._opening_pool = tools.pool, tools.opening
        signals = settings.signals.table
        stops = StopWatch(partial(questions.stops, signals), self._clock.monotonic) if signals else None
        self.blocking = BlockingViews(stops)
        self.opened: dict[str, MongoWindow] = {}
        self.meanwhile: OpeningWatch | None = None
        self._capped: set[tuple[str, ...]] = set()

    def watch(self) -> Watch:
        """What may supersede documents of any open window."""
        if not self.opened:
            return Watch()
        windows = self.opened.values()
        collections = frozenset(collection for window in windows for collection in window.collections)
        return Watch(collections, tuple({window.watermark.at: None for window in windows}))

    def note_signals(self, signal_ids: Iterable[str | None]) -> None:
        """Tell the windows that documents of the signal collection have been streamed."""
        ids = list(signal_ids)
        for window in self.opened.values():
            for signal_id in ids:
                window.watermark.note_signal(signal_id)

    def superseded(
        self, decoded: Sequence[DecodedPart], emptied: Sequence[CollectionRemoval]
    ) -> dict[str, SupersededKeys]:
        """What each window loses by a span, by its id. One that opens is told of drops and renames."""
        if self.meanwhile is not None:
            self.meanwhile.note_emptied(emptied)
        return {
            name: reduce(
                or_,
                (part.superseded[window.watermark.at] for part in decoded),
                SupersededKeys(truncated=window.emptied_collections(emptied)),
            )
            for name, window in self.opened.items()
        }

    def open(
        self, window: Window, session: LogSession, streamed_to: Callable[[], tuple[int, int]]
    ) -> MongoWindow | MongoOpening:
        """Choose a cluster time, and start the tasks that read the window's runs as of it; or begin to.

        `streamed_to` is the time of the newest streamed event.
        """
        if (watermark := self._waiting(window, streamed_to)) is not None:
            # The time first. If a collection is unchanged after that, it was the same at the time, or the log
            # has a rename after the measurement.
            return self._open(window, session, watermark, self._as_they_were(window, session), streamed_to)
        collections = frozenset(run.target.collection for run in window.runs)
        meanwhile = OpeningWatch(collections)
        ask = partial(self._ask, window, session)
        join = partial(self._join, window, session, streamed_to, meanwhile)
        if window.blocking:
            return join(ask())
        self.meanwhile = meanwhile
        opening = ShownOpeningWindow(
            ask, join, self._opens_no_more, self._opening_pool(), lambda _asked: None
        )
        return opening.joined() or opening

    def _as_they_were(self, window: Window, session: LogSession) -> dict[CollectionId, CollectionDescription]:
        """The window's collections. Raises SchemaChanged if one has changed since it was measured.

        It is measured again then, and a view from before that would show other documents than were measured.
        So would one from before a rename, if the collection is measured after it. The stream waits before it,
        so it does not tell of the rename.
        """
        try:
            known = session.tables.readings(window.runs)
            if window.blocking and self.blocking.view is not None:
                self.blocking.view.check(window.runs)
        except SchemaChanged:
            if window.blocking:
                self.blocking.release()
            raise
        return known

    def _opens_no_more(self) -> None:
        self.meanwhile = None

    def _ask(self, window: Window, session: LogSession) -> CatalogLookup:
        """Ask what a window has to know, and mark it. Touches nothing that others change."""
        marks, signal = None, self._settings.signals.collection
        if self._settings.snapshot.watermarking is not Watermarking.VISIBILITY:
            if signal is None:
                raise InvariantError("signal documents need a signal collection")
            marks = rows_of(window, self._clock.now_ms)
            self._questions.write_signal(signal, *marks.opening())
        now = self._questions.now()
        return CatalogLookup(now, session.tables.readings(window.runs), marks)

    def _join(
        self,
        window: Window,
        session: LogSession,
        streamed_to: Callable[[], tuple[int, int]],
        meanwhile: OpeningWatch,
        asked: CatalogLookup,
    ) -> MongoWindow:
        """Open the window whose questions were asked."""
        meanwhile.check(asked)
        at, signal = max(asked.now, streamed_to()), self._settings.signals.collection
        watermark: Watermark = ClusterTime(self._questions, at)
        if asked.marks is not None and signal is not None:
            watermark = SignalDocuments(self._questions, signal, asked.marks, lambda: self._clock.now_ms, at)
        return self._open(window, session, watermark, asked.known, streamed_to)

    def _open(
        self,
        window: Window,
        session: LogSession,
        watermark: Watermark,
        known: Mapping[CollectionId, CollectionDescription],
        streamed_to: Callable[[], tuple[int, int]],
    ) -> MongoWindow:
        loose = {run.target.collection for run in window.runs if known[run.target.collection].capped}
        self._capped.update(known[name].key for name in loose)
        if loose and window.blocking:
            watermark = self._beside_the_stream(streamed_to)
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
        self, collection: CollectionId, session: LogSession, streamed_to: tuple[int, int]
    ) -> DeleteEvents:
        """How delete events of documents are written that only a copy has."""
        rules, settings = session.rules, self._settings.events
        codec = codec_of(collection, rules)
        source = read_source(settings, collection, rules.replica_set, streamed_to, "incremental")
        affixes = codec.delete_affixes(source, self._clock.now_ms)
        return DeleteEvents(codec.topic, codec.key_affixes, affixes, (), settings.tombstones)

    def elsewhere(
        self, collection: CollectionId, session: LogSession, streamed_to: tuple[int, int]
    ) -> ReadEvents:
        """How documents of a collection become events that were read from another one."""
        return _events(collection, session.rules, streamed_to, self._clock.now_ms, "")

    def _forget(self, window_id: str) -> None:
        self.opened.pop(window_id, None)

    def _waiting(self, window: Window, streamed_to: Callable[[], tuple[int, int]]) -> Watermark | None:
        """The watermark of a window for which the stream waits; None if it goes on."""
        held = self._first.held
        if window.initial and held is not None:
            return AtBeginning(held.at, partial(self._first.lose, TOO_OLD, KEEP_IT))
        if window.blocking and window.runs[0].keys:
            self.blocking.release()  # what superseded them is later
            return None
        if window.blocking and any(run.key in self._capped for run in window.runs):
            return self._beside_the_stream(streamed_to)
        return self.blocking.open(self._questions.now, streamed_to(), self._keys) if window.blocking else None

    def _beside_the_stream(self, streamed_to: Callable[[], tuple[int, int]]) -> ClusterTime:
        """The watermark of a blocking window with capped collections, which no view shows."""
        self.blocking.release()
        return ClusterTime(self._questions, max(self._questions.now(), streamed_to()))

    def _keys(self) -> dict[CollectionId, tuple[str, ...]]:
        return {name: described.key for name, described in self._questions.catalog.collections().items()}


def _events(
    collection: CollectionId, rules: Rules, at: tuple[int, int], now_ms: int, snapshot: str
) -> ReadEvents:
    source = read_source(rules.settings, collection, rules.replica_set, at, snapshot)
    marked = marked_sources(rules.settings, collection, rules.replica_set, at, snapshot)
    return ReadEvents(codec_of(collection, rules), source, now_ms, marked)
