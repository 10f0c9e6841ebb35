"""Sends runs beside the turns: who sends them, with which producers, and what of them is on its way.

Owns the slots, each of which sends one run at a time. It reports failures to the sink (`Owner`).
"""

from __future__ import annotations

from concurrent.futures import wait
from typing import TYPE_CHECKING, Final, Protocol

from adapters.kafka.errors import BatchRefused
from adapters.kafka.producers.delivery import ANSWERED_S
from engine.errors import TidemarkError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from adapters.kafka.beside.lease_answers import AskForLease
    from adapters.kafka.beside.row_task import SendRows
    from adapters.kafka.beside.senders import Senders
    from engine.job.snapshots.emission import Emission, EmissionResult

_STOPPED_S: Final = 1.0
"""How long a run that is to stop may still be sent to its end."""
_ANSWERED_S: Final = 2.0 + ANSWERED_S
"""How long who sends may wait for the brokers' answers then."""
_PREPARED_S: Final = 30.0
"""How long a producer that was prepared, or used, is there for certain: see `Senders.keeps`."""


class Owner(Protocol):
    """What the sink has that sending needs. A failure ends whatever is prepared: see `RowSending.forget`."""

    @property
    def keeps_producers(self) -> bool:
        """Whether a producer may wait for its next run."""

    def row_task(self, slot: int, attempt: int, *, keeps: bool, lease: AskForLease | None) -> SendRows:
        """The task that sends the runs of a slot. `keeps`: its producer waits for its next run.

        `lease`: it takes the id itself, and asks for the lease before it sends.
        """

    def handle_failure(self, error: TidemarkError) -> TidemarkError:
        """Handle a failure, and ask the brokers what it means; returns the error to raise."""

    def give_up(self) -> None:
        """Handle a failure that is reported to nobody."""

    def make_batches_smaller(self, refused: BatchRefused) -> None:
        """Handle a batch that was too large."""


class RowSending:
    """Sends with these senders, `slots` runs at a time."""

    def __init__(
        self, owner: Owner, senders: Senders, slots: int, monotonic: Callable[[], float], *, fenced: bool
    ) -> None:
        self.owner, self._senders, self._monotonic, self.fenced = owner, senders, monotonic, fenced
        self._slots = set(range(slots))
        self._attempt = 0
        self._preparing: dict[int, Future[None]] = {}
        self._prepared_s: dict[int, float] = {}

    @property
    def is_possible(self) -> bool:
        """Whether it may be done: with fencing, prepared producers are kept, or tasks ask for the lease."""
        return not self.fenced or self._keeps or self._senders.lease is not None

    @property
    def prepares(self) -> bool:
        """Whether a producer is prepared before a run is given to it."""
        return self.fenced and self._keeps

    @property
    def _keeps(self) -> bool:
        return self._senders.keeps and self.owner.keeps_producers

    @property
    def has_room(self) -> bool:
        """Whether a slot is free: a cluster may have more tasks by now than there are slots."""
        return bool(self._slots)

    def prepare(self) -> bool:
        """Get the free slots' producers their ids, in the background; returns whether all have them.

        Raises SinkError, or SourceError if who sends has ended.
        """
        if not self.prepares:
            return True
        if not self._preparing:
            submit, now_s = self._senders.submit, self._monotonic()
            stale = [slot for slot in sorted(self._slots) if now_s - self._used_s(slot) >= _PREPARED_S]
            self._preparing = {slot: submit(slot, self._task(slot).prepare, None) for slot in stale}
        if not all(future.done() for future in self._preparing.values()):
            return False
        preparing, self._preparing = self._preparing, {}
        try:
            for future in preparing.values():
                future.result()
        except TidemarkError as error:
            raise self.owner.handle_failure(error) from error
        self._prepared_s |= dict.fromkeys(preparing, self._monotonic())
        return True

    def _used_s(self, slot: int) -> float:
        """When a slot's producer was prepared, or used."""
        return self._prepared_s.get(slot, -_PREPARED_S)

    def begin(self, emission: Emission) -> SendingRows:
        """Begin to send a run."""
        slot = self._slots.pop()
        self._prepared_s[slot] = self._monotonic()
        return SendingRows(self, emission, slot)

    def submit(self, emission: Emission, slot: int) -> Future[EmissionResult]:
        """Send a run with a slot's producer."""
        return self._senders.submit(slot, self._task(slot), emission)

    def free(self, slot: int) -> None:
        """Note that a slot sends nothing any more."""
        self._slots.add(slot)

    def forget(self) -> None:
        """Use no producer again that was used or prepared so far."""
        self._attempt += 1
        self._preparing, self._prepared_s = {}, {}

    def stop(self, sent: Future[EmissionResult]) -> None:
        """Let all who send stop, and wait until one has; what is in flight is answered by then."""
        self._senders.stop()
        if not wait([sent], _ANSWERED_S).done:
            self._senders.end()
            wait([sent])
        self.forget()

    def close(self) -> None:
        """Release everything."""
        self._senders.close()

    def _task(self, slot: int) -> SendRows:
        lease = self._senders.lease if self.fenced else None
        return self.owner.row_task(slot, self._attempt, keeps=self._keeps, lease=lease)


class SendingRows:
    """A run on its way to Kafka."""

    def __init__(self, sending: RowSending, emission: Emission, slot: int) -> None:
        self._sending, self._emission, self._slot = sending, emission, slot
        self._future = sending.submit(emission, slot)
        self._emitted: EmissionResult | None = None
        self._may_repeat = True
        self._changed: Callable[[], object] = lambda: None

    def watch(self, changed: Callable[[], object]) -> None:
        """Call `changed` whenever an attempt to send has ended."""
        self._changed = changed
        self._future.add_done_callback(lambda _: changed())

    def done(self) -> bool:
        """Whether it is sent, or has failed for good."""
        return self._emitted is not None or (self._future.done() and self._too_large() is None)

    def poll(self) -> None:
        """Send the run again if its batches were too large."""
        if self._emitted is not None or (error := self._too_large()) is None:
            return
        self._sending.owner.make_batches_smaller(error)
        # If a producer has to be prepared first, the session begins anew.
        self._may_repeat = not self._sending.prepares
        if self._may_repeat:
            self._future = self._sending.submit(self._emission, self._slot)
            self.watch(self._changed)

    def _too_large(self) -> BatchRefused | None:
        """The refusal of a batch that may be sent again, in smaller ones."""
        error = self._future.exception() if self._may_repeat and self._future.done() else None
        return error if isinstance(error, BatchRefused) else None

    def result(self) -> EmissionResult:
        """Wait until it is sent."""
        while self._emitted is None:
            wait([self._future])
            self.poll()
            if not self.done():
                continue
            try:
                self._emitted = self._future.result()
            except TidemarkError as error:
                raise self._sending.owner.handle_failure(error) from error
            finally:
                self._sending.free(self._slot)
        return self._emitted

    def stop(self) -> None:
        """Wait a moment until it is sent; else let whoever sends it stop."""
        self._may_repeat = False
        if not wait([self._future], _STOPPED_S).done:
            self._sending.stop(self._future)
        self._sending.free(self._slot)
        if self._future.exception() is not None:
            self._sending.owner.give_up()
