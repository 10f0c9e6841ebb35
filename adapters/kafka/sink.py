"""The Kafka sink: events into topics, at least once, in order.

Owns what a turn is; `turn_sending.py` sends it. Kafka shows a record as soon as it gets it. So a turn's parts
wait, in memory or as files of the tasks that wrote them, and are sent when the turn is committed. Several
parts may have the same key, and in a topic with one partition a table's truncates must keep their place. So
one producer sends a topic, part after part, and the executors send several topics at once. Few bytes are sent
from the driver, by a long-lived producer, because a Spark job alone would take longer.

A commit ends when all in-sync replicas have every event. If a topic refuses events, the others still get
theirs, and the commit then fails with the topic's name. A failed commit may have sent some events; the turn
is then begun again and sent from its first event. So a key's events are repeated in their order, as after a
crash, when it is unknown what the earlier process had sent. Only what nobody can call back could arrive after
its successor: records of a task that Spark has given up but that still runs, or a request that a broken
network delivers after `delivery.timeout.ms`. If that must not happen, producers have transactional ids
(`producers/fencing.py`).
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from adapters.kafka.errors import BatchRefused
from adapters.kafka.parts import TurnParts
from adapters.kafka.producers.records import of_topics
from adapters.kafka.turn_sending import ONE_PRODUCER, TurnSending
from adapters.staging.turn_parts import Staging
from engine.errors import InvariantError, SinkError, SinkRefused, TopicsRefused
from engine.events.batch import EventForm
from engine.staging.event_rows import EventRows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from adapters.kafka.beside.senders import Senders
    from adapters.kafka.settings import KafkaSettings
    from adapters.kafka.turn_sending import Producers
    from engine.job.snapshots.emission import Emission
    from engine.model import Part
    from engine.ports.executors import Executors
    from engine.ports.sink import PartWriter, RowsOnTheirWay

_log = logging.getLogger("adapters")
_LOCAL_BYTES: Final = 64 << 20
_TOLD: Final = 10


class KafkaSink:
    """Sends turns to the brokers of `settings`; driver and executors share `directory`.

    Raises ConfigError for settings that no client accepts.
    """

    form: Final = EventForm.RECORDS
    row_form: Final = EventRows()

    def __init__(
        self,
        settings: KafkaSettings,
        executors: Executors,
        directory: Path | str,
        *,
        monotonic: Callable[[], float],
        producers: Producers = ONE_PRODUCER,
        senders: Senders | None = None,
    ) -> None:
        self._directory = Path(directory).absolute()
        self._staging = Staging(self._directory)
        self._turns = TurnSending(settings, executors, producers, senders, monotonic)
        self._rows = self._turns.rows
        self._parts = TurnParts(self._directory, _LOCAL_BYTES)
        self._reached = False
        self._committed: int | None = None
        self._withheld: frozenset[str] = frozenset()

    def writer(self, turn: int) -> PartWriter:
        """Begin a turn. The first time, the brokers must answer.

        Transactional ids are taken here: the job looks at its lease after this, and before it commits.
        """
        if self.resolve_commit(turn):
            raise SinkRefused(f"turn {turn} is sent already", where="kafka")
        if not self._reached:
            self._turns.topics.brokers.reach()
            self._reached = True
        self._turns.take_ids()
        self._parts = TurnParts(self._staging.begin(turn), _LOCAL_BYTES)
        self._withheld = frozenset()
        return self._parts

    def withhold(self, parts: Sequence[Part], topic: str) -> Iterator[pa.RecordBatch]:
        """Leave a topic's events out of the turn, and return them."""
        self._withheld |= {topic}
        attempt = self._parts.attempt(parts)
        return (of_topics(batch, frozenset([topic])) for batch in attempt.batches())

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        """Send the turn's events and wait until the brokers have them all."""
        if self.resolve_commit(turn):
            return
        self._staging.begun(turn)
        while not self._try_to_send(parts):
            pass
        self._committed = turn
        self._parts = TurnParts(self._directory, _LOCAL_BYTES)
        self._staging.clear()

    def resolve_commit(self, turn: int) -> bool:
        """Return whether this process has sent the turn; what an earlier one has sent is unknown."""
        return turn == self._committed

    def newest_turn(self) -> None:
        """Return None: what an earlier process has sent is unknown."""

    def resume(self, saved: Mapping[str, str]) -> None:
        """Restore the topics' ids from the saved state, and stop the producers of the job that saved it."""
        self._turns.resume(saved)

    def memory(self) -> Mapping[str, str]:
        """The ids of the topics that events went to, and those of producers."""
        return self._turns.memory()

    def identity(self) -> str:
        """The cluster's id, from any of its brokers."""
        cluster = self._turns.topics.brokers.reach()
        self._reached = True
        return cluster

    def admit(self, topics: Collection[str]) -> None:
        """Check whether we may write to topics: warns of those that refuse, raises if all do.

        Writes nothing. Raises SinkError.
        """
        denied = self._turns.topics.refusals(topics)
        if denied and len(denied) == len(topics):
            self._turns.give_up()
            raise next(iter(denied.values()))
        for error in list(denied.values())[:_TOLD]:
            _log.warning("%s; its table will be set aside", error)
        if len(denied) > _TOLD:
            _log.warning("%d more topics may not be written to", len(denied) - _TOLD)

    # Rows beside the turns.

    @property
    def takes_rows(self) -> bool:
        """Whether anybody sends rows beside the turns."""
        return self._rows is not None and self._rows.is_possible

    def prepare_for_rows(self) -> bool:
        """Get all who send ready; returns whether they are, and one is free. Raises SinkError."""
        self._turns.take_ids()
        return self._rows is not None and self._rows.has_room and self._rows.prepare()

    def take_rows(self, emission: Emission, topic: str) -> RowsOnTheirWay:
        """Begin to send rows beside the turns. Raises SinkError, or TopicsRefused."""
        if self._rows is None:
            raise InvariantError("rows are to be sent beside the turns, and nobody sends any")
        if refused := self._turns.ensure_topics([topic]):
            raise TopicsRefused(refused)
        return self._rows.begin(emission)

    def close(self) -> None:
        """Discard the producer and what was not committed."""
        self._turns.give_up()
        if self._rows is not None:
            self._rows.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _try_to_send(self, parts: Sequence[Part]) -> bool:
        """Send a turn; False if it must be sent again, in smaller batches."""
        try:
            self._send(parts)
        except BatchRefused as refused:
            self._turns.make_batches_smaller(refused)
            if not self._turns.has_ids:
                raise  # the session begins anew, and takes them before it looks at its lease
            return False
        except SinkError as error:
            raise self._turns.handle_failure(error) from error
        return True

    def _send(self, parts: Sequence[Part]) -> None:
        if not self._turns.has_ids:
            raise SinkError("a producer that failed has given up the transactional ids", where="kafka")
        attempt = self._parts.attempt(parts)
        events = attempt.events()
        for topic in self._withheld:
            events.pop(topic, None)
        if not events:
            return
        if attempt.bytes <= _LOCAL_BYTES:
            self._turns.send(events, attempt, self._withheld)
            return
        del attempt
        spilled = self._parts.spill(parts)
        if self._turns.may_divide:
            self._turns.send_by_executors(events, spilled)
        else:
            self._turns.send(events, spilled, self._withheld)
