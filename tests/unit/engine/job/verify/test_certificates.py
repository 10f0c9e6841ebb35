"""Certificates of a job's snapshots: what they say of the rows that went out, and that none is lost."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from xxhash import xxh3_128_intdigest

from engine.errors import StateError
from engine.job.reports.outbox import Outlet
from engine.job.saved import state_document as saved
from engine.job.verify.certificates import Certificates
from engine.verify.certificate import Chain
from tests.job_bench import BOTH, Bench, T
from tests.memory_source import SEED, Change

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass
class Kept:
    """Certificates by turn; `fails` is how often none can be kept."""

    turns: dict[int, list[str]] = field(default_factory=dict)
    fails: int = 0

    def keep(self, turn: int, certificates: Sequence[str]) -> None:
        if self.fails:
            self.fails -= 1
            raise StateError("no room", where="certificates")
        self.turns[turn] = list(certificates)

    @property
    def lines(self) -> list[str]:
        return [line for turn in sorted(self.turns) for line in self.turns[turn]]

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.lines]


def certifying(tmp_path: Path, **pace: Any) -> tuple[Bench, Kept]:
    bench, kept = Bench(tmp_path, **pace), Kept()
    bench.certificates = Certificates(
        SEED, "tidemark test", kept, lambda: 1000.0, lambda position: str(position.order[0])
    )
    bench.new_job()
    return bench, kept


@pytest.fixture
def bench_and_kept(tmp_path: Path) -> tuple[Bench, Kept]:
    return certifying(tmp_path)


def reads(bench: Bench, topic: str = "public.t") -> list[dict[str, Any]]:
    return [
        event
        for event in bench.sink.events()
        if event["topic"] == topic and orjson.loads(event["value"])["op"] == "r"
    ]


def sum_by_hand(events: Sequence[dict[str, Any]]) -> str:
    """The sum over READ events; the memory source's value is a row and has no envelope."""
    texts = (f"{event['key']}\n{event['value']}".encode() for event in events)
    return f"{sum(xxh3_128_intdigest(text, SEED) for text in texts) % 2**128:032x}"


def test_a_snapshot_gets_a_certificate_of_what_went_out(bench_and_kept):
    bench, kept = bench_and_kept
    bench.execute()

    bench.turns(6)

    (certificate,) = kept.documents
    assert (
        certificate["signals"] == [{"signal": "source 9", "id": "s"}]
        or certificate["signals"][0]["id"] == "s"
    )
    assert certificate["scope"]["collection"] == "public.t"
    assert certificate["rows"] == {"read": 5, "superseded": 0, "emitted": 5}
    assert certificate["sum"] == sum_by_hand(reads(bench))
    assert certificate["hash"] == {"algorithm": "xxh3-128-sum", "seed": f"{SEED:016x}"}
    assert certificate["previous"] is None


def test_superseded_rows_are_counted_and_not_in_the_sum(bench_and_kept):
    bench, kept = bench_and_kept
    bench.execute()
    bench.turns(1)
    assert bench.job.window is not None
    bench.database.commit(Change(T, 2, "newer"))
    bench.database.commit(Change(T, 3, None))

    bench.turns(6)

    (certificate,) = kept.documents
    assert certificate["rows"] == {"read": 5, "superseded": 2, "emitted": 3}
    assert certificate["sum"] == sum_by_hand(reads(bench))


@pytest.mark.parametrize("pace", [{"window_rows": 2}, {"window_rows": 4, "slice_s": 0.0, "slice_bytes": 1}])
def test_ranges_are_next_to_each_other_and_add_up(tmp_path, pace):
    bench, kept = certifying(tmp_path, **pace)
    for key in range(6, 30):
        bench.database.commit(Change(T, key, f"t{key}"))
    bench.execute()

    bench.turns(40)

    (certificate,) = kept.documents
    ranges = certificate["ranges"]
    assert [part["after"] for part in ranges] == [None, *(part["upto"] for part in ranges[:-1])]
    assert sum(part["emitted"] for part in ranges) == certificate["rows"]["emitted"] == 29
    assert f"{sum(int(part['sum'], 16) for part in ranges) % 2**128:032x}" == certificate["sum"]
    assert certificate["sum"] == sum_by_hand(reads(bench))


def test_each_certificate_names_the_hash_of_the_one_before(bench_and_kept):
    bench, kept = bench_and_kept
    bench.execute(BOTH)
    bench.turns(8)
    bench.execute()
    bench.turns(8)

    assert len(kept.lines) == 3
    hashes = [hashlib.sha256(line.encode()).hexdigest() for line in kept.lines]
    assert [document["previous"] for document in kept.documents] == [None, *hashes[:-1]]


def test_a_certificate_that_could_not_be_kept_is_kept_by_the_next_start_once(bench_and_kept):
    bench, kept = bench_and_kept
    kept.fails = 1
    bench.execute()
    with pytest.raises(StateError):
        bench.turns(6)
    assert not kept.turns

    bench.new_job().settle()
    bench.job.start()
    bench.turns(3)
    bench.database.commit(Change(T, 9, "later"))
    bench.turns(3)

    (certificate,) = kept.documents
    assert certificate["sum"] == sum_by_hand(reads(bench))


def test_a_start_issues_no_certificate_twice(bench_and_kept):
    """The newest state still has it, though it was kept."""
    bench, kept = bench_and_kept
    bench.execute()
    while not kept.turns:
        bench.turns(1)

    bench.new_job().settle()
    bench.job.start()
    bench.database.commit(Change(T, 9, "later"))
    bench.turns(3)

    assert len(kept.lines) == 1


def test_a_snapshot_goes_on_with_its_certificate_after_a_restart(tmp_path):
    bench, kept = certifying(tmp_path, window_rows=2)
    bench.execute()
    while len(reads(bench)) < 2:
        bench.turns(1)
    assert not kept.turns

    bench.new_job().settle()
    bench.job.start()
    bench.turns(12)

    (certificate,) = kept.documents
    assert certificate["rows"]["emitted"] == 5
    assert certificate["sum"] == sum_by_hand(reads(bench))


def test_a_snapshot_that_was_partly_sent_without_gets_none(tmp_path, caplog):
    bench, kept = certifying(tmp_path, window_rows=2)
    on, bench.certificates = bench.certificates, None
    bench.new_job()
    bench.execute()
    while len(reads(bench)) < 2:
        bench.turns(1)

    bench.certificates = on
    bench.new_job().settle()
    bench.job.start()
    bench.turns(12)

    assert len(reads(bench)) == 5
    assert not kept.turns
    assert "public.t gets no certificate" in caplog.text


def test_a_new_seed_in_the_middle_leaves_the_snapshot_without_one(tmp_path):
    bench, kept = certifying(tmp_path, window_rows=2)
    bench.execute()
    while len(reads(bench)) < 2:
        bench.turns(1)
    assert bench.certificates is not None

    bench.certificates = replace(bench.certificates, seed=SEED + 1)
    bench.new_job().settle()
    bench.job.start()
    bench.turns(12)

    assert (len(reads(bench)), kept.turns) == (5, {})


def test_an_empty_table_has_a_certificate_without_ranges(bench_and_kept):
    bench, kept = bench_and_kept
    for key in range(1, 6):
        bench.database.commit(Change(T, key, None))
    bench.turns(2)
    bench.execute()

    bench.turns(6)

    (certificate,) = kept.documents
    assert certificate["rows"] == {"read": 0, "superseded": 0, "emitted": 0}
    assert certificate["sum"] == "0" * 32


def test_a_stopped_snapshot_gets_none(tmp_path):
    bench, kept = certifying(tmp_path, window_rows=2)
    for key in range(6, 30):
        bench.database.commit(Change(T, key, f"t{key}"))
    bench.execute()
    while len(reads(bench)) < 2:
        bench.turns(1)
    bench.database.signal("x", "stop-snapshot", "{}")

    bench.turns(8)

    assert len(reads(bench)) < 29
    assert not kept.turns


def test_the_state_does_not_carry_certificates_beyond_their_turn(bench_and_kept):
    bench, kept = bench_and_kept
    bench.execute()
    bench.turns(6)
    assert len(kept.lines) == 1

    bench.database.commit(Change(T, 9, "later"))
    bench.turns(2)

    promoted = bench.store.load().promoted
    assert promoted is not None
    last = hashlib.sha256(kept.lines[0].encode()).hexdigest()
    assert saved.from_json(promoted.document).certificates == Chain(last)


def test_the_notification_has_the_certificate(tmp_path):
    bench, kept = certifying(tmp_path)
    told: list[Any] = []
    bench.outlet = Outlet("tm", lambda: 1000.0, lambda: "new", None, told.extend)
    bench.new_job()
    bench.execute()

    bench.turns(6)

    (notice,) = [notification for notification in told if notification.type == "CERTIFIED"]
    assert (notice.id, notice.aggregate_type) == ("s", "Incremental Snapshot")
    assert notice.additional_data["certificate"] == kept.lines[0]
    assert [notification.type for notification in told][-3:] == [
        "CERTIFIED",
        "TABLE_SCAN_COMPLETED",
        "COMPLETED",
    ]
