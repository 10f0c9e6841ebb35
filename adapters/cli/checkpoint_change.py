"""Changes a checkpoint by command: under the job's lease, and with a copy of what was there.

No job runs meanwhile, because it could not take the lease, and a state that is changed under a running job
would be overwritten by its next turn.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from adapters.storage.checkpoint_reader import checkpoint_of
from adapters.storage.lease import FileLease, Leases
from adapters.storage.owner import Claim
from adapters.storage.state_files import newest_epoch, seal, state_name
from adapters.system import system_clock
from engine.config.settings import StateForm
from engine.config.text.hidden import without_secrets
from engine.errors import ConfigError, StateError
from engine.job.saved.forms import PREVIOUS
from engine.job.saved.state_document import CURRENT, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapters.storage.checkpoint_reader import CheckpointReader, SavedTurn
    from adapters.storage.directory import Storage
    from engine.config import Settings
    from engine.job.saved.state import State


class Change:
    """The newest state, and the storage to write another one in its place, as long as the lease is held."""

    def __init__(self, saved: SavedTurn, held: tuple[Storage, Leases], version: int) -> None:
        self.saved, self._version = saved, version
        self._storage, self._leases = held

    def write(self, state: State) -> str:
        """Replace the state by this one. Returns the name of the copy of what was there.

        Raises LeaseLost, and changes nothing, if a job may have begun since the lease was taken.
        """
        self._leases.confirm()
        name = state_name(state.turn)
        kept = self._keep(name, self._storage.read(name))
        _write(self._storage, state, self._version)
        return kept

    def _keep(self, name: str, content: bytes) -> str:
        """Write a copy under a name that no earlier copy has; returns the name."""
        began = f"backup-{time.strftime('%Y%m%dT%H%M%S', time.gmtime(system_clock().now()))}"
        names = (f"{began}{f'.{number}' if number else ''}-{name}" for number in count())
        return next(kept for kept in names if self._storage.create_new(kept, content))


class FreshCheckpoint:
    """A checkpoint without a state, and the storage to write the first one, as long as the lease is held."""

    def __init__(self, held: tuple[Storage, Leases], version: int) -> None:
        self._storage, self._leases = held
        self._version = version

    def write(self, state: State) -> None:
        """Write the state that the job's first start continues from. Raises LeaseLost as `Change.write`."""
        self._leases.confirm()
        _write(self._storage, state, self._version)


@contextmanager
def changing(settings: Settings) -> Iterator[Change]:
    """Hold the lease while the state is changed. Raises LeaseHeld while a job runs."""
    reader = checkpoint_of(settings)
    newest_of(reader)
    with _leased(settings, reader) as held:
        yield Change(newest_of(reader), held, _version(settings))


@contextmanager
def beginning(settings: Settings) -> Iterator[FreshCheckpoint]:
    """Hold the lease while a first state is made. Raises StateError if there is one, LeaseHeld as above."""
    reader = checkpoint_of(settings)
    _refuse_existing(reader)
    with _leased(settings, reader) as held:
        _refuse_existing(reader)
        yield FreshCheckpoint(held, _version(settings))


def newest_of(reader: CheckpointReader) -> SavedTurn:
    """The newest saved state. Raises StateError if there is none."""
    saved = reader.newest()
    if saved is None:
        raise StateError("no state was saved yet", where=reader.location, hint="run the job first")
    return saved


def _refuse_existing(reader: CheckpointReader) -> None:
    if reader.newest() is not None:
        raise StateError(
            "there is a state already",
            where=reader.location,
            hint="set tidemark.checkpoint to an empty directory, or continue from that state by tidemark run",
        )


@contextmanager
def _leased(settings: Settings, reader: CheckpointReader) -> Iterator[tuple[Storage, Leases]]:
    storage = _local(settings.job.checkpoint or "")
    claim = Claim(settings.name, settings.job.lease_ttl_ms, wait=False)
    leases = Leases(claim, [FileLease(storage, claim, epoch_in=newest_epoch)])
    try:
        leases.take(system_clock().sleep)
        if reader.has_pending():
            raise StateError(
                "a turn was begun, and only the sink knows whether it ended",
                where=reader.location,
                hint="start the job and stop it again, which settles that turn",
            )
        yield storage, leases
    finally:
        leases.release()


def _write(storage: Storage, state: State, version: int) -> None:
    storage.create(state_name(state.turn), seal(state.turn, to_json(replace(state, beside=""), version)))


def _version(settings: Settings) -> int:
    return CURRENT if settings.job.state_form is StateForm.CURRENT else PREVIOUS


def _local(location: str) -> Storage:
    """The checkpoint's directory. It can be changed on this machine's disks alone."""
    from adapters.storage.directory import LocalStorage  # noqa: PLC0415  PySpark takes long to import

    path = urlparse(location)
    if path.scheme not in {"", "file"}:
        raise ConfigError(
            f"the state in {without_secrets(location)!r} can be looked at, but changed only in a local"
            " directory",
            hint="copy the checkpoint, change the copy, and point tidemark.checkpoint to it",
        )
    return LocalStorage(Path(path.path).absolute())
