"""The demo's users on MongoDB: threads that insert, update, replace and delete, often several at once.

Owns the mixture and its rate. A write conflict between two transactions is theirs to live with: the
transaction is aborted and another one begun.
"""

from __future__ import annotations

import random
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from bson.decimal128 import Decimal128
from pymongo.errors import OperationFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pymongo import MongoClient
    from pymongo.client_session import ClientSession

    from tests.servers.mongodb import MongoServer

_THREADS = 2
_TRANSIENT = "TransientTransactionError"
_NOTES = (None, "", "geändert", 'new "note"', "two\nlines", "back\\slash", "🚢 shipped", "unit\x1fseparator")


class MongoUsers:
    """A write load from entering the context until `stop`, at about `per_s` writes/s."""

    def __init__(self, server: MongoServer, *, orders: int, articles: Sequence[Any], per_s: float) -> None:
        self._server, self._orders, self._articles = server, orders, articles
        self._pause_s = _THREADS / per_s
        self._stop = threading.Event()
        self._faults: list[BaseException] = []
        self._written = [0] * _THREADS
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name=f"user {number}", daemon=True)
            for number in range(_THREADS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def written(self) -> int:
        """Documents written and committed so far."""
        return sum(self._written)

    def stop(self) -> int:
        """End the load; gives the documents written. Raises what a writer died of."""
        self.__exit__()
        self.check()
        return self.written

    def check(self) -> None:
        """Raise what a writer died of."""
        if self._faults:
            raise self._faults[0]

    def _run(self, number: int) -> None:
        try:
            with self._server.connect() as client:
                customer = _Customer(
                    random.Random(number), self._orders, self._articles, 10**9 * (number + 1)
                )
                self._write(number, client, customer)
        except BaseException as fault:  # noqa: BLE001  (told to whoever asks next)
            self._faults.append(fault)

    def _write(self, number: int, client: MongoClient[dict[str, Any]], customer: _Customer) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                self._written[number] += customer.act(client)
            except OperationFailure as error:
                if not error.has_error_label(_TRANSIENT):
                    raise
            due += self._pause_s * customer.statements
            self._stop.wait(max(0.0, due - time.monotonic()))


class _Customer:
    """One writer's choices; `next_id` is the first id of orders that are its own."""

    def __init__(self, chance: random.Random, orders: int, articles: Sequence[Any], next_id: int) -> None:
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

    def act(self, client: MongoClient[dict[str, Any]]) -> int:
        """One write, or a transaction of several; gives the documents written, 0 if it was aborted."""
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
