"""Transaction metadata: BEGIN and END events, and the counters of each event's transaction block.

MongoDB's change stream does not mark ends. As in Debezium 2.1.4, BEGIN comes before a transaction's first
event, and END with the first later event that does not belong to it. An event outside transactions emits END
but leaves the transaction open, so END is emitted again later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from adapters.mongodb.events.codec import embedded
from engine.events.names import transaction_topic
from engine.events.record.envelope import TRANSACTION_KEY, TRANSACTION_VALUE
from engine.events.record.schema import with_schema
from engine.events.record.transactions import ended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.mongodb.saved import SavedTransaction
    from engine.events.settings import EventSettings


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that may have further events, with its event counts so far, by collection.

    `restored` says that it comes from a saved state and has had no event since. Then its END is not emitted,
    as in Debezium after a restart.
    """

    id: str
    collections: tuple[tuple[str, int], ...] = ()
    restored: bool = False

    @property
    def events(self) -> int:
        """The number of events so far."""
        return sum(count for _name, count in self.collections)

    def counted(self, collection: str) -> OpenTransaction:
        """The transaction after one more event of a collection."""
        counts = dict(self.collections)
        counts[collection] = counts.get(collection, 0) + 1
        return replace(self, collections=tuple(counts.items()), restored=False)

    def block(self, collection: str) -> str:
        """The transaction block of the event counted last."""
        own = dict(self.collections)[collection]
        return f'{{"id":{embedded(self.id)},"total_order":{self.events},"data_collection_order":{own}}}'


def to_json(transaction: OpenTransaction | None) -> SavedTransaction | None:
    """Encode for the state."""
    if transaction is None:
        return None
    return {"id": transaction.id, "collections": list(transaction.collections)}


def from_json(saved: Mapping[str, Any] | None) -> OpenTransaction | None:
    """Decode from the state."""
    if saved is None:
        return None
    collections = tuple((name, count) for name, count in saved["collections"])
    return OpenTransaction(saved["id"], collections, restored=True)


@dataclass(slots=True)
class Boundaries:
    """Follows the events in order, and makes the BEGIN and END events before each, as (topic, key, value)."""

    settings: EventSettings
    open: OpenTransaction | None = None

    def before(self, transaction_id: str | None, seconds: int) -> list[tuple[str, str, str]]:
        """The events before one of this transaction (None: outside transactions) at a time in seconds."""
        if self.open is not None and self.open.id == transaction_id:
            return []
        ended = [] if self.open is None or self.open.restored else [self.open]
        made = [self._ended(transaction, seconds) for transaction in ended]
        if transaction_id is not None:
            self.open = OpenTransaction(transaction_id)
            made.append(
                self._event("BEGIN", transaction_id, '"event_count":null,"data_collections":null', seconds)
            )
        return made

    def count(self, collection: str) -> str:
        """Count an event of the open transaction; returns its block."""
        if self.open is None:
            return "null"
        self.open = self.open.counted(collection)
        return self.open.block(collection)

    def _ended(self, transaction: OpenTransaction, seconds: int) -> tuple[str, str, str]:
        return self._event("END", transaction.id, ended(transaction.collections), seconds)

    def _event(self, status: str, transaction_id: str, middle: str, seconds: int) -> tuple[str, str, str]:
        id_json = embedded(transaction_id)
        before, after = with_schema(TRANSACTION_KEY, enabled=self.settings.key_schemas)
        key = f'{before}{{"id":{id_json}}}{after}'
        before, after = with_schema(TRANSACTION_VALUE, enabled=self.settings.value_schemas)
        value = f'{before}{{"status":"{status}","id":{id_json},{middle},"ts_ms":{seconds}000}}{after}'
        return transaction_topic(self.settings), key, value
