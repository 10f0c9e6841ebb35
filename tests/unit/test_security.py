"""SECURITY.md has the rights that the tests' roles have."""

from __future__ import annotations

import re
from pathlib import Path

from tests.servers.sqlserver.contained import _RIGHTS, MORE_RIGHTS

ROOT = Path(__file__).parents[2]


def blocks(chapter: str) -> list[str]:
    """The code of one chapter."""
    text = (ROOT / "SECURITY.md").read_text()
    (found,) = re.findall(rf"^### {chapter}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"```\w+\n(.*?)```", found, re.DOTALL)


def test_sql_servers_role_has_the_rights_of_the_tests():
    (block,) = blocks("SQL Server")
    made = "CREATE ROLE cdc_reader"  # by whoever sets up CDC

    assert {part.strip() for part in block.split(";") if part.strip()} == (
        {*_RIGHTS, f"GRANT {MORE_RIGHTS}"} - {made}
    )


def test_mongodbs_role_has_the_rights_of_the_tests():
    (block,) = blocks("MongoDB")
    (actions,) = re.findall(r"actions: (\[.*?\])", block)
    tests = (ROOT / "tests/integration/test_mongodb_liveness.py").read_text()

    assert f'"streams": {actions}' in tests


def test_postgresqls_role_is_the_one_that_test_least_role_uses():
    reads, writes = blocks("PostgreSQL")

    assert "SELECT" in reads
    assert not re.search("SUPERUSER|INSERT|UPDATE|DELETE|ALL PRIVILEGES", reads)
    assert writes.strip() == "GRANT INSERT, DELETE ON public.signals TO tidemark;"
