"""Delivers events to Kafka until all in-sync replicas have acknowledged each.

Owns one producer, and what happens to events that it could not deliver. Nothing is skipped: an undelivered
event fails the delivery, and the caller then sends all events again, from the first, with a new producer. The
one exception is a record that its topic refuses for its size: it may be set aside if the settings name a
topic for that. A delivery fails once nothing was acknowledged for `delivery.timeout.ms`, however long its
queue is. What is in flight follows the brokers' rate (`flow.py`), so a slow link only takes longer.

A failed delivery discards what it still holds, and waits for the answers to what is in flight, so that none
of it arrives after what is sent next.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException, Producer

from adapters.kafka.client import client, create_client, renew
from adapters.kafka.errors import NotDelivered, Reason, message_of, sink_error
from adapters.kafka.producers.delivered import DeliveryResult
from adapters.kafka.producers.fencing import Transactions, fatal_in, step_error, transactional
from adapters.kafka.producers.flow import Flow
from adapters.kafka.producers.records import (
    Header,
    Record,
    between_truncates,
    ends_of,
    headers_of,
    records_of,
    slice_end,
    truncated,
    without,
)
from adapters.kafka.producers.undelivered import UndeliveredRecords
from adapters.kafka.settings import KafkaSettings
from engine.errors import SinkError, TidemarkError, TopicsRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import pyarrow as pa


_log = logging.getLogger("adapters")
_SLICES: Final = 4
"""The least number of slices in flight per window."""
_WAIT_S: Final = 0.005
_CAUSE_S: Final = 0.2
_TOLD_EVERY_S: Final = 5.0
_RENEW_EVERY_S: Final = 0.5
ANSWERED_S: Final = 30.0
"""How long a delivery that is given up waits for answers, if its timeout is not shorter."""
_LARGEST: Final = "100000000"
"""The most bytes of a record set aside: a broker's default socket limit."""


class Delivery:
    """A producer from its first event to its last. Can't be used again once it has failed.

    Once `stopped` is set, a delivery that is going on fails soon.
    """

    def __init__(self, settings: KafkaSettings, transactional_id: str = "") -> None:
        self._settings, self.transactional_id = settings, transactional_id
        self._reason = Reason()
        self._where = f"kafka {settings.client.get('bootstrap.servers', '')}"
        config = client(settings.client, self._reason)
        self._timeout_ms = int(config["delivery.timeout.ms"])
        config["delivery.timeout.ms"] = "0"  # it would count from `produce`, including the whole queue
        if transactional_id:
            config = transactional(settings, transactional_id, self._reason)
            config["delivery.timeout.ms"] = config["transaction.timeout.ms"]  # no transaction outlives it
        aborts = bool(transactional_id)
        self._undelivered = UndeliveredRecords(settings, self._send_aside, aborts=aborts)
        config["on_delivery"] = self._undelivered.note
        self._flow = Flow()
        self._sent = self._total = self._rejected = 0
        self._told_s = self._renewed_s = 0.0
        self.stopped = False
        self._producer: Producer = create_client(Producer, config)
        self._transaction: Transactions | None = None
        if transactional_id:
            self._transaction = Transactions(
                self._producer, transactional_id, self._reason, self._timeout_ms / 1000
            )
        self._truncated: set[str] = set()
        self._aside: Delivery | None = None

    def send(
        self, batches: Iterable[pa.RecordBatch], total: int = 0, barriers: Collection[str] = ()
    ) -> DeliveryResult:
        """Send every event, in order, and wait until all are delivered; `total` is for the progress log.

        Truncates of topics in `barriers`, which have several partitions, are sent alone: all events before
        them are delivered by then, and none behind them is sent yet. A topic that refuses an event gets no
        more of them; the others get theirs. With a transactional id they don't: all is to be sent again,
        without that topic's. Raises SinkError.
        """
        self._truncated.clear()
        self._undelivered.refused.clear()
        self._sent, self._total, self._told_s = 0, total, time.monotonic()
        if self._transaction is not None:
            self._transaction.begin()
        for batch in batches:
            if self._undelivered.aborted:
                break
            found = truncated(batch)
            self._truncated |= found
            if found.isdisjoint(barriers):
                self._send_batch(batch)
                continue
            for piece, alone in between_truncates(batch, barriers):
                if alone:
                    self._flush()
                self._send_batch(piece)
                if alone:
                    self._flush()
        self._flush()
        if self._transaction is not None:
            self._transaction.end(commits=not self._undelivered.refused)
        return DeliveryResult(frozenset(self._truncated), dict(self._undelivered.refused))

    def _send_batch(self, batch: pa.RecordBatch) -> None:
        ends = ends_of(batch)
        start = 0
        while start < batch.num_rows and not self._undelivered.aborted:
            end = slice_end(ends, start, self._flow.window // _SLICES)
            sent = without(batch.slice(start, end - start), self._undelivered.refused)
            self._produce(sent)
            self._note_sent(sent.num_rows, int(ends[end] - ends[start]))
            self._await_room()
            start = end

    def prepare(self) -> None:
        """Make the producer the only one with its id, if it has one. Raises SinkError."""
        if self._transaction is not None:
            self._transaction.prepare()

    def _note_sent(self, records: int, size: int) -> None:
        self._sent += records
        self._flow.note_sent(records - self._rejected, size, time.monotonic())
        self._rejected = 0

    def _await_room(self) -> None:
        """Wait until more may be in flight.

        Raises SinkError if the brokers acknowledge nothing for too long.
        """
        self._serve(self._producer.poll, 0)
        self._look()
        while self._flow.full():
            self._serve(self._producer.poll, _WAIT_S)
            self._look()

    def _look(self) -> None:
        """Check how far the brokers are. Raises SinkError if they are silent, or if this is to stop."""
        if self.stopped:
            raise SinkError("stopped before everything was sent", where=self._where)
        now_s = time.monotonic()
        self._flow.note_unacknowledged(len(self._producer), now_s)
        self._settle()
        if self._flow.silent_s(now_s) >= _RENEW_EVERY_S and now_s - self._renewed_s >= _RENEW_EVERY_S:
            self._renewed_s = now_s
            self._renew()
        if self._flow.silent_s(now_s) * 1000 >= self._timeout_ms:
            raise self._stalled()
        if now_s - self._told_s >= _TOLD_EVERY_S:
            self._told_s = now_s
            self._tell(now_s)

    def _tell(self, now_s: float) -> None:
        if self._flow.silent_s(now_s) >= _TOLD_EVERY_S:
            _log.warning("%s: %s", self._where, self._reason.with_cause("events wait to be taken"))
            return
        done = max(0, self._sent - len(self._producer))
        of = f" of {self._total}" if self._total else ""
        _log.info("%s: %d%s events sent, %.0f kB/s", self._where, done, of, self._flow.rate / 1000)

    def _stalled(self) -> SinkError:
        """The error if nothing has been acknowledged for too long."""
        self._producer.purge()
        self._serve(self._producer.flush, 1.0)
        undelivered = self._undelivered.take()
        text = f"{len(undelivered)} events were not delivered within {self._timeout_ms} ms of the last answer"
        topic = undelivered[0].record[0] if undelivered else None
        hint = "look at the brokers, or raise producer.delivery.timeout.ms"
        return NotDelivered(self._reason.with_cause(text), topic=topic, where=self._where, hint=hint)

    def _serve(self, step: Callable[[float], int], seconds: float) -> int:
        """Let the producer work.

        Raises SinkError if it can't continue, for example when its id was taken over.
        """
        try:
            return step(seconds)
        except (KafkaException, SystemError) as exc:
            # The binding raises from within its callbacks, which Python turns into a SystemError.
            error = fatal_in(exc)
            if error is None:
                raise
            if self.transactional_id:
                raise step_error(
                    error, "can't be used any more", self.transactional_id, self._reason
                ) from exc
            raise sink_error(error, f"nothing more can be sent: {message_of(error)}", self._where) from exc

    def close(self) -> None:
        """Discard what was not sent, and wait until the rest is answered. To be called once.

        A broker may take up a request after the connection that brought it is closed. What is sent next would
        overtake it.
        """
        until_s = time.monotonic() + min(ANSWERED_S, self._timeout_ms / 1000)
        with suppress(KafkaException, SystemError):
            while len(self._producer) and time.monotonic() < until_s:
                self._producer.purge(in_flight=False)
                self._producer.flush(_CAUSE_S)
            self._producer.purge()
            self._producer.flush(1.0)
        with suppress(KafkaException, SystemError):
            self._producer.close()
        if self._aside is not None:
            self._aside.close()

    def _produce(self, batch: pa.RecordBatch) -> None:
        produce = self._producer.produce
        headers = batch.column("headers")
        records = records_of(batch)
        if headers.null_count < len(headers):
            for record, own in zip(records, headers.to_pylist(), strict=True):
                self._insist(produce, record, headers_of(own))
            return
        for record in records:
            try:
                produce(*record)
            except (BufferError, KafkaException):
                self._insist(produce, record, None)

    def _insist(self, produce: Callable[..., None], record: Record, headers: list[Header] | None) -> None:
        """Produce one record, waiting for room; a failure that waiting can't repair is recorded."""
        held, since_s = 0, time.monotonic()
        while True:
            try:
                produce(*record, headers=headers)
            except BufferError:
                self._serve(self._producer.poll, 0.05)
                if self.stopped:
                    self._look()
                if self._reason.take_refusal():
                    self._renew()
                self._settle()
                if len(self._producer) != held:
                    held, since_s = len(self._producer), time.monotonic()
                if (time.monotonic() - since_s) * 1000 >= self._timeout_ms:
                    raise self._stalled() from None
            except KafkaException as exc:
                self._undelivered.note_unsent(record, exc.args[0])
                self._rejected += 1
                if self._undelivered.lacks_cause:
                    self._settle()
                return
            else:
                return

    def _settle(self) -> None:
        """Settle what was not delivered, once it is known why.

        A refused event ends a transaction. What is reported of it may come after the end of others. What is
        in the queue, or comes back to it, is discarded: none of it is sent any more, and it would wait until
        it times out.
        """
        until_s = time.monotonic() + self._timeout_ms / 1000
        while self._undelivered.lacks_cause and time.monotonic() < until_s:
            self._producer.purge(in_flight=False)
            if not self._serve(self._producer.flush, _CAUSE_S):
                break
        self._undelivered.settle()
        if self._undelivered.aborted:
            self._producer.purge(in_flight=False)

    def _flush(self) -> None:
        while self._serve(self._producer.flush, min(1.0, self._timeout_ms / 4000)):
            self._look()
        self._look()

    def _renew(self) -> None:
        """Renew the credentials: after a while without acknowledgements, the password may have changed."""
        with suppress(TidemarkError):  # shown with the events, if they are not delivered in time
            renew(self._settings.client, self._producer, refused=self._reason.take_refusal())

    def _send_aside(self, record: Record, headers: list[Header]) -> None:
        """Send a dead letter, with a producer that takes larger records."""
        if self._aside is None:
            larger = {**self._settings.client, "message.max.bytes": _LARGEST}
            self._aside = Delivery(KafkaSettings(larger))
        self._aside.send_record(record, headers)

    def send_record(self, record: Record, headers: list[Header]) -> None:
        """Send one record and wait until it is delivered. Raises SinkError, TopicsRefused for a refusal."""
        self._undelivered.refused.clear()
        self._insist(self._producer.produce, record, headers)
        self._note_sent(1, len(record[1] or b""))
        self._flush()
        if self._undelivered.refused:
            raise TopicsRefused(self._undelivered.refused)
