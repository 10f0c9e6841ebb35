"""The toy source and the toy sink, installed as another package would be."""

from __future__ import annotations

from pathlib import Path

import pytest

ENTRY_POINTS = """\
[tidemark.sources]
memory = tests.toys.memory:CONNECTOR
broken = tests.toys.nowhere:CONNECTOR
wrong = tests.toys.shelf:SINK

[tidemark.sinks]
shelf = tests.toys.shelf:SINK

[tidemark.signal.channels]
mailbox = tests.toys.mailbox:CHANNEL

[tidemark.signal.actions]
ring-bell = tests.toys.mailbox:RING
snapshot-everything = tests.toys.mailbox:EVERYTHING
"""


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on `sys.path` with the metadata of an installed distribution, and nothing else."""
    place = tmp_path / "site-packages"
    metadata = place / "toys-1.0.dist-info"
    metadata.mkdir(parents=True)
    metadata.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    metadata.joinpath("entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(place)
    return place
