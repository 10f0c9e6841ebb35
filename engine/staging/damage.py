"""The errors of blocks that are gone or damaged, whatever keeps them."""

from __future__ import annotations

from typing import Final

from engine.errors import ExecutorsFailed

_SHARED: Final = (
    "driver and executors must share tidemark.staging.dir, or the files sink's directory, and nobody else may"
    " clear it"
)


def gone_error(what: str, where: str, hint: str = _SHARED) -> ExecutorsFailed:
    """The error for a block that nobody has any more. `what` is a plural."""
    return ExecutorsFailed(f"{what} are gone", where=where, hint=hint)


def damaged_error(what: str, how: str, where: str) -> ExecutorsFailed:
    """The error for a block that is not what was written. `what` is a plural."""
    return ExecutorsFailed(
        f"{what} are damaged: {how}",
        where=where,
        hint="they are read again; if this recurs, look at the disk of the staging directory",
    )
