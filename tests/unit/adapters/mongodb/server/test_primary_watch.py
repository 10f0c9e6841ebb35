"""Elections as the driver tells of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from adapters.mongodb.server.primary_watch import PrimaryWatch


def seen(**elections: int) -> Any:
    """A deployment whose members are secondaries, but for those with an election."""
    members = {
        name: SimpleNamespace(
            address=(name, 27017),
            server_type_name="RSPrimary" if name in elections else "RSSecondary",
            election_id=elections.get(name),
        )
        for name in ("a", "b")
    }
    return SimpleNamespace(new_description=SimpleNamespace(server_descriptions=lambda: members))


def test_another_primary_or_another_election_counts_once():
    watch = PrimaryWatch()
    counted = []
    for description in (seen(), seen(a=1), seen(a=1), seen(), seen(a=1), seen(b=2), seen(b=2), seen(b=3)):
        watch.description_changed(description)
        counted.append(watch.elections)

    assert counted == [0, 0, 0, 0, 0, 1, 1, 2]
