"""Histories whose logs are lost."""

from __future__ import annotations

import pytest

from tests.torture.drawn import write
from tests.torture.losses import recovers
from tests.torture.mongo_drawn import write_documents
from tests.torture.mongo_losses import LOG_LOSSES
from tests.torture.script import Wanted, from_json
from tests.torture.slot_losses import SLOT_LOSSES
from tests.torture.sqlserver_drawn import write_sqlserver
from tests.torture.sqlserver_losses import CHANGE_LOSSES

LOST = Wanted(initial=True, losses=0)


@pytest.mark.parametrize(
    ("write", "losses"),
    [(write, SLOT_LOSSES), (write_documents, LOG_LOSSES), (write_sqlserver, CHANGE_LOSSES)],
)
def test_a_round_has_a_loss_and_few_histories_have_each(write, losses):
    scripts = [write(f"l/{number}", Wanted(initial=True, losses=3 * number)) for number in range(40)]
    kinds = [[blow.kind for blow in drawn.blows] for script in scripts for drawn in script.rounds]
    first = scripts[: len(losses)]
    early = {blow.kind for script in first for drawn in script.rounds for blow in drawn.blows}

    assert all(map(recovers, scripts))
    assert early & losses.keys() == set(losses)
    assert all(len(losses.keys() & found) == 1 for found in kinds)
    assert all(from_json(script.to_json()) == script for script in scripts)


@pytest.mark.parametrize(
    ("moves", "wanted"), [("copy", {"restore"}), ("standby", {"promote", "fail over", "lag"})]
)
def test_a_server_that_is_replaced_is_so_once_and_logs_are_lost_in_other_rounds(moves, wanted):
    for number in range(20):
        script = write(f"l/{number}", Wanted(initial=True, losses=number, moves=moves))
        kinds = [blow.kind for drawn in script.rounds for blow in drawn.blows]

        assert len(kinds) == len(script.rounds)
        assert len(wanted.intersection(kinds)) == 1
        assert set(kinds) <= wanted | SLOT_LOSSES.keys()
        assert (script.initial, script.moves, recovers(script)) == (True, moves, True)
        assert from_json(script.to_json()) == script


def test_nothing_is_paused_since_the_signal_to_resume_may_be_lost():
    scripts = [write(f"l/{number}", LOST) for number in range(40)]
    sent = {sent.kind for script in scripts for drawn in script.rounds for sent in drawn.signals}

    assert "execute" in sent
    assert not sent & {"pause", "resume"}
