"""Questions about subscriptions: what a server that replicates from another one has received."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from adapters.postgres.server.failures import source_errors
from engine.model import CollectionId

if TYPE_CHECKING:
    import psycopg

# Everybody may read this catalog, but not all columns of pg_subscription.
_SUBSCRIBED: LiteralString = (
    "SELECT s.srsubid::int8, n.nspname, c.relname, s.srsubstate = 'r' FROM pg_subscription_rel s"
    " JOIN pg_class c ON c.oid = s.srrelid JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY 2, 3"
)


@dataclass(frozen=True, slots=True)
class SubscribedTable:
    """A table that comes by a subscription. `ready` says that its first copy is complete."""

    subscription: int
    table: CollectionId
    ready: bool


class Subscriptions:
    """The subscriptions of the database, over one connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def tables(self) -> list[SubscribedTable]:
        """All tables that come by a subscription."""
        with source_errors("asking for subscriptions"):
            rows = self._connection.execute(_SUBSCRIBED).fetchall()
        return [SubscribedTable(number, CollectionId((*name,)), ready) for number, *name, ready in rows]
