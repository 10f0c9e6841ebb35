"""The attributes of Debezium's MBeans by context, those of 2.1.4 and 3.6.1 together.

MongoDB's connector has more of them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

_ALL = json.loads(Path(__file__).with_suffix(".json").read_text())
OF_MONGODB: dict[str, list[str]] = _ALL.pop("mongodb")
ATTRIBUTES: dict[str, list[str]] = _ALL


def snake(attribute: str) -> str:
    """An attribute in snake case: `MilliSecondsBehindSourceP50` is `milli_seconds_behind_source_p50`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", attribute).lower()
