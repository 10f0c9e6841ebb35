"""Makes the events of what is streamed, and notes what the entries mean for open windows."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from adapters.mongodb.events import unreported_changes
from adapters.mongodb.events.dead_letters import letters_of
from adapters.mongodb.events.span_encoder import DecodePart, encode_span
from adapters.mongodb.log.position import shown
from adapters.source.log.span_encoder import EncodePart
from adapters.source.log.table_faults import encode_without_faults
from engine.events.counts import sum_counts
from engine.isolation.incomplete import undecodable
from engine.ports.source import EncodingResult

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from adapters.mongodb.events.codec import Rules
    from adapters.mongodb.events.facts import CollectionRemoval, DecodedPart
    from adapters.mongodb.log.reader import Span
    from adapters.mongodb.log_session import LogSession
    from adapters.mongodb.snapshot.windows import OpenWindows
    from adapters.mongodb.stream_state import StreamState
    from adapters.mongodb.tools import SourceTools
    from engine.config.settings import Settings
    from engine.model import CollectionId
    from engine.ports.sink import PartWriter

_log = logging.getLogger("adapters")


class StreamedSpans:
    """Encodes the spans of the log, whichever session it is read in."""

    def __init__(
        self, settings: Settings, tools: SourceTools, windows: OpenWindows, streamed: StreamState
    ) -> None:
        self._settings, self._windows, self._streamed = settings, windows, streamed
        self._encoder, self._clock = tools.encoder, tools.clock

    def encode(
        self, span: Span, writer: PartWriter, aside: Collection[CollectionId], session: LogSession
    ) -> EncodingResult:
        """Encode a span into the writer, and return what it supersedes."""
        rules = session.rules
        signal_collection = self._settings.signals.collection
        decoded, faults = encode_without_faults(
            lambda faults: self._decoded(span, writer, rules, {*aside, *faults}, again=bool(faults)),
            {signal_collection} if signal_collection else (),
            "collection",
        )
        self._streamed.note_span(span, decoded)
        signals = tuple(signal for part in decoded for signal in part.signals)
        self._windows.note_signals(signal.id for signal in signals)
        emptied = [emptying for result in decoded for emptying in result.emptied]
        left_out = [change for result in decoded for change in result.left_out]
        _note_renames(emptied, session)
        for line in filter(
            None, (unreported_changes.removal_message(removal, rules.captures) for removal in emptied)
        ):
            _log.warning("%s", line)
        return EncodingResult(
            parts=tuple(result.part for result in decoded if result.part),
            signals=signals,
            superseded_in=self._windows.superseded(decoded, emptied),
            unsent=unreported_changes.unsent(emptied),
            replaced=unreported_changes.replaced_collections(emptied),
            incomplete=(
                *unreported_changes.incomplete(emptied, left_out, rules.captures),
                *undecodable(faults, shown(span.start)),
            ),
            letters={
                **unreported_changes.letters(left_out),
                **letters_of(chain.from_iterable(span.batches), {*aside, *faults}),
            },
            counts=sum_counts(result.counts for result in decoded),
            lag_s=span.lag_s(self._clock.monotonic()),
        )

    def _decoded(
        self,
        span: Span,
        writer: PartWriter,
        rules: Rules,
        aside: Collection[CollectionId],
        *,
        again: bool,
    ) -> tuple[list[DecodedPart], dict[CollectionId, str]]:
        """Encode all but the collections in `aside`; also returns the faults that decoding found."""
        rules = replace(rules, aside=frozenset(aside))
        decode = DecodePart(rules, self._windows.watch(), self._clock.now_ms)
        task = EncodePart(decode, writer, again)
        whole = rules.settings.transaction_metadata
        decoded = encode_span(self._encoder, task, span, self._streamed.transaction, whole=whole)
        return decoded, {name: why for part in decoded for name, why in part.faults.items()}


def _note_renames(emptied: Sequence[CollectionRemoval], session: LogSession) -> None:
    """Note renames onto captured names: the stream has none of the documents that they bring."""
    for emptying in emptied:
        if emptying.to is not None and session.rules.captures(emptying.to):
            session.arrivals.renamed(emptying.to, emptying.at)
