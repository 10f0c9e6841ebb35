"""The leases and directories that a job holds while it runs."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.source.assembly.job_sink import wiring_of
from adapters.source.assembly.supplied import LeasedCheckpoint
from adapters.storage.directory import LocalStorage, storage
from adapters.storage.lease import FileLease, Leases
from adapters.storage.owner import Claim
from adapters.storage.state_files import newest_epoch
from adapters.storage.workspace import staging_base, take_workspace, workspace_of
from engine.errors import LeaseLost
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from engine.config.settings import Settings
    from engine.config.sinks.settings import SinkSettings


@contextmanager
def leased_checkpoint(
    settings: Settings, spark: SparkSession, sleep: Callable[[float], object]
) -> Iterator[LeasedCheckpoint]:
    """Stand by until the job holds the leases of the checkpoint and the sink, and release them at the end.

    Raises LeaseHeld if it must not wait, LeaseLost if the job is to stop meanwhile.
    """
    with ExitStack() as held:
        checkpoint, base = held.enter_context(_directories(settings))
        directory = storage(spark, checkpoint)
        claim = Claim(settings.name, settings.job.lease_ttl_ms, wait=settings.job.lease_wait)
        states = FileLease(directory, claim, epoch_in=newest_epoch)
        events = _lease_on_events(settings.sink, claim)
        leases = Leases(claim, [states, *([events] if events else [])])
        held.callback(leases.release)
        if not leases.take(sleep):
            raise LeaseLost("stopped while standing by", where=checkpoint)
        workspace = workspace_of(base, settings.name, checkpoint)
        yield LeasedCheckpoint(
            checkpoint,
            directory,
            str(take_workspace(workspace, states.epoch)),
            settings.name,
            workspace.name,
            leases,
            states.epoch,
            events.epoch if events else 0,
            claim.id,
            states.previous.id if states.previous else "",
        )


def _lease_on_events(settings: SinkSettings, claim: Claim) -> FileLease | None:
    """The lease on a sink that only one job at a time may write to, whatever its checkpoint."""
    directory = wiring_of(settings).owned(settings.own)
    if not directory:
        return None
    with sink_errors(directory):
        # Created here, so that it is not private.
        Path(directory).mkdir(parents=True, exist_ok=True)
    return FileLease(LocalStorage(Path(directory).absolute()), claim, prefix=".", crowded=True)


@contextmanager
def _directories(settings: Settings) -> Iterator[tuple[str, str]]:
    """Checkpoint and staging directory of a job; temporary ones if the settings have no checkpoint."""
    with tempfile.TemporaryDirectory(prefix="tidemark-") as temporary:
        checkpoint = settings.job.checkpoint or f"{temporary}/checkpoint"
        yield checkpoint, staging_base(settings.job) or f"{temporary}/staging"
