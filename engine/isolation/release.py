"""Decides when kept events are offered again to the topic that refused them, and which.

The oldest kept event is the probe, since an artificial record would be an event that nobody wrote. It is sent
alone, in a turn of its own, so a refusal repeats nothing of other topics. If it is taken, two events follow,
then four, and so on. If one of those is refused (a row that is too large, say), the next probe is one event
again. So probing stops exactly at the refused event, and only events near it are repeated.

    kept      a b c d e f g h          d is too large
    turn 7    a                        taken
    turn 8      b c                    taken
    turn 9          d e f g            refused: d, e, f and g stay
    turn 9          d                  refused, after 10 s, 20 s, 40 s, … as long as it is

As long as anything is kept, newer events of the collection are kept behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from engine.events.batch import no_events
from engine.isolation.incomplete import Cause, Incomplete
from engine.isolation.kept_events import Bundle, events_of, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from engine.model import CollectionId
    from engine.ports.state_store import DeadLetters

_PIECE_BYTES: Final = 16 << 20
_LACKS: Final = "what came while its topic refused events was not all kept"


@dataclass(frozen=True, slots=True)
class Piece:
    """The oldest kept events of a collection, to be sent next.

    `after` is what the collection lacks once they are sent, None for nothing. `emptied` are the bundles that
    are then used up.
    """

    before: Incomplete
    after: Incomplete | None
    events: pa.RecordBatch
    emptied: tuple[Bundle, ...]

    @property
    def collection(self) -> CollectionId:
        """The collection whose events they are."""
        return self.before.collection

    def after_sending(self, known: Sequence[Incomplete]) -> tuple[Incomplete, ...]:
        """The incomplete collections once the piece is sent."""
        left = (self.after if fault == self.before else fault for fault in known)
        return tuple(fault for fault in left if fault is not None)


@dataclass(slots=True)
class _Probe:
    """When a topic is probed next, the current pause, and with how many events."""

    due_s: float = 0.0
    pause_s: float = 0.0
    events: int = 1


class Releases:
    """Offers topics their kept events, first after `first_s`, then after doubling pauses."""

    def __init__(self, letters: DeadLetters, first_s: float, longest_s: float) -> None:
        self._letters, self._first_s, self._longest_s = letters, first_s, longest_s
        self._asking: dict[CollectionId, _Probe] = {}

    def next(self, known: Sequence[Incomplete], now_s: float) -> Piece | None:
        """The next piece to send, if one is due."""
        return next((self._piece(fault) for fault in known if self._is_due(fault, now_s)), None)

    def note_sent(self, piece: Piece) -> bool:
        """Note that a piece was sent and saved; more may follow at once. Returns whether it was the first."""
        for bundle in piece.emptied:
            self._letters.drop_bundle(bundle)
        asking = self._asking_of(piece.collection)
        self._asking[piece.collection] = _Probe(events=2 * asking.events)
        return asking.events == 1 and bool(piece.events.num_rows)

    def note_refusal(self, collection: CollectionId, now_s: float) -> float:
        """Note that a topic refuses events. Returns the seconds until it is probed again."""
        asking = self._asking_of(collection)
        pause_s = min(self._longest_s, 2 * asking.pause_s) if asking.pause_s else self._first_s
        self._asking[collection] = _Probe(now_s + pause_s, pause_s)
        return pause_s

    def _asking_of(self, collection: CollectionId) -> _Probe:
        return self._asking.setdefault(collection, _Probe())

    def _is_due(self, fault: Incomplete, now_s: float) -> bool:
        refused = fault.cause is Cause.REFUSED and fault.aside and fault.kept > 0
        return refused and self._asking_of(fault.collection).due_s <= now_s

    def _piece(self, fault: Incomplete) -> Piece:
        most = self._asking_of(fault.collection).events
        lines: list[bytes] = []
        emptied: list[Bundle] = []
        out, rest = fault.out, True
        for bundle, begin, kept_lines in self._bundles(fault):
            size = size_of(lines)
            if lines and (len(lines) >= most or size >= _PIECE_BYTES):
                break
            taken = kept_lines[begin : begin + most - len(lines)]
            lines += taken
            out = (bundle.turn, bundle.number, begin + len(taken))
            if out[2] < len(kept_lines):
                break
            emptied.append(bundle)
        else:
            rest = False
        if not lines:
            # None of it may be sent, or it has been removed.
            return Piece(fault, _released(replace(fault, gap=True)), no_events(), ())
        left = replace(fault, out=out, kept=fault.kept - len(lines), size=fault.size - size_of(lines))
        return Piece(fault, left if rest else _released(fault), events_of(lines), tuple(emptied))

    def _bundles(self, fault: Incomplete) -> Iterator[tuple[Bundle, int, Sequence[bytes]]]:
        """The bundles to send, in order, each with the index of its first unsent event, and its lines."""
        turn, number, event = fault.out
        for bundle in self._letters.bundles(fault.collection):
            if (bundle.turn, bundle.number) < (turn, number) or bundle.epoch != epoch_of(fault, bundle.turn):
                continue
            begin = event if (bundle.turn, bundle.number) == (turn, number) else 0
            lines = self._letters.lines_of(bundle)
            if begin < len(lines):
                yield bundle, begin, lines


def epoch_of(fault: Incomplete, turn: int) -> int:
    """The epoch of the lease under which this turn kept events."""
    return next((epoch for since, epoch in reversed(fault.epochs) if since <= turn), -1)


def under_epoch(fault: Incomplete, turn: int, epoch: int) -> Incomplete:
    """Record the epoch under which events are kept from this turn on."""
    if fault.cause is not Cause.REFUSED or (fault.epochs and fault.epochs[-1][1] == epoch):
        return fault
    before = tuple(known for known in fault.epochs if known[0] < turn)
    return replace(fault, epochs=(*before, (turn, epoch)))


def _released(fault: Incomplete) -> Incomplete | None:
    """What a collection still lacks once all kept events are sent; None for nothing."""
    if not (fault.gap or fault.dropped):
        return None
    return Incomplete(fault.collection, Cause.GAP, fault.since, _LACKS)
