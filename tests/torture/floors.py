"""How often a long run must have produced each rare event, so that it proves something.

The floors are for twenty minutes: at most a third of what was seen on two cores with sixteen processes
competing for them. Ten minutes and more must have at least one of each. What a history either has or lacks is
certain in one of five histories of a long run (`run.py`), so a few histories are enough for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

LONG_MINUTES = 10.0
SUPERSEDED = "rows superseded"
_PER_MINUTES = 20.0
SIGNALLED: Mapping[str, int] = {
    "blocking snapshots": 1,
    "snapshots of given rows": 1,
    "snapshots with a priority": 1,
    "snapshots with a limit": 1,
    "dry runs": 1,
    "pauses by name": 1,
    "collections paused": 1,
    "pauses and resumes": 2,
    "stops": 2,
    "messages logged": 1,
}
_VERIFIED: Mapping[str, int] = {
    "verifications that accept": 2,
    "repairs": 2,
    "faults found, missing": 2,
    "faults found, different": 2,
}
_COMPARED: Mapping[str, int] = {
    "tables compared": 20,
    "rows compared": 1000,
    "checkpoint lost": 2,
    "checkpoint put back": 1,
    "verifications that accept": 5,
    "faults found, missing": 3,
    "faults found, different": 3,
    "faults found, extra": 1,
}
"""Where logs are lost."""
FLOORS: Mapping[str, Mapping[str, int]] = {
    "postgres": {
        SUPERSEDED: 55,
        "two windows": 22,
        "windows sent in tiny slices": 80,
        "windows read by executors alone": 40,
        "unpublish": 2,
        "exchange": 2,
        "job frozen": 2,
        "exporter killed": 5,
        "taken over": 3,
        "aimed touch": 8,
        "aimed swap": 8,
        "aimed remove": 6,
        "aimed move": 6,
        "aimed slide": 2,
        "slide": 60,
        "rekey": 6,
        "rows read that may be alike": 300,
        "changes of rows that may be alike": 150,
        "rows read of partitions with other identities": 60,
        "changes of partitions that no snapshot reads": 10,
        "partitions truncated under their root": 3,
        "rows that came into a filter without a value": 2,
        "labels renamed": 4,
        "standby promoted": 2,
        "volume restored": 2,
        "clock set ahead": 2,
        "clock set back": 2,
        "heartbeats": 60,
        "silent network": 2,
        "DDL let through beside a stalled sink": 2,
        "tables set aside": 2,
        **SIGNALLED,
        **_VERIFIED,
        "blocking snapshots": 2,
        "snapshots of given rows": 4,
        "large transactions committed": 4,
        "large transactions rolled back": 2,
        "two-phase commits": 2,
    },
    "sqlserver": {
        SUPERSEDED: 50,
        "two windows": 40,
        "taken over": 2,
        "job frozen": 1,
        "clock set ahead": 1,
        "clock set back": 1,
        **SIGNALLED,
        **_VERIFIED,
        "schemas stated": 1,
    },
    "mongodb": {
        SUPERSEDED: 4,
        "blows at open windows": 3,
        "two windows": 25,
        "rows of capped collections read by initial snapshots": 100,
        "rows read under ids that are no JSON": 10,
        "arrays truncated": 20,
        "updates by a pipeline that writes the _id": 20,
        "documents made to expire": 20,
        "job frozen": 1,
        "clock set ahead": 1,
        "clock set back": 1,
        "tables set aside": 1,
        "tables taken up again": 1,
        "transactions above 16 MB": 1,
        "databases dropped": 1,
        "lag with three members": 1,
        "servers put back to older files": 1,
        **SIGNALLED,
        **_VERIFIED,
        "rows left behind found": 1,
    },
    # Each history of a long run has one of the last three. A run under load has few histories.
    "kafka": {
        SUPERSEDED: 10,
        "two windows": 5,
        "broker killed": 1,
        "quota": 1,
        "taken over, fenced": 1,
        "broker frozen": 1,
        "topic refused": 2,
        "topic recreated": 2,
    },
    "losses": {
        **_COMPARED,
        "slot dropped": 2,
        "slot moved by somebody else": 2,
        "slot invalidated": 2,
        "standby promoted": 1,
        "volume restored": 1,
    },
    "mongodb losses": {**_COMPARED, "oplog passed": 2, "servers put back to older files": 2},
    "sqlserver losses": {
        **_COMPARED,
        "change tables cleaned up": 2,
        "databases put back to older copies": 2,
    },
    "tables": {"tables compared": 20, "rows compared": 1000, "taken over": 1},
}
"""By source (`kafka`: for Kafka topics, `tables`: for sinks of tables), and by what is counted."""


def missed(source: str, minutes: float, happened: Counter[str]) -> list[str]:
    """What happened too rarely, in words. A short run has no floors."""
    if minutes < LONG_MINUTES:
        return []
    floors = FLOORS.get(source, {})
    wanted = {name: max(1, int(count * minutes / _PER_MINUTES)) for name, count in floors.items()}
    return [
        f"{name}: {happened[name]}, and {least} are wanted"
        for name, least in wanted.items()
        if happened[name] < least
    ]
