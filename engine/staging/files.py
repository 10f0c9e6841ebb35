"""Files written before a turn is committed: turning the operating system's errors into SinkErrors."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from engine.errors import SinkError, SinkRefused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HINTS: Final = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "raise the quota or free some space",
    errno.EACCES: "let the job's user write there",
    errno.EPERM: "let the job's user write there",
    errno.EROFS: "the file system is read-only",
    errno.ENOENT: "it was removed, or a newer attempt of the turn has begun",
    errno.EMFILE: "raise the limit of open files",
    errno.EPIPE: "whoever read the output has gone",
}


@contextmanager
def sink_errors(path: Path | str) -> Iterator[None]:
    """Turn an OSError about `path` into a SinkError that says what to do."""
    try:
        yield
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        kind = SinkRefused if exc.errno == errno.EPIPE else SinkError
        raise kind(reason, where=str(path), hint=_HINTS.get(exc.errno or 0, "")) from exc
