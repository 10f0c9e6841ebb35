"""Verifications in histories: what they say of right copies, and of faults put there behind the job's back.

While writers write, no verification and no repair may reject a copy that the judge knows to be right. At a
round's end, where nothing moves, faults are put into the files of the sink. Each must be found, and nothing
else:

    round ── at rest ── verify ── faults ── verify ── repair ── judged ──► next round
                        accepts             rejects   accepts

Nothing tells consumers of MongoDB that a collection was dropped, or renamed. So the first verification must
find the documents that consumers still have, and the repair must delete them, too.

The repair's events are judged as all others: a READ must show the row, and a delete must be of a row that was
put there, or left behind. Jobs may crash meanwhile. `faults.py` puts the faults there.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from tests.torture.oracle import Violation
from tests.torture.script import Sent, collections
from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tests.torture.answers import Asked
    from tests.torture.faults import Faults
    from tests.torture.oracle import Table
    from tests.torture.script import Round, Script
    from tests.torture.statements import Step
    from tests.torture.tables import TableShape

COMPARES: Final = frozenset({"verify", "repair"})
"""Kinds of signals."""
ON_CLUSTER: Final = "TIDEMARK_TORTURE_CLUSTER"
"""Set if jobs run on a cluster."""
_DIFFERENCES = re.compile(r"(\d+) (missing|different|older|extra)\b")
_REJECTED = " is rejected "
_OTHER_KEYS: Final = frozenset(
    {"int", "sparse", "parts", "text", "icu", "loose", "number", "words", "wide", "cased"}
)
"""Kinds of keys with a column `k` of which there are always more values: numbers or texts."""
_OUTSIDE_THE_LOG: Final = frozenset({"unpublish", "exchange", "empty", "sql"})
"""Steps on PostgreSQL's tables after which a copy may differ, and the log does not say in what."""
UNTOLD: Final = frozenset({"drop", "exile", "replace", "succeed", "away", "out", "wipe"})
"""Steps on collections of documents of which no event tells."""
INCOMPLETE_FOR_A_WHILE: Final = frozenset({"swell", "spoil"})
"""Steps after which events lack documents: they are too large, or can't be decoded."""
_VERIFIED, _REPAIRED, _FAULTY, _MOST_FAULTS = 0.4, 0.4, 0.3, 12


def with_verifications(script: Script, wanted: str = "") -> Script:
    """The script with verifications and repairs beside the writers, and with faults at some rounds' ends.

    On a cluster without a shared disk nothing is verified: its executors don't see the copy.
    """
    if os.environ.get(ON_CLUSTER):
        return script
    draw, mends = Random(f"{script.seed}/verified"), Random(f"{script.seed}/repaired")
    certain = "verify" in wanted
    names = verifiable(script)
    rounds = []
    for number, drawn in enumerate(script.rounds):
        signals = list(drawn.signals)
        if names and (draw.random() < _VERIFIED or certain):
            sent = signal(f"v{number}", "verify", names, draw.random())
            signals.insert(draw.choice([0, len(signals)]), sent)
        # No copy is known to be right before the first round's end.
        if names and number and (mends.random() < _REPAIRED or certain):
            sent = signal(f"m{number}", "repair", names, mends.random())
            signals.insert(mends.choice([0, len(signals)]), sent)
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
    """The collections that can be verified, with the tables that they are of."""
    for shape in script.tables:
        if _is_verifiable(shape, script):
            for name in collections(shape, via_root=script.via_root):
                yield shape, name


def _is_verifiable(shape: TableShape, script: Script) -> bool:
    """Whether a table can be verified.

    Rows without a key can't be told apart. MongoDB's updates must bring the document, or verifications are
    refused. On PostgreSQL, no log shows that a primary key changed under the identity of another index, and
    consumers keep the row under the old one. That is rightly found.
    """
    if shape.documents:
        return "update_full" in script.properties.get("capture.mode", "")
    if shape.database:
        return shape.keyed
    return shape.keyed and not (shape.kind.alike or shape.leaf or shape.identity == "i")


def trusted(
    script: Script, tables: Mapping[str, Table], incomplete: Collection[str], altered: Collection[str]
) -> list[str]:
    """The collections of which the sink has every row as it is, by all that the judge knows.

    It may also have rows that the source has no more. `script` is what has been played of it. `altered` are
    tables whose columns were changed outside the script: events have the old types' values.
    """
    if any(step[0] == "retract" for step in script.steps):
        return []
    outside = _outside_the_log(script)
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


def _outside_the_log(script: Script) -> set[float]:
    """The places of tables that have changed in a way that the log does not tell of."""
    found = {blow.amount for drawn in script.rounds for blow in drawn.blows if blow.kind == "disguise"}
    if any(shape.database for shape in script.tables):
        return found | {step[1] for step in script.steps if _is_untold(step)}
    return found | {place for step in script.steps if step[0] in _OUTSIDE_THE_LOG for place in step[1:]}


def _is_untold(step: Step) -> bool:
    """Whether a step on a table of SQL Server gives rows values of which no event tells.

    Nothing tells what is written while a table is not captured, nor of the value that all rows have in a new
    column that is not null. A new column of nulls is like one that events lack.
    """
    return step[0] == "dark" or (step[0] in {"sql", "switch"} and "NOT NULL" in step[2])


def steady(script: Script, drawn: Round) -> set[str]:
    """The collections whose copies no step of a round makes wrong, not even for a while."""
    steps = [step for writer in drawn.writers for transaction in writer for step in transaction.steps]
    steps += [strike.step for strike in drawn.strikes]
    if any(step[0] == "wipe" for step in steps):
        return set()
    moved = {step[1] for step in steps if step[0] in UNTOLD | INCOMPLETE_FOR_A_WHILE}
    moved |= {step[2] for step in steps if step[0] == "succeed"}
    return {name for shape, name in _verifiable(script) if script.tables.index(shape) not in moved}


def other_keys(script: Script) -> frozenset[str]:
    """The collections into which extra rows can be put."""
    return frozenset(
        name for shape, name in _verifiable(script) if shape.documents or shape.key in _OTHER_KEYS
    )


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
