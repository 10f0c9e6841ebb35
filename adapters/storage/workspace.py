"""The job's own staging directory: private, marked as ours, with one directory per epoch.

    <tidemark.staging.dir>/tidemark-<name>/.tidemark           the mark
                                          /000000000007/…      what the job of epoch 7 stages
                                          /verified/…          what the next epoch may go on with

Only directories of other epochs are ever removed, and only below a marked directory. So jobs may share a
staging directory, and a directory that was set by mistake loses nothing.
"""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlparse

from adapters.storage.disk import make_private, take_over
from engine.errors import ConfigError
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from engine.config.settings import JobSettings, Settings

VERIFIED: Final = "verified"
"""The directory that outlives its epoch: what verifications have read."""
_MARK: Final = ".tidemark"
_TEXT: Final = "Tidemark stages rows here. The directory may be removed while no job runs.\n"


def staging_base(job: JobSettings) -> str | None:
    """Where staging directories go: as configured, or beside a local checkpoint; None: anywhere."""
    place = urlparse(job.checkpoint or "")
    if job.staging or not job.checkpoint or place.scheme not in {"", "file"}:
        return job.staging
    return str(Path(place.path).absolute() / "staging")


def workspace_of(base: str, job: str, checkpoint: str) -> Path:
    """The directory below `base` of the job that keeps its state in `checkpoint`."""
    name = re.sub(r"[^\w.-]+", "_", job)[:40]
    return Path(base).absolute() / f"tidemark-{name}-{sha256(checkpoint.encode()).hexdigest()[:8]}"


def check(settings: Settings) -> None:
    """Raise ConfigError if foreign files are in the place of the staging directory."""
    base, checkpoint = staging_base(settings.job), settings.job.checkpoint
    if base and checkpoint:
        _refuse_foreign(workspace_of(base, settings.name, checkpoint))


def _refuse_foreign(workspace: Path) -> None:
    if workspace.exists() and not (workspace / _MARK).is_file() and any(workspace.iterdir()):
        raise ConfigError(
            f"{str(workspace)!r} holds files that are not Tidemark's", hint="set another tidemark.staging.dir"
        )


def take_workspace(workspace: Path, epoch: int) -> Path:
    """Create the directory to stage in; removes what earlier epochs have staged.

    Raises ConfigError if the workspace is not ours, SinkError if it can't be created.
    """
    with sink_errors(workspace):
        _refuse_foreign(workspace)
        make_private(workspace)
        (workspace / _MARK).write_text(_TEXT, "ascii")
        return take_over(workspace / f"{epoch:012d}", {VERIFIED})
