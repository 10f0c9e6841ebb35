"""The lease: which job may write to a checkpoint or to a directory of events. One job at a time.

A lease is a numbered file. The job that creates the file with the next number holds the lease, and the number
is its *epoch*. The holder gives the file a new stamp now and then. If the stamp does not change for the
holder's time to live, the holder has lost the lease. Clocks of two machines are never compared: a waiting job
measures with its own clock how long the stamp has not changed.

    holder                                   newcomer
    creates lease-…7.json, epoch 7           sees 7, whose stamp changes: stands by
    renews, renews, …                        …
    sleeps (SIGSTOP, a frozen disk)          the stamp does not change for the time to live
                                             creates lease-…8.json, epoch 8; a third job that tried is refused
                                             removes what 7 needs next: its staging directory, pending states
    wakes, and its commit fails              works under epoch 8
    sees 8: LeaseLost

The lease alone does not stop a holder that wakes in the middle of a write. What stops it: before the newcomer
reads any state, it removes the names that the sleeper's next steps need. The files sink's attempts have the
epoch in their path, pending states have it in their name.

A newcomer may sleep, too, between its look at the lease and the creation of its file. Others may take the
lease meanwhile and remove the file of that number. So it looks again: whoever has an older number than
another has nothing.

The holder may wake just after that look, and go on. So each of the two writes first, then looks. At least
one of them sees the other:

    holder      gives its file a new stamp, then looks for newer files; if there is one, it has lost the lease
    newcomer    creates its file, then looks at the holder's stamp; if that has changed, it removes its file
                and stands by

A newcomer that dies between these two steps leaves a file. Whoever sees that its process is gone takes the
lease at once, and a holder that has just woken goes on until it renews next. Only a sink that fences keeps it
from writing meanwhile.

A holder that died on this machine is recognised by its process, so a restart need not wait.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from adapters.storage.owner import UNKNOWN, Claim, Owner, document_of, owner_in
from adapters.system import start_thread
from engine.errors import LeaseHeld, LeaseLost, StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from adapters.storage.directory import Storage
    from adapters.system import SideTask, StartBeside

_log = logging.getLogger("adapters")
_NAME: Final = re.compile(r"\.?lease-(\d{12,})\.json")
_RENEWALS: Final = 4
"""How often a holder renews within its time to live."""
_LOOK_S: Final = 0.25
"""How often a standby job looks, in seconds."""


def clock() -> float:
    """Seconds of a clock that continues while the machine sleeps, and that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _clock() -> float:
    return clock()


@dataclass(slots=True)
class _WatchedLease:
    """Another job's lease under observation: its stamp, and since when that has not changed.

    `lives`: the stamp has been seen to change.
    """

    epoch: int
    stamp: str
    since_s: float
    lives: bool = False


class LeaseFiles(Protocol):
    """Reads the files of a directory."""

    def names(self) -> list[str]:
        """All files, in no order."""

    def read(self, name: str) -> bytes:
        """A file's content. Raises FileNotFoundError or StateError."""


def last_owner(files: LeaseFiles, prefix: str = "") -> Owner | None:
    """Who held the lease of a directory last, without touching it; None if nobody ever did."""
    newest = max(_epochs_in(files.names(), prefix), default=0)
    if not newest:
        return None
    try:
        return owner_in(files.read(_lease_name(newest, prefix)))
    except FileNotFoundError:
        return UNKNOWN


def newest_lease(names: Iterable[str]) -> int:
    """The newest epoch of the leases on a checkpoint, given its files' names; 0 if there is none."""
    return max(_epochs_in(names, ""), default=0)


def _epochs_in(names: Iterable[str], prefix: str) -> list[int]:
    found = (_NAME.fullmatch(name) for name in names if name.startswith(prefix))
    return [int(match[1]) for match in found if match]


def _lease_name(epoch: int, prefix: str) -> str:
    return f"{prefix}lease-{epoch:012d}.json"


class FileLease:
    """A lease kept in a directory, in files whose names begin with `prefix`. Not thread-safe by itself.

    A `crowded` directory has far more files than leases. It is listed only where nothing else will do.

    `epoch_in` returns the newest epoch in the names of other files there. So epochs don't start over if
    somebody removes the lease's files or restores old ones.
    """

    def __init__(
        self,
        storage: Storage,
        claim: Claim,
        prefix: str = "",
        epoch_in: Callable[[Iterable[str]], int] = lambda _names: 0,
        now_s: Callable[[], float] | None = None,
        *,
        crowded: bool = False,
    ) -> None:
        self._storage, self._claim, self._prefix, self._epoch_in = storage, claim, prefix, epoch_in
        self._crowded = crowded
        self._now_s = now_s or _clock
        self._watched: _WatchedLease | None = None
        self._known = 0
        self.epoch = 0
        self.previous: Owner | None = None
        """The previous holder."""

    @property
    def location(self) -> str:
        """The directory, for people."""
        return self._storage.location

    def try_take(self) -> Owner | None:
        """Take the lease if it is free and return None; otherwise return its holder.

        Call it again to retry.
        """
        newest, owner = self._holder()
        if owner is not None:
            return owner
        names = self._storage.names()
        if (taken := max(_epochs_in(names, self._prefix), default=0)) > newest:
            # Another job has taken it since it was looked at, and may have saved a state under its epoch.
            self._known = taken
            return self._owner(taken)
        epoch = max(newest, self._epoch_in(names)) + 1
        if not self._storage.create_new(self._name(epoch), document_of(self._claim.owner)):
            return self._owner(epoch)  # another job was faster
        epochs = self._epochs()
        # Others have taken it since it was looked at, and removed the file of this number; or its holder has
        # woken and renewed it.
        taken = max(epochs, default=epoch)
        if taken == epoch and self._has_woken(newest):
            taken = newest
        if taken != epoch:
            self._storage.delete(self._name(epoch))
            self._known = taken
            return self._owner(taken)
        self.epoch = self._known = epoch
        for older in epochs:
            if older < newest:  # the one before still shows who held it
                self._storage.delete(self._name(older))
        return None

    def _has_woken(self, epoch: int) -> bool:
        """Whether the holder that was looked at has renewed its lease since, or may have."""
        watched = self._watched
        if watched is None or watched.epoch != epoch:
            return False
        stamp = self._stamp(epoch)
        return not stamp or stamp != watched.stamp

    def observe(self) -> None:
        """Look at the holder's stamp ahead of time, to learn for how long it has not changed."""
        self._holder()

    @property
    def lives(self) -> bool:
        """Whether the holder has been seen to renew it."""
        return self._watched is not None and self._watched.lives

    def _holder(self) -> tuple[int, Owner | None]:
        """The newest epoch (0 for none), and its holder; None if nobody holds it."""
        newest = self._newest()
        if not newest:
            return 0, None
        owner, watched = self._owner(newest), self._watch(newest)
        self.previous = owner
        free = owner.released or owner.process.gone
        expired = self._now_s() - watched.since_s > (owner.ttl_ms or self._claim.ttl_ms) / 1000
        return newest, None if free or expired else owner

    def _watch(self, epoch: int) -> _WatchedLease:
        stamp, watched = self._stamp(epoch), self._watched
        if watched is None or watched.epoch != epoch:
            self._watched = _WatchedLease(epoch, stamp, self._now_s())
        elif watched.stamp != stamp:
            self._watched = _WatchedLease(epoch, stamp, self._now_s(), lives=True)
        else:
            return watched
        return self._watched

    def renew(self) -> None:
        """Show that the holder is alive. Raises LeaseLost if another job has taken the lease."""
        self._check_newest()
        self._storage.refresh(self._name(self.epoch), document_of(self._claim.owner))
        if not self._crowded:
            # An object store writes the file again, though holders since may have removed it and the next.
            self._known = 0
        self._check_newest()

    def _check_newest(self) -> None:
        newest = self._newest()
        if newest < self.epoch:
            raise LeaseLost("the lease's file is gone", where=self.location)
        if newest > self.epoch:
            by = self._owner(newest)
            raise LeaseLost(
                f"taken over by {by} (epoch {newest}, ours was {self.epoch})", where=self.location
            )

    def release(self) -> None:
        """Free the lease at once; does nothing if it is not ours any more."""
        if self.epoch and self._newest() == self.epoch:
            owner = self._claim.owner
            released = Owner(owner.id, owner.job, owner.process, owner.ttl_ms, released=True)
            self._storage.create(self._name(self.epoch), document_of(released))
        self.epoch = 0

    def _newest(self) -> int:
        """The newest epoch; 0 for none.

        A directory of events has an entry for each turn, so listing it takes longer and longer. It is listed
        only if the newest file known is gone. Otherwise a newer one has the next number: every holder takes
        the number after the newest, and removes the others only later.
        """
        if not self._known or not self._storage.exists(self._name(self._known)):
            self._known = max(self._epochs(), default=0)
        while self._known and self._storage.exists(self._name(self._known + 1)):
            self._known += 1
        return self._known

    def _epochs(self) -> list[int]:
        return _epochs_in(self._storage.names(), self._prefix)

    def _name(self, epoch: int) -> str:
        return _lease_name(epoch, self._prefix)

    def _stamp(self, epoch: int) -> str:
        try:
            return self._storage.stamp(self._name(epoch))
        except StateError:
            return ""  # removed by the holder of a newer one

    def _owner(self, epoch: int) -> Owner:
        try:
            return owner_in(self._storage.read(self._name(epoch)))
        except StateError:
            return UNKNOWN


class Leases:
    """The engine's `Lease` over several directories, taken in order.

    `start` runs their renewal beside the turns; `renew` is one step of it.
    """

    def __init__(
        self,
        claim: Claim,
        leases: Sequence[FileLease],
        start: StartBeside = start_thread,
        now_s: Callable[[], float] | None = None,
    ) -> None:
        self._claim, self._leases, self._start = claim, leases, start
        self._now_s = now_s or _clock
        self._ttl_s = claim.ttl_ms / 1000
        self._renewed_s = 0.0
        self._lost: LeaseLost | None = None
        self._stop = threading.Event()
        self._thread: SideTask | None = None

    def take(self, pause: Callable[[float], object]) -> bool:
        """Take all leases, standing by while another job holds one; False if `pause` says to stop.

        Raises LeaseHeld if the job must not stand by.
        """
        for at, lease in enumerate(self._leases):
            if not self._take(lease, self._leases[at + 1 :], pause):
                return False
            if self._thread is None:
                self._thread = self._start(self._keep_renewing, "tidemark-lease")
        return True

    def _take(self, lease: FileLease, later: Sequence[FileLease], pause: Callable[[float], object]) -> bool:
        told: str | None = None
        while (owner := self._try(lease)) is not None:
            for later_lease in later:
                later_lease.observe()
            if lease.lives and not self._claim.wait:
                raise LeaseHeld(
                    f"held by {owner}",
                    where=lease.location,
                    hint="stop that job, or set tidemark.lease.wait=true to stand by",
                )
            if told != owner.id and self._claim.wait:
                told = owner.id
                _log.info("%s is held by %s; standing by", lease.location, owner)
            self.check()
            if pause(min(_LOOK_S, self._ttl_s / _RENEWALS)):
                return False
        if told is not None:
            _log.info("%s is ours now (epoch %d)", lease.location, lease.epoch)
        return True

    def _try(self, lease: FileLease) -> Owner | None:
        """Try to take one of them. Its time to live counts from before that."""
        begun_s = self._now_s()
        owner = lease.try_take()
        if owner is None:
            self._renewed_s = min(begun_s, self._renewed_s) if self._thread is not None else begun_s
        return owner

    def _keep_renewing(self) -> None:
        while self._lost is None and not self._stop.wait(self._ttl_s / _RENEWALS):
            self.renew()

    def renew(self) -> None:
        """Show once that the holder is alive. What fails shows in `check`."""
        begun_s = self._now_s()
        try:
            for lease in self._leases:
                if lease.epoch:
                    lease.renew()
        except LeaseLost as error:
            self._lost = error
        except StateError as error:
            # Others take it once the stamp has not changed for too long; `check` raises before they can.
            _log.warning("the lease could not be renewed: %s", error)
        else:
            self._renewed_s = begun_s

    def check(self) -> None:
        """Raise LeaseLost if another job has taken a lease, or may have because it could not be renewed."""
        if self._lost is not None:
            raise self._lost
        unrenewed_s = self._now_s() - self._renewed_s
        if self._thread is not None and unrenewed_s > self._ttl_s:
            raise LeaseLost(
                f"not renewed for {unrenewed_s:.1f} s; another job may have taken over",
                where=self._leases[0].location,
                hint="the machine or its storage stood still; tidemark.lease.ttl.ms allows for longer",
            )

    def confirm(self) -> None:
        """Raise LeaseLost if another job has taken a lease. Other failures are ignored."""
        for lease in self._leases:
            with suppress(StateError):
                if lease.epoch:
                    lease.renew()
        self.check()

    def abandon(self) -> None:
        """Stop renewing without releasing anything, like a process that dies."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def release(self) -> None:
        """Free all leases at once. May be called twice."""
        self.abandon()
        for lease in reversed(self._leases):
            try:
                lease.release()
            except StateError as error:
                _log.warning("the lease could not be released, and will run out: %s", error)
