"""The command `tidemark`, once it is sure that Python finds our packages."""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> None:
    """Start the command. Exits with 2 beside another package's `engine`, `signals` or `adapters`."""
    try:
        import_module("tidemark").installation.check_distributions()
    except ImportError as error:
        sys.exit(_refused(error))
    import_module("adapters.cli.app").main()


def _refused(error: ImportError) -> int:
    sys.stderr.write(f"tidemark: {error}\n")
    return 2


if __name__ == "__main__":
    main()
