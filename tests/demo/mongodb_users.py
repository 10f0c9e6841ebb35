"""The demo's users on MongoDB: they insert, update, replace and delete, often several documents at once.

Owns the mixture. A write conflict between two transactions is theirs to live with: the
transaction is aborted and another one begun.
"""

from __future__ import annotations

import contextlib
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bson.decimal128 import Decimal128
from pymongo.errors import OperationFailure

from tests.demo.users import Users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pymongo import MongoClient
    from pymongo.client_session import ClientSession

    from tests.demo.users import Customer
    from tests.servers.mongodb import MongoServer

_TRANSIENT = "TransientTransactionError"
_NOTES = (None, "", "geändert", 'new "note"', "two\nlines", "back\\slash", "🚢 shipped", "unit\x1fseparator")


def mongodb_users(server: MongoServer, *, orders: int, articles: Sequence[Any], per_s: float) -> Users:
    """A write load on a replica set."""

    @contextlib.contextmanager
    def customer(number: int) -> Iterator[Customer]:
        with server.connect() as client:
            yield _Customer(client, random.Random(number), orders, articles, 10**9 * (number + 1))

    return Users(customer, per_s)


class _Customer:
    """One writer's choices; `next_id` is the first id of orders that are its own."""

    def __init__(
        self,
        client: MongoClient[dict[str, Any]],
        chance: random.Random,
        orders: int,
        articles: Sequence[Any],
        next_id: int,
    ) -> None:
        self._client = client
        self._chance, self._orders, self._articles, self._next_id = chance, orders, articles, next_id
        self._steps: tuple[Callable[..., int], ...] = (
            self._insert_order,
            self._update_order,
            self._replace_order,
            self._delete_order,
            self._count_article,
            self._replace_article,
            self._delete_article,
        )
        self.statements = 0

    def act(self) -> int:
        """One write, or a transaction of several; gives the documents written, 0 if it was aborted."""
        try:
            return self._transaction(self._client)
        except OperationFailure as error:
            if error.has_error_label(_TRANSIENT):
                return 0
            raise

    def _transaction(self, client: MongoClient[dict[str, Any]]) -> int:
        chance = self._chance
        self.statements = chance.choice((1, 1, 1, 1, 2, 3, 8))
        steps = chance.choices(self._steps, (20, 40, 10, 10, 12, 5, 3), k=self.statements)
        if len(steps) == 1:
            return steps[0](client, None)
        with client.start_session() as session, session.start_transaction():
            written = sum(step(client, session) for step in steps)
            if chance.random() < 0.05:
                session.abort_transaction()
                return 0
        return written

    def _order(self) -> int:
        return self._chance.randint(1, self._orders)

    def _fresh_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _new_order(self) -> dict[str, Any]:
        chance = self._chance
        return {
            "customer": chance.randint(1, 50_000),
            "status": "new",
            "amount": Decimal128(f"{chance.randint(-999, 99_999)}E-2"),
            "weight": chance.random(),
            "note": chance.choice(_NOTES),
            "details": {"gift": chance.random() < 0.5, "lines": [1, {"text": chance.choice(_NOTES)}]},
            "placed_at": datetime.now(UTC),
        }

    def _insert_order(self, client: MongoClient[dict[str, Any]], session: ClientSession | None) -> int:
        order = {"_id": self._fresh_id(), **self._new_order()}
        client["shop"]["orders"].insert_one(order, session=session)
        return 1

    def _update_order(self, client: MongoClient[dict[str, Any]], session: ClientSession | None) -> int:
        change = {
            "$set": {"status": self._chance.choice(("paid", "shipped")), "placed_at": datetime.now(UTC)},
            "$inc": {"details.items": 1},
            "$unset": {"note": ""},
        }
        chosen = {"_id": self._order()}
        return client["shop"]["orders"].update_one(chosen, change, session=session).modified_count

    def _replace_order(self, client: MongoClient[dict[str, Any]], session: ClientSession | None) -> int:
        # some come back that a deletion has taken away
        chosen = {"_id": self._order()}
        client["shop"]["orders"].replace_one(chosen, self._new_order(), upsert=True, session=session)
        return 1

    def _delete_order(self, client: MongoClient[dict[str, Any]], session: ClientSession | None) -> int:
        return client["shop"]["orders"].delete_one({"_id": self._order()}, session=session).deleted_count

    def _article(self) -> dict[str, Any]:
        return {"_id": self._chance.choice(self._articles)}

    def _count_article(self, client: MongoClient[dict[str, Any]], session: ClientSession | None) -> int:
        change = {"$inc": {"quantity": -1}, "$set": {"shelf": self._chance.choice(_NOTES)}}
        return (
            client["inventory"]["stock"].update_one(self._article(), change, session=session).modified_count
        )

    def _replace_article(self, client: MongoClient[dict[str, Any]], session: ClientSession | None) -> int:
        whole = {"quantity": self._chance.randint(0, 500), "price": 0.5, "shelf": None, "active": True}
        client["inventory"]["stock"].replace_one(self._article(), whole, upsert=True, session=session)
        return 1

    def _delete_article(self, client: MongoClient[dict[str, Any]], session: ClientSession | None) -> int:
        return client["inventory"]["stock"].delete_one(self._article(), session=session).deleted_count
