"""Three tables that are written to and read by snapshots while a job is killed, for checks of sinks."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.integration.test_jdbc_sink import SIGNAL_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from psycopg import Connection

    from tests.servers.postgres import Database

TABLES = ("a", "b", "c")
_KEYS = 30_000
_BIG = "repeat(md5(random()::text), 200)"
_STATEMENTS = (
    (
        "INSERT INTO {table} SELECT n, 'new', 0, {big} FROM generate_series({key}, {key} + 20) n"
        " ON CONFLICT (id) DO UPDATE SET note = excluded.note, n = {table}.n + 1"
    ),
    "UPDATE {table} SET n = n + 1 WHERE id BETWEEN {key} AND {key} + 50",
    "UPDATE {table} SET big = {big} WHERE id BETWEEN {key} AND {key} + 3",
    "UPDATE {table} SET id = id + 1000000 WHERE id BETWEEN {key} AND {key} + 5 AND id < 1000000",
    "DELETE FROM {table} WHERE id BETWEEN {key} AND {key} + 10 OR id = {key} + 1000000",
)


def create(connection: Connection[Any], rows: int) -> None:
    """The tables, each with so many rows, and the signal table."""
    connection.execute(SIGNAL_TABLE)
    for table in TABLES:
        connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, note text, n int, big text)".encode())
        connection.execute(
            f"INSERT INTO {table} SELECT n, 'first', 0, CASE WHEN n % 20 = 0 THEN {_BIG} END"
            f" FROM generate_series(1, {rows}) n".encode()
        )


def ask(connection: Connection[Any], number: int) -> None:
    """Request a snapshot of all of them."""
    names = ", ".join(f'"public.{table}"' for table in TABLES)
    connection.execute(
        "INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)",
        [str(number), f'{{"data-collections": [{names}]}}'],
    )


@contextmanager
def written(source: Database, random: Random, pause_s: float = 0.02) -> Iterator[None]:
    """Transactions over all tables, this far apart, until the end."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            with source.connect() as connection:
                while not stop.wait(pause_s):
                    with connection.transaction():
                        for _ in range(random.randint(1, 5)):
                            table, key = random.choice(TABLES), random.randrange(_KEYS)
                            if random.random() < 0.002:
                                connection.execute(f"TRUNCATE {table}".encode())
                            statement = random.choice(_STATEMENTS).format(table=table, key=key, big=_BIG)
                            connection.execute(statement.encode())
        except BaseException as error:  # noqa: BLE001  it is raised below
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures
