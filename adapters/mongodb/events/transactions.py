"""Transaction metadata: BEGIN and END events, and the counters of each event's transaction block.

MongoDB's change stream does not mark ends. As in Debezium 2.1.4, BEGIN comes before a transaction's first
event, and END with the first later event that does not belong to it. An event outside transactions emits END
but leaves the transaction open, so END is emitted again later. The END of a transaction restored from a saved
state is not emitted until it has had another event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.mongodb.documents.extended_json import embedded
from adapters.source.log.open_transaction import OpenTransaction
from engine.events.names import transaction_topic
from engine.events.record.envelope import TRANSACTION_KEY, TRANSACTION_VALUE
from engine.events.record.schema import with_schema
from engine.events.record.transactions import ended

if TYPE_CHECKING:
    from engine.events.settings import EventSettings


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
        return _block(self.open, collection)

    def _ended(self, transaction: OpenTransaction, seconds: int) -> tuple[str, str, str]:
        return self._event("END", transaction.id, ended(transaction.collections), seconds)

    def _event(self, status: str, transaction_id: str, middle: str, seconds: int) -> tuple[str, str, str]:
        id_json = embedded(transaction_id)
        before, after = with_schema(TRANSACTION_KEY, enabled=self.settings.key_schemas)
        key = f'{before}{{"id":{id_json}}}{after}'
        before, after = with_schema(TRANSACTION_VALUE, enabled=self.settings.value_schemas)
        value = f'{before}{{"status":"{status}","id":{id_json},{middle},"ts_ms":{seconds}000}}{after}'
        return transaction_topic(self.settings), key, value


def _block(transaction: OpenTransaction, collection: str) -> str:
    """The transaction block of the event counted last."""
    own = dict(transaction.collections)[collection]
    shown = embedded(transaction.id)
    return f'{{"id":{shown},"total_order":{transaction.events},"data_collection_order":{own}}}'
