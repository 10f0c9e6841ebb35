"""What every suite shares: fixture plugins, found by their name, and the property tests' profile."""

from __future__ import annotations

from pathlib import Path

import hypothesis

pytest_plugins = [f"tests.{plugin.stem}" for plugin in sorted(Path(__file__).parent.glob("fix_*.py"))]

# examples are timed on machines shared with servers; a slow one says nothing about the code
hypothesis.settings.register_profile("tidemark", deadline=None, print_blob=True)
hypothesis.settings.load_profile("tidemark")
