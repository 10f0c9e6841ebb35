"""What a look at a server finds: what a job would lack there, and how far the log is ahead of a job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `missing` ones keep a job from running, or from having all changes.

    `statement` would mend it, in the server's own language; empty if there is none. `restart`: only once the
    server was restarted.
    """

    text: str
    missing: bool = False
    statement: str = ""
    restart: bool = False


@dataclass(frozen=True, slots=True)
class Distance:
    """Where the server's log ends, and how far that is from a job's saved position.

    A source that can't measure it in bytes or in seconds leaves None. `kept` is what the server keeps for
    the job, in words.
    """

    end: str
    behind_bytes: int | None = None
    behind_s: float | None = None
    kept: str | None = None
