"""Verifications in histories: what they say of right copies, and of faults put there behind the job's back.

While writers write, no verification may reject a copy that the judge knows to be right. At a round's end,
where nothing moves, faults are put into the files of the sink. Each must be found, and nothing else:

    round ── at rest ── verify ── faults ── verify ── repair ── judged ──► next round
                        accepts             rejects   accepts

The repair's events are judged as all others: a READ must show the row, and a delete must be of a row that was
put there. Jobs may crash meanwhile. Knows the files sink's lines, and nothing of the engine.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from tests.torture.oracle import Violation
from tests.torture.script import Sent, collections
from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.torture.answers import Asked
    from tests.torture.oracle import Table
    from tests.torture.script import Script
    from tests.torture.tables import TableShape

ON_CLUSTER: Final = "TIDEMARK_TORTURE_CLUSTER"
"""Set if jobs run on a cluster."""
_STRANGE: Final = 100_000_000
"""Keys from here on are of no row."""
_DIFFERENCES = re.compile(r"(\d+) (missing|different|older|extra)\b")
_REJECTED = " is rejected "
_NUMBERED: Final = frozenset({"int", "sparse", "parts"})
"""Kinds of keys with a column `k` of numbers."""
_OUTSIDE_THE_LOG: Final = frozenset({"unpublish", "exchange", "empty", "sql"})
"""Steps on tables after which a copy may differ, and the log does not say in what."""
_VERIFIED, _FAULTY, _MOST_FAULTS = 0.4, 0.3, 12


def with_verifications(script: Script, wanted: str = "") -> Script:
    """The script with verifications beside the writers, and with faults at the ends of some rounds.

    On a cluster without a shared disk nothing is verified: its executors don't see the copy.
    """
    if os.environ.get(ON_CLUSTER):
        return script
    draw = Random(f"{script.seed}/verified")
    certain = "verify" in wanted
    names = verifiable(script)
    rounds = []
    for number, drawn in enumerate(script.rounds):
        signals = list(drawn.signals)
        if names and (draw.random() < _VERIFIED or certain):
            sent = signal(f"v{number}", "verify", names, draw.random())
            signals.insert(draw.choice([0, len(signals)]), sent)
        faults = draw.randint(1, _MOST_FAULTS) if draw.random() < _FAULTY or certain else 0
        rounds.append(replace(drawn, signals=signals, faults=faults))
    return replace(script, rounds=rounds)


def signal(label: str, kind: str, names: Sequence[str], pause_s: float = 0.0) -> Sent:
    """A signal of a kind: verify or repair."""
    data = json.dumps({"type": kind, "data-collections": list(names)})
    return Sent(pause_s, label, "execute-snapshot", data, kind, list(names))


def verifiable(script: Script) -> list[str]:
    """The collections that can be verified."""
    return [name for _shape, name in _verifiable(script)]


def keyless_deletes(script: Script) -> set[str]:
    """The collections whose deletes don't tell the primary key, so that no consumer can apply them."""
    shapes = (shape for shape in script.tables if shape.identity == "i")
    return {name for shape in shapes for name in collections(shape, via_root=script.via_root)}


def _verifiable(script: Script) -> Iterator[tuple[TableShape, str]]:
    """The collections that can be verified, with the tables that they are of.

    Under the identity of another index no log shows that a primary key changed, and consumers keep the row
    under the old one. That is rightly found.
    """
    for shape in script.tables:
        if shape.documents or shape.database:
            continue
        if shape.keyed and not (shape.kind.alike or shape.leaf or shape.identity == "i"):
            for name in collections(shape, via_root=script.via_root):
                yield shape, name


def trusted(
    script: Script, tables: Mapping[str, Table], incomplete: Collection[str], altered: Collection[str]
) -> list[str]:
    """The collections of which the sink has every row as it is, by all that the judge knows.

    `altered` are tables whose columns were changed outside the script: events have the old types' values.
    """
    if any(step[0] == "retract" for step in script.steps):
        return []
    outside = {place for step in script.steps if step[0] in _OUTSIDE_THE_LOG for place in step[1:]}
    outside |= {blow.amount for drawn in script.rounds for blow in drawn.blows if blow.kind == "disguise"}
    found = []
    for shape, name in _verifiable(script):
        table = tables.get(name)
        if table is None or not table.whole or table.lacking or name in incomplete:
            continue
        # Renamed labels are in no log.
        if script.tables.index(shape) in outside or shape.labels or shape.name in altered:
            continue
        if not any(UNCHANGED in row.values() for row in table.copy.values()):
            found.append(name)
    return found


# Faults.


@dataclass(slots=True)
class Faults:
    """Faults in the files of a sink: how many of each kind by collection, and the keys of extra rows."""

    kinds: dict[str, Counter[str]] = field(default_factory=dict)
    extra: set[tuple[str, int]] = field(default_factory=set)


class _Line(NamedTuple):
    """Where an event stands."""

    path: Path
    number: int


def numbered(script: Script) -> frozenset[str]:
    """The collections into which extra rows can be put."""
    return frozenset(name for shape, name in _verifiable(script) if shape.key in _NUMBERED)


def put(
    parts: Sequence[Path], topics: Mapping[str, str], takes_extra: Collection[str], draw: Random, count: int
) -> Faults:
    """Put up to `count` faults into the copies of collections, which `topics` names.

    `parts` are the files of committed turns, in order. Those that `takes_extra` names get extra rows, too.
    """
    last = _last_events(parts, topics)
    live = sorted(key for key, (_line, event) in last.items() if event["value"]["op"] != "d")
    faults = Faults()
    wrong: dict[_Line, dict[str, Any]] = {}
    gone, added = set(), []
    for number, (topic, key) in enumerate(draw.sample(live, min(count, len(live)))):
        name, (line, event) = topics[topic], last[topic, key]
        kind = draw.choice(["missing", "different", *(["extra"] if name in takes_extra else [])])
        faults.kinds.setdefault(name, Counter())[kind] += 1
        if kind == "missing":
            gone.add((topic, key))
        elif kind == "different":
            wrong[line] = _said(event, event["key"], ver=-1)
        else:
            strange = _STRANGE + number
            faults.extra.add((name, strange))
            added.append(_said(event, event["key"] | {"k": strange}, k=strange))
    _write(parts, wrong, gone, added)
    return faults


def _said(event: dict[str, Any], key: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The event as one that says other values under a key."""
    value = event["value"]
    return event | {
        "key": key,
        "value": value | {"op": "c", "before": None, "after": value["after"] | values},
    }


def _last_events(
    parts: Sequence[Path], topics: Collection[str]
) -> dict[tuple[str, str], tuple[_Line, dict[str, Any]]]:
    """The last event of each key, by topic and key."""
    found: dict[tuple[str, str], tuple[_Line, dict[str, Any]]] = {}
    for path in parts:
        for number, line in enumerate(path.read_bytes().splitlines()):
            event = orjson.loads(line)
            topic, value = event["topic"], event["value"]
            if topic not in topics or value is None:
                continue
            if value["op"] == "t":
                found = {known: place for known, place in found.items() if known[0] != topic}
            elif event["key"] is not None:
                found[topic, orjson.dumps(event["key"]).decode()] = _Line(path, number), event
    return found


def _write(
    parts: Sequence[Path],
    wrong: Mapping[_Line, dict[str, Any]],
    gone: Collection[tuple[str, str]],
    added: Sequence[dict[str, Any]],
) -> None:
    """Replace lines by `wrong` ones, remove those of the keys `gone`, and add lines to the last file."""
    for path in parts:
        lines = path.read_bytes().splitlines()
        kept = []
        for number, line in enumerate(lines):
            event = orjson.loads(line)
            if (event["topic"], orjson.dumps(event["key"]).decode()) not in gone:
                other = wrong.get(_Line(path, number))
                kept.append(line if other is None else orjson.dumps(other))
        if path == parts[-1]:
            kept += map(orjson.dumps, added)
        if kept != lines:
            path.write_bytes(b"".join(line + b"\n" for line in kept))


# Verdicts.


def rejects(text: str) -> bool:
    """Whether an answer is a verdict that rejects."""
    return _REJECTED in text


def differences(text: str) -> Counter[str]:
    """What a verdict counts, by kind. An older row counts as different."""
    found: Counter[str] = Counter()
    for count, kind in _DIFFERENCES.findall(text.partition(_REJECTED)[2]):
        found["different" if kind == "older" else kind] += int(count)
    return +found


def judge(asked: Asked, faults: Faults) -> None:
    """Judge the verdicts of a signal about copies with these faults, where nothing else is wrong."""
    for name in asked.sent.collections:
        outcome, text = asked.said.get(name, ("nothing", ""))
        wanted = faults.kinds.get(name, Counter())
        if outcome != ("failed" if wanted else "finished") or differences(text) != wanted:
            what = f"{asked.sent.kind} {asked.sent.id} of {name}"
            raise Violation(f"{what} was answered {outcome!r}, {text!r}; what differs is {dict(wanted)}")
