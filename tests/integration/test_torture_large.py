"""The torture test's large transactions exceed its servers' `logical_decoding_work_mem`."""

from __future__ import annotations

import pytest

from tests.servers.postgres import PostgresServer
from tests.torture.grounds import SETTINGS
from tests.torture.statements import statements
from tests.torture.tables import TableShape, create

pytestmark = pytest.mark.integration


def test_the_smallest_of_them_is_spilled_by_the_server():
    shape = TableShape("t0", "int", "d", 0)
    with PostgresServer(18, settings=SETTINGS) as server, server.connect() as connection:
        run = connection.execute
        run("CREATE SEQUENCE versions")
        for statement in create(shape):
            run(statement.encode())
        run("CREATE PUBLICATION p FOR TABLE t0")
        run("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        for statement in statements(["fill", 0, 20_000, 30], [shape]):
            run(statement.encode())
        run(
            "SELECT count(*) FROM pg_logical_slot_get_binary_changes"
            "('s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')"
        )
        [(spilled,)] = run("SELECT spill_bytes FROM pg_stat_replication_slots").fetchall()
        run("SELECT pg_drop_replication_slot('s')")

    assert spilled > 64 << 10
