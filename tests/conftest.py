"""What every suite shares: fixture plugins, found by their name, and the property tests' profile."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis

from tests.servers import class_archive

pytest_plugins = [f"tests.{plugin.stem}" for plugin in sorted(Path(__file__).parent.glob("fix_*.py"))]

# A JVM of the tests lives too briefly for what it compiles at length; jobs in their own processes inherit it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:TieredStopAtLevel=1 {class_archive.option()}".rstrip())
os.environ.setdefault("KAFKA_OPTS", "-XX:TieredStopAtLevel=1")

# The tests kill processes, never the machine: what is written need not have reached the disk.
os.fsync = lambda fd: None  # noqa: ARG005  the name is the original's

# examples are timed on machines shared with servers; a slow one says nothing about the code
hypothesis.settings.register_profile("tidemark", deadline=None, print_blob=True)
hypothesis.settings.load_profile("tidemark")
