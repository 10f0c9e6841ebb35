"""One parser under atheris, which watches what our code does: `python -m tests.fuzz.led bson -runs=…`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["adapters", "engine", "signals"]):
    from tests.fuzz.targets import FUZZED, accepted


def main(name: str, options: list[str]) -> None:
    """Feed it; ends the process."""
    fuzzed = FUZZED[name]
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(fuzzed.seeds):
            (Path(folder) / f"seed-{number}").write_bytes(seed)
        atheris.Setup([name, *options, folder], lambda data: accepted(fuzzed, data))
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
