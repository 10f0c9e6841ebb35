"""A third table for demos that need more than the shop's two, and the users who write to it."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any

from psycopg import sql

from tests.demo.source import PUBLICATION
from tests.demo.users import Users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from tests.demo.source import Login
    from tests.demo.users import Customer
    from tests.servers.postgres import Database

PAYMENTS = ("public", "payments")
_TABLE = """
CREATE TABLE public.payments (
    id bigint PRIMARY KEY,
    order_id bigint NOT NULL,
    method text,
    paid_at timestamptz NOT NULL,
    amount numeric(12, 2)
);
INSERT INTO public.payments
SELECT i, i * 3, CASE i % 3 WHEN 0 THEN '' WHEN 1 THEN 'card "gold"' END,
       timestamptz '2026-01-01 00:00:00+00' + i * interval '31.5 seconds', i / 7.0
FROM generate_series(1::bigint, {rows}) AS i;
ALTER PUBLICATION {publication} ADD TABLE public.payments;
GRANT SELECT ON public.payments TO {role};
"""


def add_payments(database: Database, login: Login, rows: int) -> None:
    """Make the table and its rows, and let the job read it."""
    statements = sql.SQL(_TABLE).format(
        rows=sql.Literal(rows), publication=sql.Identifier(PUBLICATION), role=sql.Identifier(login.user)
    )
    with database.connect() as connection:
        connection.execute(statements)
        connection.execute("ANALYZE public.payments")


def payers(database: Database, rows: int, per_s: float) -> Users:
    """A write load on the table."""

    @contextlib.contextmanager
    def payer(number: int) -> Iterator[Customer]:
        with database.connect() as connection:
            yield _Payer(connection, random.Random(number), rows, 10**9 * (number + 1))

    return Users(payer, per_s)


class _Payer:
    """One writer's choices; `next_id` is the first id of payments that are its own."""

    statements = 1

    def __init__(
        self, connection: psycopg.Connection[Any], chance: random.Random, rows: int, next_id: int
    ) -> None:
        self._connection, self._chance, self._rows, self._next_id = connection, chance, rows, next_id
        self._steps: tuple[Callable[[], psycopg.Cursor[Any]], ...] = (
            self._insert,
            self._update,
            self._delete,
            self._renumber,
        )

    def act(self) -> int:
        """One statement; gives the rows written."""
        (step,) = self._chance.choices(self._steps, (30, 50, 15, 5))
        return step().rowcount

    def _payment(self) -> int:
        return self._chance.randint(1, self._rows)

    def _insert(self) -> psycopg.Cursor[Any]:
        self._next_id += 1
        return self._connection.execute(
            "INSERT INTO public.payments VALUES (%s, 1, NULL, clock_timestamp(), 0.5)", [self._next_id]
        )

    def _update(self) -> psycopg.Cursor[Any]:
        statement = "UPDATE public.payments SET amount = amount + 1, method = 'cash' WHERE id = %s"
        return self._connection.execute(statement, [self._payment()])

    def _delete(self) -> psycopg.Cursor[Any]:
        return self._connection.execute("DELETE FROM public.payments WHERE id = %s", [self._payment()])

    def _renumber(self) -> psycopg.Cursor[Any]:
        self._next_id += 1
        return self._connection.execute(
            "UPDATE public.payments SET id = %s WHERE id = %s", [self._next_id, self._payment()]
        )
