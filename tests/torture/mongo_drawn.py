"""Histories drawn from a seed for MongoDB: collections, acts, signals, crashes and restarts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tests.torture.blows import timed
from tests.torture.course import drawn_course, drawn_lulls, drawn_signal, malformed_signals
from tests.torture.documents import IDS
from tests.torture.drawn import INITIAL, early, pressed, sliced
from tests.torture.mongo_losses import with_lost_logs
from tests.torture.requests import varied
from tests.torture.script import (
    ANYTHING,
    Round,
    Script,
    Sent,
    Strike,
    Transaction,
    Wanted,
    collections,
)
from tests.torture.tables import TableShape
from tests.torture.verified import with_verifications

if TYPE_CHECKING:
    from tests.torture.statements import Step

_MODES = (
    *("change_streams_update_full",) * 3,
    "change_streams",
    "change_streams_with_pre_image",
    "change_streams_update_full_with_pre_image",
)
_STRATEGIES = ("visibility",) * 5 + ("insert_insert",)
_CHANGES = (
    *("touch", "touch", "extend", "strip", "cut", "upset", "respell", "respell", "remove", "put"),
    *("rewrite", "expire"),
)
_STRIKES = ("replace", "replace", "away", "away", "out", "out", "succeed", "drop", "stop")
_BLOWS = ("stepdown", "immediate", "fast", "pause", "lag", "lag", "isolate", "isolate")
"""Blows to a set of three members."""
_BAD = 0.3
"""The share of histories with a collection that can't be decoded."""
_SEVERAL, _FORGETFUL, _GIANTS, _FROZEN, _RESTORED, _WIPED, _STRUCK = 0.25, 0.1, 0.25, 0.3, 0.2, 0.25, 0.7
"""The shares of histories with each rarity.

In order: three members; a server that keeps no snapshot history; documents too large for an event; a job that
is frozen; a server restored from older files; a dropped database; blows at open windows.
"""
_MALFORMED = malformed_signals("shop")


def write_documents(seed: str, wanted: Wanted = ANYTHING) -> Script:
    """The script of a seed, with what `wanted` requires. Broker blows are for other sources."""
    script = _Writer(Random(seed), seed).script(wanted)
    draw = Random(f"{seed}/more")
    rare = Random(f"{seed}/rare")
    restored = rare.random() < _RESTORED and not wanted.blow
    if (restored or "restored" in wanted.blow) and not (wanted.initial or wanted.asks):
        return replace(script, rounds=[], fuses=[], scene="restored", tables=[_PLAIN, *script.tables[1:]])
    script = _with_blows(_with_what_is_rare(script, rare, wanted.blow), rare, wanted.blow)
    script = _with_a_bad_collection(script, wanted.blow)
    begins = (draw.random() < INITIAL and "slices" not in wanted.blow) or "capped" in wanted.blow
    if begins if wanted.initial is None else wanted.initial:
        script = replace(script, initial=True, fuses=[*early(draw), *script.fuses])
    script = varied(pressed(timed(script, wanted.blow)), wanted.asks)
    script = with_verifications(script, wanted.asks)
    script = sliced(script) if "slices" in wanted.blow else script
    return script if wanted.losses is None else with_lost_logs(script, wanted.losses)


_PLAIN = TableShape("t0", "int32", "-", 40)
_MANY = TableShape("t0", "int32", "-", 300)
_CAPPED = [TableShape("t0", "capped", "-", 300), TableShape("t1", "raw", "-", 40)]


def _with_what_is_rare(script: Script, draw: Random, wanted: str) -> Script:
    """Add strikes, documents that don't fit into an event, a dropped database, a frozen job."""
    for round_ in script.rounds:
        if draw.random() < _STRUCK:
            round_.strikes.extend(_strike(script.tables, draw) for _ in range(draw.randint(1, 3)))
    at = draw.choice(script.rounds)
    if draw.random() < _GIANTS or "giants" in wanted:
        at.writers.append(_giants(script.tables, draw))
    if draw.random() < _WIPED or "wipe" in wanted:
        at.strikes.append(Strike(["wipe", 0], draw.choice(["", "poll"])))
    if draw.random() < _FROZEN:
        at.restarts.append((round(draw.uniform(0.2, 1.5), 2), "freeze"))
    return script


def _with_a_bad_collection(script: Script, wanted: str) -> Script:
    """Add documents that the job can't decode for a while. After a quiet point, request a snapshot."""
    draw = Random(f"{script.seed}/bad")
    if draw.random() >= _BAD and "disguise" not in wanted:
        return script
    place, at = draw.randrange(len(script.tables)), draw.randrange(len(script.rounds))
    some = [0, 1, 2]
    put: Step = ["put", place, some]
    bad = [
        Transaction([put], asynchronous=True, pause_s=draw.choice([0.0, 0.5])),
        Transaction([["spoil", place, some]], asynchronous=True, pause_s=draw.choice([0.0, 0.3])),
        Transaction([["spoil", place, some], ["touch", place, some]], pause_s=draw.choice([0.0, 0.3])),
        Transaction([["heal", place, some]], asynchronous=True),
    ]
    script.rounds[at].writers.append(bad)
    names = collections(script.tables[place])
    data = json.dumps({"type": "incremental", "data-collections": names})
    taken_up = Sent(draw.choice([0.0, 0.3]), "bad1", "execute-snapshot", data, "execute", names)
    touched = [Transaction([["touch", place, [n]]], pause_s=0.05) for n in range(10)]
    script.rounds.insert(at + 1, Round([touched], [taken_up]))
    return script


def _strike(tables: list[TableShape], draw: Random) -> Strike:
    place, verb = draw.randrange(len(tables)), draw.choice(_STRIKES)
    step: Step = [verb, place]
    match verb:
        case "replace" | "out" | "away":
            step.append(draw.randint(1, 60))
        case "succeed":
            others = [at for at, table in enumerate(tables) if at != place and table.key == tables[place].key]
            step = ["succeed", draw.choice(others), place] if others else ["replace", place, 20]
    return Strike(step, draw.choice(["", "poll", "poll", "take", "take"]))


def _giants(tables: list[TableShape], draw: Random) -> list[Transaction]:
    """Two documents that grow and shrink again, also in transactions larger than a log entry."""
    place = next((at for at, table in enumerate(tables) if table.key != "capped"), None)
    if place is None:
        return []
    alone = [Transaction([["put", place, [n]]], asynchronous=True) for n in (3, 4)]
    swells = [
        Transaction([["swell", place, [3]]], asynchronous=True, pause_s=draw.choice([0.0, 0.3])),
        Transaction([["swell", place, [3, 4]], ["touch", place, [5, 3]]], pause_s=0.1),
        Transaction([["swell", place, [4]]], asynchronous=True, pause_s=draw.choice([0.0, 0.3])),
    ]
    return [*alone, *swells, *swells[:2], Transaction([["shrink", place, [3, 4]]], asynchronous=True)]


def _with_blows(script: Script, draw: Random, wanted: str) -> Script:
    """Use three members with elections and a lagging one, or a server with a short snapshot history."""
    if draw.random() < _SEVERAL or "members" in wanted:
        for round_ in script.rounds:
            at_s = sorted(round(draw.uniform(0.1, 2.5), 2) for _ in range(draw.randint(0, 2)))
            round_.restarts[:] = [(second, draw.choice(_BLOWS)) for second in at_s]
        script.rounds[0].restarts.insert(0, (0.0, "lag"))
        return replace(script, database={**script.database, "members": "3"})
    if draw.random() < _FORGETFUL:
        lulls = {**script.lulls, "read": 1.2}
        return replace(script, database={**script.database, "history_s": "1"}, lulls=lulls)
    return script


@dataclass(slots=True)
class _Writer:
    """Draws one script; every draw comes from `random`."""

    random: Random
    seed: str
    tables: list[TableShape] = field(default_factory=list)
    signals: int = 0

    def script(self, wanted: Wanted) -> Script:
        draw = self.random
        self.tables = [self._table(place) for place in range(draw.randint(2, 4))]
        for blow, first in (("capped", _CAPPED), ("slices", [_MANY])):
            if blow in wanted.blow:
                self.tables[: len(first)] = first
        rounds, fuses = drawn_course(
            draw,
            wanted,
            self._transaction,
            partial(drawn_signal, self),
            ["fast", "immediate", "immediate", "stepdown", "pause"],
        )
        lulls = drawn_lulls(draw)
        return Script(self.seed, self.tables, rounds, fuses, self._properties(), lulls=lulls)

    def _table(self, place: int) -> TableShape:
        draw = self.random
        key = draw.choice([*IDS, "mixed", "mixed", "mixed too", "int32", "int64", "raw", "capped"])
        return TableShape(f"t{place}", key, "-", draw.choice([0, 3, 40, 40, 300, 300, 900]))

    def _properties(self) -> dict[str, str]:
        draw = self.random
        largest = max(shape.rows for shape in self.tables)
        return {
            "capture.mode": draw.choice(_MODES),
            "incremental.snapshot.chunk.size": str(max(5, largest // draw.choice([1, 3, 6, 12]))),
            "tidemark.window.max.chunks": str(draw.choice([0, 1, 2, 4])),
            "tidemark.span.max.rows": str(draw.choice([7, 40, 1000, 200_000])),
            "incremental.snapshot.watermarking.strategy": draw.choice(_STRATEGIES),
        }

    # Transactions.

    def _transaction(self) -> Transaction:
        draw = self.random
        pause_s = draw.choice([0.0, 0.0, 0.02, 0.1, 0.2])
        if draw.random() < 0.03:
            return Transaction([self._definition()], asynchronous=True, pause_s=pause_s)
        steps = [self._step() for _ in range(draw.choice([1, 1, 1, 2, 3, 6]))]
        alone = draw.random() < 0.5
        ending = "commit" if alone or draw.random() < 0.85 else "rollback"
        return Transaction(steps, "commit" if ending == "commit" else "rollback", None, alone, pause_s)

    def _definition(self) -> Step:
        draw = self.random
        place, other = draw.randrange(len(self.tables)), draw.randrange(len(self.tables))
        count = draw.randint(1, 60)
        steps: list[Step] = [
            *(["drop", place], ["exile", place], ["replace", place, count], ["away", place, count]),
            ["out", place, count],
        ]
        # the kinds must match, or its documents' ids would not follow from their ordinals
        if place != other and self.tables[place].key == self.tables[other].key:
            steps.append(["succeed", place, other])
        return draw.choice(steps)

    def _step(self) -> Step:
        draw = self.random
        place = draw.randrange(len(self.tables))
        shape = self.tables[place]
        near = max(12, shape.rows + shape.rows // 8)
        if draw.random() < 0.1:
            return ["bulk", place, draw.randint(2, 30), 1]
        some = sorted({draw.randrange(near) for _ in range(draw.choice([1, 1, 2, 5]))})
        return [draw.choice(_CHANGES), place, some]

    # Signals.

    def malformed(self, label: str, pause_s: float) -> Sent:
        """A signal that is refused."""
        draw = self.random
        if draw.random() < 1 / (1 + len(_MALFORMED)):
            asks = json.dumps({"data-collections": ["shop.t0"], "additional-condition": "n > 1"})
            return Sent(pause_s, label, "execute-snapshot", asks, "unreadable", ["shop.t0"], whole=False)
        return Sent(pause_s, label, *draw.choice(_MALFORMED), "malformed")

    def names(self) -> list[str]:
        """Some of the collections."""
        shapes = self.random.sample(self.tables, self.random.randint(1, len(self.tables)))
        return [name for shape in shapes for name in collections(shape)]

    def execute(self, label: str, pause_s: float) -> Sent:
        """A request for some of the collections."""
        draw, names = self.random, self.names()
        data: dict[str, Any] = {"type": "incremental", "data-collections": names}
        whole = draw.random() < 0.85
        if not whole:
            data["additional-condition"] = json.dumps({"n": {"$mod": [draw.randint(2, 4), 1]}})
        return Sent(pause_s, label, "execute-snapshot", json.dumps(data), "execute", names, whole)
