"""A sample of `make lake`, in a process of its own: Spark needs Delta Lake and Iceberg for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
CHECKS = Path(__file__).with_name("check_lake_tables.py")
SAMPLE = "test_a_turn_is_in_all_tables_once_though_a_process_dies_between_two_of_them and iceberg"
"""A merge into a table of Delta Lake takes some times as long."""


@pytest.mark.thorough
def test_a_turn_is_in_all_tables_once_though_a_process_dies_between_two_of_them():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CHECKS), "-k", SAMPLE]
    # The workers of a run in parallel tell those below them what they are.
    place = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=place)

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
