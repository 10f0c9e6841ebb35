"""What histories must be worth: averages for each, and floors per thousand for what is rare."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping

FEWEST = 300
"""Fewer histories than this prove nothing about what is rare."""
AVERAGES: Mapping[str, float] = {"steps": 40, "overlapping windows": 2, "crashes": 1}
"""The least that a history has on average; a step is anything but the job's own calls."""
FLOORS: Mapping[str, int] = {
    "rows superseded": 300,
    "views of blocking snapshots": 300,
    "turns that wait": 300,
    "spans that supersede": 300,
    "transactions that took long": 250,
    "shown late": 400,
    "truncates beside windows": 5,
    "second jobs": 100,
    "sleepers woken": 100,
    "leases lost": 30,
    "freezes": 200,
    "clock jumps": 200,
    "definitions changed": 200,
    "rows that can't be read": 200,
    "turns sent again": 15,
    "names lost with the power": 120,
    "READs beside turns": 1000,
    "answered failed": 50,
    "answered stopped": 300,
    "answered rejected": 150,
    **{
        f"fault: {port}": floor
        for port, floor in {
            "beside": 3,
            "boundaries": 40,
            "busy": 40,
            "changed": 40,
            "commit": 60,
            "create": 60,
            "executors": 5,
            "failed": 100,
            "gone": 40,
            "login": 40,
            "measure": 40,
            "open_log": 50,
            "open_window": 50,
            "rename": 60,
            "room": 40,
            "take": 60,
            "write": 15,
            "writer": 50,
            "yield": 40,
        }.items()
    },
}
"""How often a thousand histories must have had it: about a third of what was seen."""

POSTGRES_FLOORS: Mapping[str, int] = {
    "rows superseded": 250,
    "rows hit in a window": 700,
    "transactions that took long": 150,
    "shown late": 350,
    "second jobs": 100,
    "sleepers woken": 60,
    "leases lost": 30,
    "freezes": 130,
    "clock jumps": 130,
    "definitions changed": 250,
    "rows that can't be read": 120,
    "sessions ended": 250,
    "publications dropped": 30,
    "tables taken out of the publication": 90,
    "ends because the log is lost": 50,
    "failed over": 8,
    "restored": 8,
    "slots advanced": 12,
    "slots dropped": 15,
    "slots given up": 15,
    "stale states": 8,
    "turns sent again": 5,
    "answered failed": 150,
    "answered stopped": 350,
    "answered rejected": 450,
    **{
        f"fault: {port}": floor
        for port, floor in {
            "ask": 120,
            "busy": 35,
            "commit": 50,
            "connect": 50,
            "create": 50,
            "executors": 15,
            "failed": 60,
            "login": 35,
            "open_log": 60,
            "open_window": 25,
            "reading": 25,
            "rename": 40,
            "room": 25,
            "write": 50,
            "writer": 50,
        }.items()
    },
}

MONGODB_FLOORS: Mapping[str, int] = {
    "rows superseded": 130,
    "rows hit in a window": 1100,
    "renames over windows": 80,
    "collections renamed": 600,
    "collections dropped": 110,
    "databases dropped": 35,
    "elections": 100,
    "entries undone": 40,
    "transactions that took long": 170,
    "shown late": 100,
    "second jobs": 100,
    "sleepers woken": 60,
    "leases lost": 35,
    "freezes": 150,
    "clock jumps": 130,
    "names lost with the power": 150,
    "rows that can't be read": 140,
    "sessions ended": 270,
    "ends because the log is lost": 20,
    "restored": 10,
    "oplogs shortened": 8,
    "stale states": 4,
    "turns sent again": 8,
    "answered failed": 240,
    "answered stopped": 480,
    "answered rejected": 530,
    **{
        f"fault: {port}": floor
        for port, floor in {
            "ask": 140,
            "commit": 60,
            "create": 30,
            "executors": 8,
            "failed": 75,
            "gone": 45,
            "login": 55,
            "open_log": 90,
            "reading": 35,
            "rename": 75,
            "room": 30,
            "take": 100,
            "write": 75,
            "writer": 55,
        }.items()
    },
}

SQLSERVER_FLOORS: Mapping[str, int] = {
    "rows superseded": 700,
    "rows hit in a window": 1500,
    "transactions that took long": 200,
    "second jobs": 90,
    "sleepers woken": 80,
    "leases lost": 40,
    "freezes": 130,
    "clock jumps": 130,
    "definitions changed": 290,
    "capture instances dropped early": 4,
    "change tables cleaned up": 80,
    "change tables emptied": 25,
    "ends because the log is lost": 30,
    "rows that can't be read": 140,
    "sessions ended": 260,
    "stale states": 25,
    "forced over": 12,
    "restored": 12,
    "turns sent again": 8,
    "answered failed": 150,
    "answered stopped": 500,
    "answered rejected": 350,
    **{
        f"fault: {port}": floor
        for port, floor in {
            "ask": 100,
            "busy": 45,
            "commit": 60,
            "connect": 45,
            "create": 60,
            "executors": 25,
            "failed": 95,
            "login": 45,
            "mark": 25,
            "open_log": 50,
            "reading": 35,
            "rename": 60,
            "room": 35,
            "take": 60,
            "write": 40,
            "writer": 55,
        }.items()
    },
}


def missed(histories: int, happened: Counter[str], floors: Mapping[str, int] = FLOORS) -> Iterator[str]:
    """What happened too rarely, in words."""
    if histories < FEWEST:
        return
    for name, least in AVERAGES.items():
        average = happened[name] / histories
        if average < least:
            yield f"{name}: {average:.2f} in a history on average, and {least} are wanted"
    for name, per_thousand in floors.items():
        floor = per_thousand * histories // 1000
        if happened[name] < floor:
            yield f"{name}: {happened[name]} in {histories} histories, and {floor} are wanted"


def table(histories: int, happened: Counter[str]) -> Iterator[str]:
    """One line for each figure, as averages per history."""
    for name in sorted(happened):
        yield f"{name:32} {happened[name]:9} {happened[name] / histories:9.2f}"
