"""What became of a signal, judged by its answers."""

from __future__ import annotations

import pytest

from signals.outcome import Fate


def fate_of(*answers: tuple[str, str | None], collections: int = 2) -> Fate:
    fate = Fate()
    for outcome, collection in answers:
        facts = {"collections": collections} if outcome == "accepted" else {}
        fate = fate.after({"outcome": outcome, "collection": collection, "facts": facts})
    return fate


def test_a_signal_ends_with_the_last_of_its_collections():
    begun = ("accepted", None), ("queued", None), ("started", "a"), ("finished", "a"), ("progress", "b")

    assert not fate_of(*begun).known
    assert fate_of(*begun, ("finished", "b")).good


@pytest.mark.parametrize("end", ["failed", "rejected", "stopped"])
def test_a_collection_that_was_not_read_makes_it_bad(end: str):
    fate = fate_of(("accepted", None), ("finished", "a"), (end, "b"))

    assert fate.known
    assert not fate.good


def test_a_refusal_ends_it():
    fate = fate_of(("rejected", None))

    assert fate.known
    assert not fate.good


def test_a_signal_that_reads_nothing_is_done_once_it_is_accepted():
    assert fate_of(("accepted", None), collections=0).good


def test_a_collection_that_is_answered_again_counts_once():
    assert not fate_of(("accepted", None), ("finished", "a"), ("finished", "a")).known


def test_a_dry_run_ends_with_its_plans():
    assert fate_of(("accepted", None), ("planned", "a"), ("planned", "b")).good
