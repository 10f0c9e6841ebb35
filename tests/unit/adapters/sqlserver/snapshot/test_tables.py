"""Measuring tables: what signals ask for takes a bounded time of the server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from adapters.sqlserver.server.table_probes import TableSize
from adapters.sqlserver.snapshot.tables import SqlServerTables
from engine.errors import SignalError, TableBusy
from engine.model import CollectionId, Target

T = CollectionId(("shop", "dbo", "t"))


class SlowServer:
    """Takes six seconds to compile a condition."""

    def __init__(self):
        self.now_s = 0.0
        self.probes = self

    def questions(self, _database):
        return self

    def size(self, _read):
        return TableSize(10, 10)

    def refusal(self, _read, *, filtered):
        self.now_s += 6.0 if filtered else 0.0
        return "it is too slow" if filtered else None


def test_conditions_that_are_compiled_for_long_do_not_add_up():
    server = SlowServer()
    databases: Any = server
    tables = SqlServerTables(databases, monotonic=lambda: server.now_s)
    table = SimpleNamespace(id=T)
    read: Any = SimpleNamespace(
        condition="x", statement=None, scope=None, table=table, fingerprint=(), keyset=None
    )
    found = []
    for number in range(20):
        try:
            tables._measured(read, Target(T, f"id = {number}"), bounded=False)
        except (SignalError, TableBusy) as error:
            found.append(type(error))

    assert found == [SignalError] * 2 + [TableBusy] * 18
