"""The demo's users on PostgreSQL: they insert, update, delete and change keys, and now and then roll back.

Owns the mixture. A deadlock between two of them is theirs to live with, as it is in
every application: the transaction is rolled back and another one begun.
"""

from __future__ import annotations

import contextlib
import json
import random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg

from tests.demo.source import WAREHOUSES
from tests.demo.users import Users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.demo.users import Customer
    from tests.servers.postgres import Database

_NOTES = (None, "", "geändert", 'new "note"', "two\nlines", "back\\slash", "🚢 shipped")
_RARE_NOTE, _RARELY = "unit\x1fseparator", 0.0005  # its rows are read again, in another form

_INSERT_ORDER = """
INSERT INTO public.orders VALUES (%s, %s, 'new', %s, %s, false, %s, %s, %s, %s, clock_timestamp(), %s)
ON CONFLICT (id) DO NOTHING
"""
_UPDATE_ORDER = """
UPDATE public.orders SET status = %s, amount = amount + %s, paid = NOT paid, note = %s,
       placed_at = clock_timestamp() WHERE id = %s
"""
_INSERT_STOCK = """
INSERT INTO inventory.stock VALUES (%s, %s, 1, 0.5, %s, NULL, clock_timestamp(), '{}', true)
ON CONFLICT DO NOTHING
"""
_NTH_STOCK = "SKU-{:07d}"


def postgres_users(database: Database, *, orders: int, stock: int, per_s: float) -> Users:
    """A write load on a database."""

    @contextlib.contextmanager
    def customer(number: int) -> Iterator[Customer]:
        with database.connect(autocommit=False) as connection:
            yield _Customer(connection, random.Random(number), orders, stock, 10**9 * (number + 1))

    return Users(customer, per_s)


class _Customer:
    """One writer's choices; `next_id` is the first id of orders that are its own."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        chance: random.Random,
        orders: int,
        stock: int,
        next_id: int,
    ) -> None:
        self._connection = connection
        self._chance, self._orders, self._stock, self._next_id = chance, orders, stock, next_id
        self._steps: tuple[Callable[[psycopg.Cursor[Any]], object], ...] = (
            self._insert_order,
            self._update_order,
            self._delete_order,
            self._renumber_order,
            self._insert_stock,
            self._update_stock,
            self._delete_stock,
            self._move_stock,
        )
        self.statements = 0

    def act(self) -> int:
        """One transaction of one to eight statements; gives the rows written, 0 if rolled back."""
        try:
            return self._transaction(self._connection)
        except psycopg.errors.DeadlockDetected:
            self._connection.rollback()
            return 0

    def _transaction(self, connection: psycopg.Connection[Any]) -> int:
        chance = self._chance
        self.statements = chance.choice((1, 1, 1, 1, 2, 3, 8))
        written = 0
        with connection.cursor() as cursor:
            for step in chance.choices(self._steps, (20, 40, 10, 3, 4, 16, 4, 3), k=self.statements):
                if chance.random() < 0.02:
                    cursor.execute("SAVEPOINT before")
                    step(cursor)
                    cursor.execute("ROLLBACK TO before")
                else:
                    step(cursor)
                    written += cursor.rowcount
        if chance.random() < 0.05:
            connection.rollback()
            return 0
        connection.commit()
        return written

    def _note(self) -> str | None:
        return _RARE_NOTE if self._chance.random() < _RARELY else self._chance.choice(_NOTES)

    def _order(self) -> int:
        return self._chance.randint(1, self._orders)

    def _article(self) -> tuple[str, str]:
        number = self._chance.randint(1, self._stock)
        return WAREHOUSES[number % len(WAREHOUSES)], _NTH_STOCK.format(number * 37 % 1_000_003)

    def _fresh_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _insert_order(self, cursor: psycopg.Cursor[Any]) -> None:
        chance = self._chance
        # some take a number that a deletion has freed
        order = self._order() if chance.random() < 0.3 else self._fresh_id()
        details = json.dumps({"gift": chance.random() < 0.5, "text": self._note()})
        reference = UUID(int=chance.getrandbits(128))
        values = (order, order % 50_000, chance.randint(-999, 99_999) / 100, chance.random())
        cursor.execute(
            _INSERT_ORDER, (*values, self._note(), "someone@example.org", reference, details, None)
        )

    def _update_order(self, cursor: psycopg.Cursor[Any]) -> None:
        chance = self._chance
        amount, note = chance.randint(-99, 99) / 100, self._note()
        cursor.execute(_UPDATE_ORDER, (chance.choice(("paid", "shipped")), amount, note, self._order()))

    def _delete_order(self, cursor: psycopg.Cursor[Any]) -> None:
        cursor.execute("DELETE FROM public.orders WHERE id = %s", [self._order()])

    def _renumber_order(self, cursor: psycopg.Cursor[Any]) -> None:
        cursor.execute("UPDATE public.orders SET id = %s WHERE id = %s", [self._fresh_id(), self._order()])

    def _insert_stock(self, cursor: psycopg.Cursor[Any]) -> None:
        cursor.execute(_INSERT_STOCK, (*self._article(), self._note()))

    def _update_stock(self, cursor: psycopg.Cursor[Any]) -> None:
        statement = (
            "UPDATE inventory.stock SET quantity = quantity - 1, shelf = %s WHERE (warehouse, sku) = (%s, %s)"
        )
        cursor.execute(statement, (self._note(), *self._article()))

    def _delete_stock(self, cursor: psycopg.Cursor[Any]) -> None:
        cursor.execute("DELETE FROM inventory.stock WHERE (warehouse, sku) = (%s, %s)", self._article())

    def _move_stock(self, cursor: psycopg.Cursor[Any]) -> None:
        statement = "UPDATE inventory.stock SET sku = sku || %s WHERE (warehouse, sku) = (%s, %s)"
        cursor.execute(statement, (f"-{self._fresh_id()}", *self._article()))
