"""What a program prints in processes whose sets have other orders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def printed_elsewhere(program: str) -> list[bytes]:
    """What the program prints in each of two processes with other hash seeds."""
    return [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=_ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "77")
    ]
