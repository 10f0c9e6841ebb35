"""What is kept for a topic that refused events goes out once it takes them again. Decides what, and when.

The oldest kept event is itself the question whether the topic takes any: a record that was made up would be
an event that nobody has written. It goes alone, in a turn of its own, so that a refusal repeats nothing of
others. If it is taken, two follow, then four, and so on; where one of those is refused, as a row that is too
large is, the next question is one event again. So the questions come to rest at the event that is refused,
and only events near to it are repeated on the way there.

    kept      a b c d e f g h          d is too large
    turn 7    a                        taken
    turn 8      b c                    taken
    turn 9          d e f g            refused: d, e, f and g stay
    turn 9          d                  refused, after 10 s, 20 s, 40 s, … as long as it is

While anything is kept, newer events of the collection are kept behind it.
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
    from engine.ports import DeadLetters

_PIECE_BYTES: Final = 16 << 20
_LACKS: Final = "what came while its topic refused events was not all kept"


@dataclass(frozen=True, slots=True)
class Piece:
    """The oldest of a collection's kept events; `after` is what it lacks once they are out, if anything.

    `emptied` are the bundles that nothing is left of then.
    """

    before: Incomplete
    after: Incomplete | None
    events: pa.RecordBatch
    emptied: tuple[Bundle, ...]

    @property
    def collection(self) -> CollectionId:
        """Whose events they are."""
        return self.before.collection

    def taken(self, known: Sequence[Incomplete]) -> tuple[Incomplete, ...]:
        """What is incomplete once they are out."""
        left = (self.after if one == self.before else one for one in known)
        return tuple(one for one in left if one is not None)


@dataclass(slots=True)
class _Asking:
    """When a topic is asked next, after which pause then, and with how many events."""

    due_s: float = 0.0
    pause_s: float = 0.0
    events: int = 1


class Releases:
    """Offers topics what is kept for them, first after `first_s`, then after ever longer pauses."""

    def __init__(self, letters: DeadLetters, first_s: float, longest_s: float) -> None:
        self._letters, self._first_s, self._longest_s = letters, first_s, longest_s
        self._asking: dict[CollectionId, _Asking] = {}

    def next(self, known: Sequence[Incomplete], now_s: float) -> Piece | None:
        """The next piece to send, if one is due."""
        return next((self._piece(one) for one in known if self._is_due(one, now_s)), None)

    def taken(self, piece: Piece) -> bool:
        """A piece is out, and saved: more may go at once. Whether it was the first that is."""
        for bundle in piece.emptied:
            self._letters.drop_bundle(bundle)
        asking = self._asking_of(piece.collection)
        self._asking[piece.collection] = _Asking(events=2 * asking.events)
        return asking.events == 1 and bool(piece.events.num_rows)

    def refused(self, collection: CollectionId, now_s: float) -> float:
        """A topic refuses events, or does so still. Gives after how many seconds it is asked again."""
        asking = self._asking_of(collection)
        pause_s = min(self._longest_s, 2 * asking.pause_s) if asking.pause_s else self._first_s
        self._asking[collection] = _Asking(now_s + pause_s, pause_s)
        return pause_s

    def _asking_of(self, collection: CollectionId) -> _Asking:
        return self._asking.setdefault(collection, _Asking())

    def _is_due(self, one: Incomplete, now_s: float) -> bool:
        refused = one.cause is Cause.REFUSED and one.aside and one.kept > 0
        return refused and self._asking_of(one.collection).due_s <= now_s

    def _piece(self, one: Incomplete) -> Piece:
        most = self._asking_of(one.collection).events
        lines: list[bytes] = []
        emptied: list[Bundle] = []
        out, rest = one.out, True
        for bundle, begin, found in self._bundles(one):
            size = size_of(lines)
            if lines and (len(lines) >= most or size >= _PIECE_BYTES):
                break
            taken = found[begin : begin + most - len(lines)]
            lines += taken
            out = (bundle.turn, bundle.number, begin + len(taken))
            if out[2] < len(found):
                break
            emptied.append(bundle)
        else:
            rest = False
        if not lines:
            # Nothing of it may go out, or somebody has removed it.
            return Piece(one, _released(replace(one, gap=True)), no_events(), ())
        left = replace(one, out=out, kept=one.kept - len(lines), size=one.size - size_of(lines))
        return Piece(one, left if rest else _released(one), events_of(lines), tuple(emptied))

    def _bundles(self, one: Incomplete) -> Iterator[tuple[Bundle, int, Sequence[bytes]]]:
        """Bundles that are to go out, in order, each with its first event that is, and its lines."""
        turn, number, event = one.out
        for bundle in self._letters.bundles(one.collection):
            if (bundle.turn, bundle.number) < (turn, number) or bundle.epoch != epoch_of(one, bundle.turn):
                continue
            begin = event if (bundle.turn, bundle.number) == (turn, number) else 0
            lines = self._letters.lines_of(bundle)
            if begin < len(lines):
                yield bundle, begin, lines


def epoch_of(one: Incomplete, turn: int) -> int:
    """The epoch of the lease under which a turn kept events."""
    return next((epoch for since, epoch in reversed(one.epochs) if since <= turn), -1)


def under_epoch(one: Incomplete, turn: int, epoch: int) -> Incomplete:
    """With the epoch under which events are kept from a turn on."""
    if one.cause is not Cause.REFUSED or (one.epochs and one.epochs[-1][1] == epoch):
        return one
    before = tuple(known for known in one.epochs if known[0] < turn)
    return replace(one, epochs=(*before, (turn, epoch)))


def _released(one: Incomplete) -> Incomplete | None:
    """What a collection lacks of which all that was kept is out."""
    if not (one.gap or one.dropped):
        return None
    return Incomplete(one.collection, Cause.GAP, one.since, _LACKS)
