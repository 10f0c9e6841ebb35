"""The demo ends with equal collections, as it says that it does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.demo.__main__ import main

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.thorough
def test_the_demo_on_mongodb_finds_both_sides_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code = main(["--source", "mongodb", "--rows", "5000", "--sink-dir", str(tmp_path / "demo")])

    said = capsys.readouterr().out
    assert code == 0, said
    assert "EQUAL: shop.orders" in said
    assert re.search(r"the job's page is at http://127\.0\.0\.1:\d+/", said)
    # Each collection is told of at most once per quarter.
    assert len(re.findall(r"^shop\.\S+ \d+\.\d%", said, re.MULTILINE)) <= 8
