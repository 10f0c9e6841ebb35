"""Directories of a job on this machine, which must not get in each other's way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values

STAGING: Final = "tidemark.staging.dir"


def local(values: Values, name: str) -> Path | None:
    """The directory on this machine that a property names; None for anything else."""
    place = values.get(name, str)
    found = urlparse(place)
    if not place or found.scheme not in {"", "file"}:
        return None
    return Path(os.path.abspath(found.path))  # noqa: PTH100  links are not followed


def staged_over(values: Values, name: str) -> Iterator[str]:
    """Yield that the staging directory, which is cleared, holds the directory that a property names."""
    place, staging = local(values, name), local(values, STAGING)
    if place is not None and staging is not None and place.is_relative_to(staging):
        yield f"{STAGING!r} holds {name!r}; give it a directory of its own"
