"""Draws blows for histories on PostgreSQL: clocks, networks, frozen jobs, bad tables, stalled sinks.

Owns which blows a script gets, and when. `script.Blow` describes them; the site carries them out. Clocks that
are set and jobs that are frozen are for every source.
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
_JOB_FROZEN = 0.25
_AHEAD_S, _BACK_S = (6.0, 120.0, 3600.0), (-86_400.0, -3600.0, -120.0)
_PAUSES = {"pause", "resume"}
HEARTBEATS = {"heartbeat.interval.ms": "200"}
PATIENCE = {"status.update.interval.ms": "500", "database.socketTimeout": "5"}
"""Makes the job notice a silent server soon."""


def disguisable(script: Script) -> Script:
    """The script with a table whose key is not marked in the log, since the log has entire rows."""
    tables = list(script.tables)
    for place, shape in enumerate(tables):
        if not shape.kind.partitions:
            tables[place] = replace(shape, identity="f")
            break
    return replace(script, tables=tables)


def struck(script: Script, wanted: str = "") -> Script:
    """The script with blows in some of its rounds; those of the `wanted` kinds are certain."""
    draw = Random(f"{script.seed}/blows")
    if draw.random() < _SKEWED or "skew" in wanted:
        script = skewed(replace(script, properties={**script.properties, **HEARTBEATS}), draw)
    network, stalled = draw.random() < _FROZEN, draw.random() < _STALLED
    stalled &= "freeze job" not in wanted
    # While the network is frozen, DDL waiting behind a stalled sink can't be judged.
    if (network and "stall" not in wanted) or "network" in wanted:
        script = _frozen(script, draw)
    elif stalled or "stall" in wanted:
        rounds = [replace(round_, stalls=draw.choice([1, 2])) for round_ in script.rounds]
        script = replace(script, rounds=rounds)
    places = _places(script)
    if places and (draw.random() < _DISGUISED or "disguise" in wanted):
        script = _disguised(script, draw, draw.choice(places))
    # A job that stands still lets no DDL through.
    if draw.random() < _JOB_FROZEN or "freeze job" in wanted:
        script = script if any(round_.stalls for round_ in script.rounds) else job_frozen(script, draw)
    return script


def skewed(script: Script, draw: Random) -> Script:
    """The script with a driver's clock that is ahead in the first round, then set back, or the other way."""
    skews = [draw.choice(_AHEAD_S), draw.choice(_BACK_S)]
    draw.shuffle(skews)
    first, *others = script.rounds
    for amount in skews:
        first = _with(draw, first, "skew", amount)
    others = [_with(draw, other, "skew", draw.choice(_AHEAD_S + _BACK_S)) for other in others]
    return replace(script, rounds=[first, *others])


def _frozen(script: Script, draw: Random) -> Script:
    rounds, at = list(script.rounds), draw.randrange(len(script.rounds))
    kind = draw.choice(["freeze", "cut", "lose"])
    rounds[at] = _with(draw, rounds[at], kind, draw.choice([0.5, 3.0, 4.0]))
    return replace(script, rounds=rounds, proxied=True, properties={**script.properties, **PATIENCE})


def job_frozen(script: Script, draw: Random) -> Script:
    """The script with a job that is stopped for longer than its lease lives, or not."""
    rounds, at = list(script.rounds), draw.randrange(len(script.rounds))
    rounds[at] = _with(draw, rounds[at], "freeze job", draw.choice([0.5, 1.5, 3.0]))
    return replace(script, rounds=rounds)


def _disguised(script: Script, draw: Random, place: int) -> Script:
    """With the blow in some round, often followed by a signal for the table."""
    rounds, at = list(script.rounds), draw.randrange(len(script.rounds))
    rounds[at] = _with(draw, rounds[at], "disguise", place)
    if draw.random() < _TAKEN_UP:
        later = draw.randrange(at, len(rounds))
        signals = [*rounds[later].signals, _taking_up(script, place)]
        rounds[later] = replace(rounds[later], signals=signals)
    return replace(script, rounds=rounds)


def timed(script: Script, wanted: str) -> Script:
    """The script with a clock that is set, or a frozen job, where that is `wanted`."""
    draw = Random(f"{script.seed}/timed")
    script = skewed(script, draw) if "skew" in wanted and script.rounds else script
    return job_frozen(script, draw) if "freeze job" in wanted and script.rounds else script


def moved(script: Script, moves: str) -> Script:
    """The script on a server of its own that a standby or a copy replaces.

    Nothing is paused there: what was written last may be gone, and with it the signal to resume.
    """
    draw = Random(f"{script.seed}/moves")
    rounds = [
        replace(round_, signals=[sent for sent in round_.signals if sent.kind not in _PAUSES])
        for round_ in script.rounds
    ]
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


def _places(script: Script) -> list[int]:
    """Tables whose key is not marked in the log, and that keep their names."""
    renamed = {place for step in script.steps if step[0] == "exchange" for place in step[1:]}
    return [
        place
        for place, shape in enumerate(script.tables)
        if shape.identity == "f"
        and not (shape.kind.partitions or shape.kind.alike or shape.filter)
        and place not in renamed
    ]
