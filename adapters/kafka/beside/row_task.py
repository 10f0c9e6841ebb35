"""The task that sends the rows of one run, straight from where they are staged.

It runs beside the turns, in another process: see `senders.py`. The rows have distinct keys, so several
such tasks may send to one topic at once. `engine/job/snapshots/rows_beside.py` says what waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING

from adapters.kafka.producers.delivery import Delivery
from engine.config.sinks.kafka_login import LINE
from engine.config.text.references import may_change
from engine.errors import SinkError, TopicsRefused
from engine.model import Part

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from adapters.kafka.beside.lease_answers import AskForLease
    from adapters.kafka.settings import KafkaSettings
    from engine.job.snapshots.emission import Emission, EmissionResult

_kept: dict[SendRows, Delivery] = {}
"""The producer of this process, for its next task: connecting takes longer than sending a small run."""
_sending: list[Delivery] = []
"""The producers of this process that send."""
_stopping = Event()
"""Whether this process sends nothing more."""


@dataclass(frozen=True, slots=True)
class SentRows:
    """A writer that sends what is written, and returns when the brokers have it."""

    delivery: Delivery

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Send the events. Raises TopicsRefused if their topic refuses any."""
        events = 0

        def counted() -> Iterable[pa.RecordBatch]:
            nonlocal events
            for batch in batches:
                events += batch.num_rows
                yield batch

        delivered = self.delivery.send(counted())
        if delivered.refused:
            raise TopicsRefused(dict(delivered.refused))
        return Part(part, events)


@dataclass(frozen=True, slots=True)
class SendRows:
    """Sends runs, with the producer of a transactional id, if any; goes to the processes that send.

    With `keeps` the producer is kept for the next run. Another `attempt` never uses a producer of an earlier
    one, which may have failed or been fenced.

    A producer takes its id when it is prepared, and never when it sends:

        prepare   takes the id, and with it the right to send
        lease     the job makes sure that it still has its lease
        send      fails if another job has taken the id since

    If sending took the id, a job that was frozen behind its look at the lease would take it from its
    successor, and then send. Where no process keeps the producer, a task does all three, and asks the driver
    for its `lease`.
    """

    settings: KafkaSettings
    transactional_id: str
    attempt: int
    keeps: bool
    lease: AskForLease | None = None

    def prepare(self, _nothing: None = None) -> None:
        """Take the id, unless that is done. Raises SinkError."""
        if self not in _kept:
            delivery = self._opened()
            try:
                delivery.prepare()
            except BaseException:
                _kept.pop(self, None)
                delivery.close()
                raise

    def __call__(self, emission: Emission) -> EmissionResult:
        """Send an emission's survivors. Raises SinkError, or SourceError if the staged rows are gone."""
        if self.transactional_id and self.lease is None and self not in _kept:
            raise SinkError("the producer that was prepared is gone", where=self.transactional_id)
        delivery = _kept[self] if self in _kept else self._opened()
        _sending.append(delivery)
        if _stopping.is_set():
            delivery.stopped = True
        try:
            if self.lease is not None:
                delivery.prepare()
                self.lease.confirm()
            emitted = emission.write(SentRows(delivery))
        except BaseException:
            _kept.pop(self, None)
            delivery.close()
            raise
        finally:
            _sending.remove(delivery)
        if not self.keeps:
            delivery.close()
        return emitted

    def stop(self) -> None:
        """Let all that this process sends fail, once the brokers have answered what is in flight."""
        _stopping.set()
        for delivery in _sending:
            delivery.stopped = True

    def _opened(self) -> Delivery:
        for other in list(_kept):
            _kept.pop(other).close()
        delivery = Delivery(self.settings, self.transactional_id)
        if self.keeps:
            _kept[self] = delivery
        return delivery

    def __hash__(self) -> int:
        return hash((self.transactional_id, self.attempt))


def keeps_producers(settings: KafkaSettings) -> bool:
    """Whether a producer may wait for its next run: one that gets tokens must be served."""
    return LINE not in settings.client


def is_portable(settings: KafkaSettings) -> bool:
    """Whether another machine can log in with these settings: they need no file and no program of ours."""
    local = ("location", "keytab", "kinit.cmd")
    return not any(name.endswith(local) or may_change(value) for name, value in settings.client.items())
