"""Who may write to a directory: one job at a time, and the next one once the one before is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import orjson
import pytest

from adapters.storage import lease as leases
from adapters.storage import owner as owners
from adapters.storage.directory import LocalStorage
from adapters.storage.lease import FileLease, Leases
from adapters.storage.owner import Claim, Process, this_process
from adapters.storage.state_files import newest_epoch, state_name
from engine.errors import LeaseHeld, LeaseLost

TTL_S = 60.0


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test moves on."""
    now = [1000.0]
    monkeypatch.setattr(leases, "clock", lambda: now[0])
    return now


@pytest.fixture
def elsewhere(monkeypatch):
    """Owners seem to run on another machine, of whose processes nothing is known."""
    here = this_process()
    monkeypatch.setattr(Claim, "owner", property(_on(replace(here, boot="another"), Claim.owner.fget)))  # type: ignore[attr-defined]  # a property


def _on(process, owner):
    return lambda claim: replace(owner(claim), process=process)


def opened(directory, *, prefix="", **claim):
    return FileLease(LocalStorage(directory), Claim("shop", ttl_ms=int(TTL_S * 1000), **claim), prefix)


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_the_first_job_has_it_at_once(tmp_path):
    lease = opened(tmp_path)

    assert lease.try_take() is None
    assert lease.epoch == 1
    assert names(tmp_path) == ["lease-000000000001.json"]


def test_a_second_job_is_told_who_holds_it(tmp_path):
    opened(tmp_path).try_take()
    holder = opened(tmp_path).try_take()

    assert str(holder) == f"job 'shop', process {os.getpid()} on {this_process().host}"


def test_a_lease_that_was_released_is_free(tmp_path):
    first, second = opened(tmp_path), opened(tmp_path)
    first.try_take()
    first.release()

    assert second.try_take() is None
    assert second.epoch == 2


@pytest.mark.usefixtures("elsewhere")
def test_a_lease_whose_holder_is_silent_for_its_time_to_live_is_free(tmp_path, clock):
    opened(tmp_path).try_take()
    second = opened(tmp_path)
    second.try_take()
    clock[0] += TTL_S - 1
    before = second.try_take()
    clock[0] += 2

    assert before is not None
    assert second.try_take() is None


@pytest.mark.usefixtures("elsewhere")
def test_a_lease_that_is_renewed_stays_its_holders(tmp_path, clock):
    first, second = opened(tmp_path), opened(tmp_path)
    first.try_take()
    for _ in range(10):
        clock[0] += TTL_S / 2
        first.renew()

        assert second.try_take() is not None
    assert second.lives


def test_a_holder_that_died_on_this_machine_is_not_waited_for(tmp_path):
    lease = opened(tmp_path)
    lease.try_take()
    path = tmp_path / "lease-000000000001.json"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    document = orjson.loads(path.read_bytes())
    document["process"]["pid"] = dead.pid
    path.write_bytes(orjson.dumps(document))

    assert opened(tmp_path).try_take() is None


def test_a_process_that_stands_still_is_not_gone():
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        sleeper.send_signal(signal.SIGSTOP)
        here = this_process()
        found = Process(here.host, sleeper.pid, here.boot, here.namespace, owners._started(sleeper.pid))

        assert not found.gone
    finally:
        sleeper.kill()
        sleeper.wait()
    assert found.gone


def test_a_number_that_another_process_got_is_no_sign_of_life():
    assert replace(this_process(), started="1").gone


def test_a_process_of_another_machine_may_run():
    assert not replace(this_process(), boot="another", started="1").gone


@pytest.mark.usefixtures("elsewhere")
def test_whoever_has_lost_it_is_told_when_it_renews(tmp_path, clock):
    first, second = opened(tmp_path), opened(tmp_path)
    first.try_take()
    second.try_take()
    clock[0] += TTL_S + 1
    second.try_take()

    with pytest.raises(LeaseLost, match=r"taken over by job 'shop'.*epoch 2, ours was 1"):
        first.renew()


def test_a_lease_whose_file_was_removed_is_lost(tmp_path):
    lease = opened(tmp_path)
    lease.try_take()
    (tmp_path / "lease-000000000001.json").unlink()

    with pytest.raises(LeaseLost, match="file is gone"):
        lease.renew()


def test_a_release_by_whoever_has_lost_it_takes_it_from_nobody(tmp_path):
    first, second, third = opened(tmp_path), opened(tmp_path), opened(tmp_path)
    first.try_take()
    epoch = first.epoch
    first.release()
    second.try_take()
    first.epoch = epoch
    first.release()

    assert third.try_take() is not None


def test_of_two_that_try_at_once_one_has_it(tmp_path, monkeypatch):
    first, second = opened(tmp_path), opened(tmp_path)
    create = LocalStorage.create_new

    def beaten(storage, name, content):
        monkeypatch.setattr(LocalStorage, "create_new", create)
        assert second.try_take() is None
        return create(storage, name, content)

    monkeypatch.setattr(LocalStorage, "create_new", beaten)

    assert first.try_take() is not None
    assert (first.epoch, second.epoch) == (0, 1)


def test_whoever_stood_still_before_creating_it_has_no_older_one_than_others(tmp_path, monkeypatch):
    slow = opened(tmp_path)
    create = LocalStorage.create_new

    def three_come(storage, name, content):
        monkeypatch.setattr(LocalStorage, "create_new", create)
        for _ in range(3):
            other = opened(tmp_path)
            assert other.try_take() is None
            if other.epoch < 3:
                other.release()
        return create(storage, name, content)

    monkeypatch.setattr(LocalStorage, "create_new", three_come)

    assert slow.try_take() is not None
    assert slow.epoch == 0
    assert names(tmp_path) == ["lease-000000000002.json", "lease-000000000003.json"]


def test_whoever_stood_still_after_its_look_gives_way_to_a_job_that_came_meanwhile(tmp_path, monkeypatch):
    slow = FileLease(LocalStorage(tmp_path), Claim("shop"), epoch_in=newest_epoch)
    listed = LocalStorage.names
    listings: list[LocalStorage] = []

    def another_comes(storage):
        if listings:
            monkeypatch.setattr(LocalStorage, "names", listed)
            assert opened(tmp_path).try_take() is None
            storage.create(state_name(1, epoch=1), b"")
        listings.append(storage)
        return listed(storage)

    monkeypatch.setattr(LocalStorage, "names", another_comes)

    assert slow.try_take() is not None
    assert (len(listings), slow.epoch) == (2, 0)
    assert names(tmp_path) == ["lease-000000000001.json", state_name(1, epoch=1)]


def test_a_holder_that_wakes_just_before_it_is_taken_over_keeps_it(tmp_path, clock, monkeypatch):
    holder, newcomer = opened(tmp_path), opened(tmp_path)
    holder.try_take()
    newcomer.observe()
    clock[0] += TTL_S + 1
    create = LocalStorage.create_new

    def holder_wakes(storage, name, content):
        holder.renew()
        return create(storage, name, content)

    monkeypatch.setattr(LocalStorage, "create_new", holder_wakes)

    assert newcomer.try_take() is not None
    assert (holder.epoch, newcomer.epoch) == (1, 0)
    holder.renew()
    assert names(tmp_path) == ["lease-000000000001.json"]


def test_a_holder_that_is_taken_over_while_it_renews_knows_at_once(tmp_path, clock, monkeypatch):
    holder, newcomer = opened(tmp_path), opened(tmp_path)
    holder.try_take()
    newcomer.observe()
    clock[0] += TTL_S + 1
    refresh = LocalStorage.refresh

    def newcomer_comes(storage, name, content):
        assert newcomer.try_take() is None
        refresh(storage, name, content)

    monkeypatch.setattr(LocalStorage, "refresh", newcomer_comes)

    with pytest.raises(LeaseLost):
        holder.renew()


def test_whoever_has_an_older_one_than_others_waits_for_theirs(tmp_path):
    first, slow = opened(tmp_path), opened(tmp_path)
    first.try_take()
    first.release()
    slow.observe()
    other = FileLease(LocalStorage(tmp_path), Claim("shop"), epoch_in=lambda _names: 2)
    other.try_take()

    assert slow.try_take() is not None
    other.release()
    assert slow.try_take() is None
    assert (other.epoch, slow.epoch) == (0, 4)


def test_epochs_go_on_though_the_files_were_removed(tmp_path):
    lease = FileLease(LocalStorage(tmp_path), Claim("shop"), epoch_in=lambda _names: 7)
    lease.try_take()

    assert lease.epoch == 8


def test_only_the_last_two_files_are_kept(tmp_path):
    for _ in range(5):
        lease = opened(tmp_path)
        lease.try_take()
        lease.release()

    assert names(tmp_path) == ["lease-000000000004.json", "lease-000000000005.json"]
    assert lease.previous is not None


class Listed(LocalStorage):
    """A directory that counts how often it is listed."""

    listed = 0

    def names(self):
        self.listed += 1
        return super().names()


def test_a_holder_and_whoever_waits_list_the_directory_once(tmp_path, clock):
    # A directory of events has an entry for each turn.
    holding, waiting = Listed(tmp_path), Listed(tmp_path)
    claim = Claim("shop", ttl_ms=int(TTL_S * 1000))
    holder, waiter = (FileLease(listed, claim, crowded=True) for listed in (holding, waiting))
    holder.try_take()
    waiter.try_take()
    listed = holding.listed, waiting.listed
    for _ in range(3):
        clock[0] += 1
        holder.renew()
        assert waiter.try_take()

    assert (holding.listed, waiting.listed) == listed


class ObjectStore(LocalStorage):
    """Writes a file again to give it another stamp."""

    def refresh(self, name, content):
        self.create(name, content)


@pytest.mark.usefixtures("elsewhere")
def test_a_holder_that_slept_while_it_renewed_learns_of_the_next_but_two(tmp_path, clock):
    def three_come(storage, name, content):
        for _ in range(3):
            later = opened(tmp_path)
            later.try_take()
            clock[0] += TTL_S + 1
            assert later.try_take() is None
        ObjectStore.refresh(storage, name, content)

    class Slept(ObjectStore):
        refresh = three_come

    first = FileLease(Slept(tmp_path), Claim("shop", ttl_ms=int(TTL_S * 1000)))
    first.try_take()

    with pytest.raises(LeaseLost, match=r"epoch 4, ours was 1"):
        first.renew()


@pytest.mark.usefixtures("elsewhere")
def test_a_holder_learns_of_the_next_but_two(tmp_path, clock):
    # By then its own file is removed.
    first = opened(tmp_path)
    first.try_take()
    for _ in range(3):
        later = opened(tmp_path)
        later.try_take()
        clock[0] += TTL_S + 1
        assert later.try_take() is None

    with pytest.raises(LeaseLost, match=r"taken over .* \(epoch 4, ours was 1\)"):
        first.renew()


def test_a_lease_beside_events_is_hidden(tmp_path):
    opened(tmp_path, prefix=".").try_take()

    assert names(tmp_path) == [".lease-000000000001.json"]


class NotStarted:
    """A renewal that a test makes step by step."""

    def join(self, timeout=None):
        """Return at once."""


class TestLeases:
    def claim(self, *, wait=True, ttl_ms=400):
        return Claim("shop", ttl_ms, wait=wait)

    def test_it_is_renewed_by_a_thread(self, tmp_path):
        held = Leases(self.claim(), [opened(tmp_path)])
        held.take(time.sleep)
        time.sleep(1.0)
        try:
            held.check()
        finally:
            held.release()

    def test_one_that_stands_by_has_it_once_the_other_lets_go(self, tmp_path):
        first = Leases(self.claim(), [opened(tmp_path)])
        first.take(time.sleep)
        second = Leases(self.claim(), [opened(tmp_path)])
        looks = []

        def pause(seconds):
            looks.append(seconds)
            if len(looks) == 3:
                first.release()

        assert second.take(pause)
        assert len(looks) in {3, 4}
        second.release()

    def test_one_that_is_to_stop_while_it_stands_by_has_nothing(self, tmp_path):
        first = Leases(self.claim(), [opened(tmp_path)])
        first.take(time.sleep)

        assert not Leases(self.claim(), [opened(tmp_path)]).take(lambda _s: True)
        first.release()

    def test_one_that_does_not_want_to_wait_is_refused_once_the_holder_lives(self, tmp_path):
        first = Leases(self.claim(), [opened(tmp_path)])
        first.take(time.sleep)
        try:
            with pytest.raises(LeaseHeld, match=r"held by job 'shop'.*tidemark.lease.wait"):
                Leases(self.claim(wait=False), [opened(tmp_path)]).take(time.sleep)
        finally:
            first.release()

    @pytest.mark.usefixtures("elsewhere")
    def test_one_that_does_not_want_to_wait_takes_over_from_a_dead_holder(self, tmp_path):
        lease = FileLease(LocalStorage(tmp_path), self.claim())
        lease.try_take()
        second = Leases(self.claim(wait=False), [FileLease(LocalStorage(tmp_path), self.claim())])

        assert second.take(time.sleep)
        second.release()

    @pytest.mark.usefixtures("elsewhere")
    def test_all_that_a_silent_holder_has_is_free_at_once(self, tmp_path, clock):
        for name in ("state", "events"):
            opened(tmp_path / name).try_take()
        both = Leases(self.claim(), [opened(tmp_path / name) for name in ("state", "events")])
        begun = clock[0]

        def pause(seconds):
            clock[0] += seconds

        assert both.take(pause)
        assert clock[0] - begun < 1.1 * TTL_S
        both.release()

    @pytest.mark.usefixtures("elsewhere")
    def test_one_that_stood_still_for_too_long_knows_before_it_asks(self, tmp_path):
        held = Leases(self.claim(), [opened(tmp_path)])
        held.take(time.sleep)
        held.abandon()  # as a process that is stopped does
        time.sleep(0.5)

        with pytest.raises(LeaseLost, match="not renewed for"):
            held.check()

    def test_one_whose_lease_was_taken_is_told(self, tmp_path):
        first = Leases(self.claim(), [opened(tmp_path)])
        first.take(time.sleep)
        LocalStorage(tmp_path).create_new("lease-000000000002.json", b"{}")
        time.sleep(0.3)

        with pytest.raises(LeaseLost, match="taken over by another job"):
            first.check()
        first.release()

    def test_all_of_several_are_held(self, tmp_path):
        both = [opened(tmp_path / "state"), opened(tmp_path / "events")]
        held = Leases(self.claim(), both)
        held.take(time.sleep)
        beside = opened(tmp_path / "events").try_take()
        held.release()

        assert beside is not None
        assert opened(tmp_path / "state").try_take() is None
        assert opened(tmp_path / "events").try_take() is None

    def test_it_is_renewed_step_by_step_where_no_thread_runs(self, tmp_path, clock):
        started = []

        def start(_run, name):
            started.append(name)
            return NotStarted()

        held = Leases(self.claim(), [opened(tmp_path)], start)
        held.take(time.sleep)
        clock[0] += 0.3
        held.renew()
        clock[0] += 0.3
        held.check()
        clock[0] += 0.3
        with pytest.raises(LeaseLost, match=r"not renewed for 0\.6 s"):
            held.check()

        assert started == ["tidemark-lease"]

    @pytest.mark.usefixtures("elsewhere")
    def test_one_that_stood_still_while_it_took_it_knows_so(self, tmp_path, clock, monkeypatch):
        create = LocalStorage.create_new

        def stand_still(storage, name, content):
            created = create(storage, name, content)
            clock[0] += 1
            return created

        monkeypatch.setattr(LocalStorage, "create_new", stand_still)
        held = Leases(self.claim(), [opened(tmp_path)], lambda _run, _name: NotStarted())
        held.take(time.sleep)

        with pytest.raises(LeaseLost, match="not renewed for"):
            held.check()

    @pytest.mark.usefixtures("elsewhere")
    def test_a_second_lease_makes_the_first_no_younger(self, tmp_path, clock):
        two = [opened(tmp_path / name) for name in ("state", "events")]
        take = two[1].try_take

        def take_late():
            clock[0] += 1
            return take()

        two[1].try_take = take_late
        held = Leases(self.claim(), two, lambda _run, _name: NotStarted())
        held.take(time.sleep)

        with pytest.raises(LeaseLost, match="not renewed for"):
            held.check()
