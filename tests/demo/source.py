"""The demo's database: two tables, a signal table, and a role that may do no more than it must.

Owns the DDL, the rows at the start and the grants: what an operator would prepare by hand. The rows
hold what is easily garbled: NULLs beside empty strings, quotes, line breaks, control characters.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

if TYPE_CHECKING:
    from tests.servers.postgres import Database

ORDERS = ("public", "orders")
STOCK = ("inventory", "stock")
TABLES = (ORDERS, STOCK)
SIGNALS = "public.tidemark_signal"
PUBLICATION = "tidemark_demo"
SLOT = "tidemark_demo"
WAREHOUSES = ("Berlin", "Zürich", "København", "東京", "O'Hare", "São Paulo", "Kraków", 'the "old" one')

_TABLES = r"""
CREATE SCHEMA inventory;
CREATE TABLE public.orders (
    id bigint PRIMARY KEY,
    customer_id integer NOT NULL,
    status text NOT NULL,
    amount numeric(12, 2),
    weight double precision,
    paid boolean NOT NULL,
    note text,
    contact varchar(80),
    reference uuid NOT NULL,
    details jsonb,
    placed_at timestamptz NOT NULL,
    due_on date
);
CREATE TABLE inventory.stock (
    warehouse text,
    sku text,
    quantity integer NOT NULL,
    price numeric(10, 4),
    shelf text,
    batch uuid,
    counted_at timestamp,
    attributes jsonb,
    active boolean NOT NULL,
    PRIMARY KEY (warehouse, sku)
);
CREATE TABLE public.tidemark_signal (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data text);
"""

_ORDERS = r"""
INSERT INTO public.orders
SELECT i, i % 50000 + 1, (ARRAY['new', 'paid', 'shipped', 'returned'])[i % 4 + 1],
       CASE WHEN i % 17 > 0 THEN ((i * 7919) % 1000000 - 5000) / 100.0 END,
       CASE WHEN i % 11 > 0 THEN i * 0.1 END,
       i % 3 = 0,
       CASE i % 12 WHEN 0 THEN '' WHEN 1 THEN 'Grüße, 你好, 🌊' WHEN 2 THEN 'say "hello" \ or ''bye'''
                   WHEN 3 THEN E'first line\nsecond\tline\r' WHEN 4 THEN 'order ' || i
                   WHEN 5 THEN CASE WHEN i % 400000 = 100001 THEN 'a' || chr(31) || 'b' ELSE '\N' END END,
       'customer' || i % 50000 || '@example.org',
       md5(i::text)::uuid,
       CASE WHEN i % 5 > 0 THEN jsonb_build_object('items', i % 9, 'tags', jsonb_build_array('a', null, 'é'))
       END,
       timestamptz '2026-01-01 00:00:00+00' + i * interval '17.000129 seconds',
       CASE WHEN i % 6 > 0 THEN date '2026-02-01' + (i % 365)::integer END
FROM generate_series(1::bigint, %s) AS i
"""

_STOCK = r"""
INSERT INTO inventory.stock
SELECT (%s::text[])[i % cardinality(%s::text[]) + 1], 'SKU-' || lpad((i * 37 % 1000003)::text, 7, '0'),
       i % 500,
       CASE WHEN i % 13 > 0 THEN (i % 90000) / 10000.0 END,
       CASE i % 5 WHEN 0 THEN '' WHEN 2 THEN 'row "' || i || '"'
                  WHEN 1 THEN 'A\' || CASE WHEN i % 40000 = 1 THEN chr(31) ELSE E'\n' END || i END,
       CASE WHEN i % 2 = 0 THEN md5(i::text)::uuid END,
       timestamp '2026-03-01' + i * interval '1.25 seconds',
       jsonb_build_object('colour', (ARRAY['grün', 'rød', null])[i % 3 + 1], 'boxed', i % 2 = 0),
       i % 7 > 0
FROM generate_series(1::bigint, %s) AS i
"""

_GRANTS = """
CREATE PUBLICATION {publication} FOR TABLE public.orders, inventory.stock, {signals};
CREATE ROLE {role} LOGIN REPLICATION PASSWORD {password};
GRANT USAGE ON SCHEMA public, inventory TO {role};
GRANT SELECT ON public.orders, inventory.stock, {signals} TO {role};
GRANT INSERT ON {signals} TO {role};
"""


@dataclass(frozen=True, slots=True)
class Login:
    """The role that the job connects as."""

    user: str
    password: str


def fill(database: Database, *, orders: int, stock: int) -> None:
    """Make the tables and their rows."""
    warehouses = list(WAREHOUSES)
    with database.connect() as connection:
        connection.execute(_TABLES)
        connection.execute(_ORDERS.replace("%s", str(orders)))  # its own % are operators
        stock_rows = sql.SQL(_STOCK.replace("%s", "{}"))
        connection.execute(stock_rows.format(warehouses, warehouses, stock))
        connection.execute("ANALYZE")


def grant(database: Database) -> Login:
    """Make the publication and the job's role."""
    login = Login("tidemark", secrets.token_hex(16))
    with database.connect() as connection:
        connection.execute(
            sql.SQL(_GRANTS).format(
                publication=sql.Identifier(PUBLICATION),
                role=sql.Identifier(login.user),
                password=sql.Literal(login.password),
                signals=sql.Identifier(*SIGNALS.split(".")),
            )
        )
    return login
