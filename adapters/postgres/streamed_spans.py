"""Encodes spans, and notes what their entries mean for open windows and for transactions not visible yet."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from adapters.postgres.events.dead_letters import entries_of
from adapters.postgres.log.cuts import cut_of, moves_by_cut
from adapters.postgres.log.entries import relations_in
from adapters.postgres.log.touched_keys import Watch
from adapters.postgres.server.position import shown_position
from adapters.postgres.snapshot import superseded_keys
from adapters.source.log.table_faults import encode_without_faults
from engine.events.counts import sum_counts
from engine.isolation.incomplete import Letters, undecodable
from engine.ports.source import EncodingResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from adapters.postgres.events.decode import DecodedPart
    from adapters.postgres.events.span_encoder import PostgresSpans
    from adapters.postgres.log.cuts import Cut
    from adapters.postgres.log.span import Span
    from adapters.postgres.log_session import LogSession
    from adapters.postgres.server.visibility import Visibility
    from adapters.postgres.snapshot.windows import OpenWindows
    from adapters.postgres.stream_state import StreamState
    from engine.model import CollectionId
    from engine.ports.sink import PartWriter
    from engine.ports.source import Moved, Reading
    from engine.snapshot.merge import SupersededKeys


class EncodedSpan(NamedTuple):
    """A decoded span. `hidden` are the relations, by name, for which no events were made."""

    decoded: Sequence[DecodedPart]
    hidden: Mapping[CollectionId, frozenset[int]]


class StreamedSpans:
    """Encodes the spans of one session of the log. `signal_tables` are the names of the signal table."""

    def __init__(
        self,
        encoder: PostgresSpans,
        session: LogSession,
        streamed: StreamState,
        windows: OpenWindows,
        signal_tables: Collection[CollectionId],
    ) -> None:
        self._encoder, self._session, self._streamed = encoder, session, streamed
        self._windows, self._signal_tables = windows, signal_tables

    def encode(
        self,
        span: Span,
        writer: PartWriter,
        aside: Collection[CollectionId],
        reading: Reading,
    ) -> EncodingResult:
        """Encode a span into the writer, and return what it superseded."""
        relations = self._session.relations
        visibility, now_s = self._session.questions.transactions.visible() if span.entries else (None, None)
        watch = partial(self._watch, visibility, reading)
        (decoded, hidden), faults = encode_without_faults(
            lambda faults: self._encode_span(span, writer, {*aside, *faults}, watch, again=bool(faults)),
            self._signal_tables,
        )
        self._streamed.note_span(span, decoded[-1].context if decoded else None)
        if (view := self._windows.blocking_view) is not None:
            view.note_span(decoded)
        if (meanwhile := self._windows.meanwhile) is not None:
            meanwhile.note_span(decoded)
        letters = {name: entries_of([cut.part for cut in span.cuts], oids) for name, oids in hidden.items()}
        if visibility is not None:
            self._streamed.pending = superseded_keys.update_pending(
                self._streamed.pending, decoded, visibility
            )
            for name, oids in hidden.items():
                missing = visibility.missing(letters[name].xids)
                self._streamed.pending = self._streamed.pending.add_whole(missing, oids)
        signals = tuple(signal for part in decoded for signal in part.signals)
        deleted = [signal_id for part in decoded for signal_id in part.signals_deleted]
        for window in self._windows.opened.values():
            window.watermark.note_signal_rows([signal.id for signal in signals], deleted)
        return EncodingResult(
            parts=tuple(result.part for result in decoded if result.part),
            signals=signals,
            superseded_in=self._superseded(decoded),
            moved=moves_by_cut(superseded_keys.moved_keys(decoded, relations.ids), reading),
            incomplete=undecodable(faults, shown_position(span.start)),
            letters={
                name: Letters(entries.count, entries.size, entries.lines)
                for name, entries in letters.items()
                if entries.count
            },
            counts=sum_counts(part.counts for part in decoded),
            unsent=frozenset() if self._encoder.sends_truncates else self._emptied(decoded),
            lag_s=None if now_s is None else max(0.0, now_s - span.committed_at_s),
        )

    def _emptied(self, decoded: Sequence[DecodedPart]) -> frozenset[CollectionId]:
        """The tables that were truncated."""
        ids = self._session.relations.ids
        return frozenset(ids[oid] for part in decoded for oid, _xid in part.truncated if oid in ids)

    def _encode_span(
        self,
        span: Span,
        writer: PartWriter,
        aside: Collection[CollectionId],
        watch: Callable[[], Watch],
        *,
        again: bool,
    ) -> tuple[EncodedSpan, dict[CollectionId, str]]:
        """Encode all tables but those in `aside`; also returns why tables can't be decoded."""
        relations = self._session.relations
        known = [
            relations.codecs(cut.definitions, relations_in(cut.part.messages), aside) for cut in span.cuts
        ]
        decoded: Sequence[DecodedPart] = ()
        faults = {oid: why for codecs in known for oid, why in codecs.faults.items()}
        if not faults:
            parts = [(cut.part, codecs.codecs) for cut, codecs in zip(span.cuts, known, strict=True)]
            # `watch` is called only here: before, a relation's name may be unknown.
            decoded = self._encoder.encode(
                parts, span.entries, watch(), writer, self._streamed.context, again=again
            )
            faults = {oid: why for part in decoded for oid, why in part.faults.items()}
        hidden = set[int]().union(*(codecs.aside for codecs in known))
        return (
            EncodedSpan(decoded, _by_name(hidden, relations.ids)),
            {relations.ids[oid]: why for oid, why in faults.items()},
        )

    def _watch(self, visibility: Visibility | None, reading: Reading) -> Watch:
        settled = visibility.shows if visibility else None
        cuts = self._cuts(reading)
        windows, view = list(self._windows.opened.values()), self._windows.blocking_view
        opening = self._windows.meanwhile
        watched = [
            *((window.oids, window.watermark.exported.visibility) for window in windows),
            *([(frozenset(view.tables), view.visibility)] if view else []),
            *([(opening.oids, opening.visibility)] if opening else []),
        ]
        if not watched:
            return Watch(settled=settled, cuts=cuts)
        oids = frozenset[int]().union(*(oids for oids, _visibility in watched))
        # What was opened first contains the fewest transactions: a view is no older than windows before it,
        # and what is opening is the newest.
        return Watch(oids=oids, contained=watched[0][1].shows, settled=settled, cuts=cuts)

    def _cuts(self, reading: Reading) -> dict[int, frozenset[Cut]]:
        """The keys that cut the relations being read, for relations whose names are known."""
        if not reading:
            return {}
        ids = self._session.ids
        return {oid: frozenset(map(cut_of, reading[name])) for oid, name in ids.items() if name in reading}

    def _superseded(self, decoded: Sequence[DecodedPart]) -> dict[str, SupersededKeys]:
        """What the entries supersede in each open window; each window's snapshot shows other transactions."""
        return {
            name: superseded_keys.of_entries(
                decoded, window.watermark.exported.visibility, self._session.names(window.oids)
            )
            for name, window in self._windows.opened.items()
        }

    def hidden_moves(self, reading: Reading) -> Moved:
        """The old and new keys of rows that lack a value and may have moved where measuring can't see it.

        New snapshots don't show what is pending yet. A blocking snapshot is measured in its view, which does
        not show what came after it. If the view is lost or lacks a table, the rows are read in another one.
        """
        ids, cuts = self._session.ids, self._cuts(reading)
        untold = {
            oid for oid, relation_cuts in cuts.items() if not all(cut.always_logged for cut in relation_cuts)
        }
        pending = self._streamed.pending.moved_keys(untold)
        moved = {ids[oid]: pairs for oid, pairs in pending.items() if oid in cuts}
        if (view := self._windows.blocking_view) is not None:
            for name, pairs in view.moved_keys(untold).items():
                moved[name] = moved.get(name, frozenset()) | pairs
        return moves_by_cut(moved, reading)


def _by_name(oids: Iterable[int], ids: Mapping[int, CollectionId]) -> dict[CollectionId, frozenset[int]]:
    found: dict[CollectionId, frozenset[int]] = {}
    for oid in oids:
        found[ids[oid]] = found.get(ids[oid], frozenset()) | {oid}
    return found
