"""Processes by /proc."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.bench.processes import (
    Peak,
    Sample,
    Stat,
    below,
    cpu_seconds,
    memory_of,
    own_seconds,
    parse_stat,
    peaking,
    sample,
    spent_s,
)

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = "S 41 7 7 0 -1 4194560 100 200 0 0 250 50 30 20 20 0 1 0 123 456 789"


@pytest.mark.parametrize("name", ["postgres", "a (b) c", "x) S 1 2", "two words"])
def test_the_name_of_a_process_may_hold_anything(name: str) -> None:
    assert parse_stat(f"42 ({name}) {FIELDS}", ticks_per_s=100) == Stat(parent=41, own_s=3.0, ended_s=0.5)


def test_a_tree_is_a_process_with_all_below_it_less_the_servers() -> None:
    parents = {1: 0, 10: 1, 11: 10, 12: 11, 20: 10, 21: 20, 30: 1}

    assert below(10, parents) == {10, 11, 12, 20, 21}
    assert below(10, parents, without={20}) == {10, 11, 12}


def test_the_peak_is_of_one_moment_not_of_each_part() -> None:
    peak = Peak()
    for driver, jvm in ((10, 50), (40, 30), (5, 55)):
        peak.add(Sample({"driver": driver, "jvm": jvm}))

    assert (peak.total, peak.parts) == (70, {"driver": 40, "jvm": 30})


def test_cpu_time_counts_what_has_ended_below() -> None:
    before = cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)

    assert cpu_seconds(os.getpid()) - before > 0.05


def test_who_has_gone_takes_nothing_of_what_the_others_have_spent() -> None:
    before = own_seconds(os.getpid())
    sum(range(10**7))
    spent = spent_s({**before, 0: 100.0}, own_seconds(os.getpid()))

    assert 0.05 < spent < 50


def test_memory_that_was_given_back_before_the_end_is_in_the_peak() -> None:
    size = 256 << 20
    before = sample().parts
    with peaking() as peak:
        held = bytearray(b"x") * size
        time.sleep(0.6)
        assert len(held) == size
        del held
    after = sample().parts["driver"]

    assert peak.parts["driver"] - after > 200
    # Another test of the same process may have started Spark.
    assert abs(peak.parts["jvm"] - before["jvm"]) < 100


def test_pages_of_a_file_are_told_apart(tmp_path: Path) -> None:
    size = 256 << 20
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    before = memory_of(os.getpid()).mapped
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as read:
        assert read[:: mmap.PAGESIZE] == b"x" * (size // mmap.PAGESIZE)
        there = memory_of(os.getpid()).mapped

    assert there - before > 200


def test_what_is_mapped_is_not_memory_of_its_own() -> None:
    peak = Peak()
    peak.add(Sample({"driver": 40.0, "workers": 60.0}, 70.0))
    peak.add(Sample({"driver": 50.0, "workers": 10.0}, 5.0))

    assert (peak.total, peak.own) == (100.0, 55.0)


def test_a_process_that_has_ended_holds_nothing() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()

    assert memory_of(ended.pid) == (0.0, 0.0)
