"""Blows drawn for histories on PostgreSQL: clocks, networks, tables that can't be decoded, stalled sinks.

Owns which of them a script gets, and when; what they are is said by `script.Blow`, dealt by the site.
"""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tests.torture.script import Blow, Sent, collections

if TYPE_CHECKING:
    from tests.torture.script import Round, Script

_SKEWED, _FROZEN, _DISGUISED, _STALLED, _TAKEN_UP = 0.4, 0.25, 0.5, 0.6, 0.7
_SKEWS_S = (-86_400.0, -3600.0, -120.0, 6.0, 120.0, 3600.0)
HEARTBEATS = {"heartbeat.interval.ms": "200"}
PATIENCE = {"status.update.interval.ms": "500", "database.socketTimeout": "5"}
"""What a job needs to notice soon that a server has become silent."""


def struck(script: Script) -> Script:
    """The script with blows dealt to some of its rounds."""
    draw = Random(f"{script.seed}/blows")
    properties, rounds, proxied = dict(script.properties), list(script.rounds), False
    if draw.random() < _SKEWED:
        properties |= HEARTBEATS
        rounds = [_with(draw, one, "skew", draw.choice(_SKEWS_S)) for one in rounds]
    if draw.random() < _FROZEN:
        properties |= PATIENCE
        proxied, at = True, draw.randrange(len(rounds))
        kind = draw.choice(["freeze", "cut", "lose"])
        rounds[at] = _with(draw, rounds[at], kind, draw.choice([0.5, 3.0, 4.0]))
    elif draw.random() < _STALLED:
        # Who is let through while the network stands still is no question.
        rounds = [replace(one, stalls=draw.choice([0, 1, 2])) for one in rounds]
    if draw.random() < _DISGUISED and (places := _disguisable(script)):
        at, place = draw.randrange(len(rounds)), draw.choice(places)
        rounds[at] = _with(draw, rounds[at], "disguise", place)
        if draw.random() < _TAKEN_UP:
            later = draw.randrange(at, len(rounds))
            signals = [*rounds[later].signals, _taking_up(script, place)]
            rounds[later] = replace(rounds[later], signals=signals)
    return replace(script, properties=properties, rounds=rounds, proxied=proxied)


def moved(script: Script, moves: str) -> Script:
    """The script on a server of its own, of which a standby or a copy takes the place."""
    draw = Random(f"{script.seed}/moves")
    rounds = list(script.rounds)
    kind = draw.choice(["promote", "fail over", "lag", "lag"]) if moves == "standby" else "restore"
    at = draw.randrange(len(rounds))
    blow = Blow(round(draw.uniform(0.3, 2.0), 2), kind, draw.choice([0.0, 0.3, 1.0]))
    rounds[at] = replace(rounds[at], blows=[blow])
    return replace(
        script,
        rounds=rounds,
        initial=False,
        proxied=True,
        moves=moves,
        properties={**script.properties, **PATIENCE},
    )


def _taking_up(script: Script, place: int) -> Sent:
    """A signal for all of a table, some time after what came before."""
    names = collections(script.tables[place], via_root=script.via_root)
    surrogate = {"surrogate-key": "n"} if script.tables[place].surrogate else {}
    data = json.dumps({"type": "incremental", "data-collections": names, **surrogate})
    return Sent(2.0, f"up{place}", "execute-snapshot", data, "execute", names)


def _with(draw: Random, one: Round, kind: str, amount: float) -> Round:
    return replace(one, blows=[*one.blows, Blow(round(draw.uniform(0.1, 2.0), 2), kind, amount)])


def _disguisable(script: Script) -> list[int]:
    """Tables of which the log does not tell the key: it tells all of a row."""
    return [
        place
        for place, shape in enumerate(script.tables)
        if shape.identity == "f" and not shape.kind.partitions
    ]
