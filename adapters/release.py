"""The release that is installed."""

from __future__ import annotations

from importlib import metadata


def release() -> str:
    """Its version; "unknown" where the program is not installed, as in a checkout."""
    try:
        return metadata.version("tidemark")
    except metadata.PackageNotFoundError:
        return "unknown"
