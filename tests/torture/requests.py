"""What histories request besides plain incremental snapshots.

Some requests become snapshots of given rows, by the rows' ordinal or `_id`. Some become blocking, some get a
priority or a limit of speed, and some only ask what would be read.
"""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from bson import json_util

from tests.torture.documents import IDS
from tests.torture.script import Sent, collections

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.torture.script import Script
    from tests.torture.tables import TableShape

    Change = Callable[[Sent], Sent]

_SCOPED, _BLOCKING, _URGENT, _SLOW, _PLANNED = 0.35, 0.5, 0.25, 0.15, 0.08
_NAMED = 0.5
"""The share of pauses that name collections."""
_PLAIN = {"type", "data-collections"}
_PAUSES = frozenset({"pause", "resume"})
_KEYED, _ORDERED = frozenset({"int32", "int64", "string", "oid"}), frozenset({"int32", "int64"})
"""Kinds of `_id` by which single documents are asked for, and those in the order of the ordinals."""


def varied(script: Script, wanted: str = "") -> Script:
    """The script with some of its requests changed; `wanted` is `blocking`, `scope`, `pause` or empty.

    Blocking snapshots are not beside an initial snapshot, whose rows are marked in the same way, nor beside a
    pause, which does not hold them up. If they are wanted, the pauses go. So they do if pauses that find
    something to pause are wanted.
    """
    if wanted in {"blocking", "pause"}:
        script = _changed(script, lambda sent: sent, keeps=lambda sent: sent.kind not in _PAUSES)
    script = _with_named_pauses(script)
    draw = Random(f"{script.seed}/scoped")
    script = _some(script, lambda sent: _scoped(draw, sent, script), draw, _SCOPED, sure=wanted == "scope")
    script = _held(script) if wanted == "pause" else script
    paused = any(sent.kind in _PAUSES for drawn in script.rounds for sent in drawn.signals)
    if not (script.initial or paused):
        draw = Random(f"{script.seed}/blocking")
        script = _some(script, _blocking, draw, _BLOCKING, sure=wanted == "blocking")
    draw = Random(f"{script.seed}/pressing")
    return _changed(script, lambda sent: _pressing(draw, sent))


def _changed(script: Script, change: Change, keeps: Callable[[Sent], bool] = lambda _sent: True) -> Script:
    rounds = [
        replace(drawn, signals=[change(sent) for sent in drawn.signals if keeps(sent)])
        for drawn in script.rounds
    ]
    return replace(script, rounds=rounds)


def _with_named_pauses(script: Script) -> Script:
    """The script with some pauses of single collections, which are then resumed by name or with all."""
    draw = Random(f"{script.seed}/pauses")
    names = [name for shape in script.tables for name in collections(shape, via_root=script.via_root)]
    rounds = []
    for drawn in script.rounds:
        named = draw.random() < _NAMED
        chosen, all_again = draw.sample(names, draw.randint(1, len(names))), draw.random() < 0.3
        signals = [
            _naming(sent, chosen) if named and (sent.kind == "pause" or _resumes(sent, all_again)) else sent
            for sent in drawn.signals
        ]
        rounds.append(replace(drawn, signals=signals))
    return replace(script, rounds=rounds)


def _held(script: Script) -> Script:
    """The script with a pause by name right behind each round's first request, before anything is read."""
    rounds = []
    for number, drawn in enumerate(script.rounds):
        signals = list(drawn.signals)
        first = next((place for place, sent in enumerate(signals) if sent.kind == "execute"), None)
        if first is not None:
            names = signals[first].collections
            pause = _naming(Sent(0.0, f"held{number}", "pause-snapshot", "{}", "pause"), names)
            resume = _naming(Sent(0.3, f"freed{number}", "resume-snapshot", "{}", "resume"), names)
            signals[first + 1 : first + 1] = [pause, resume]
        rounds.append(replace(drawn, signals=signals))
    return replace(script, rounds=rounds)


def _resumes(sent: Sent, all_again: bool) -> bool:  # noqa: FBT001  a draw
    return sent.kind == "resume" and not all_again


def _naming(sent: Sent, names: Sequence[str]) -> Sent:
    return replace(sent, data=json.dumps({"data-collections": list(names)}), collections=list(names))


def _some(script: Script, change: Change, draw: Random, share: float, *, sure: bool) -> Script:
    """Change a share of the requests; with `sure` the first one in any case, and most others."""
    left = [sure]

    def changed(sent: Sent) -> Sent:
        if sent.kind != "execute" or not (left[0] or draw.random() < (0.7 if sure else share)):
            return sent
        made = change(sent)
        left[0] = left[0] and made is sent
        return made

    return _changed(script, changed)


def _blocking(sent: Sent) -> Sent:
    """A blocking snapshot of whole tables by their own keys; other requests stay as they are."""
    data = json.loads(sent.data or "{}")
    if set(data) != _PLAIN:
        return sent
    return replace(sent, data=json.dumps(data | {"type": "blocking"}))


def _pressing(draw: Random, sent: Sent) -> Sent:
    """A request with a priority or a limit, or for a plan alone."""
    data: dict[str, Any] = json.loads(sent.data or "{}") if sent.kind == "execute" else {}
    urgent, slow, planned = draw.random() < _URGENT, draw.random() < _SLOW, draw.random() < _PLANNED
    priority, most = draw.choice([-1, 1, 5]), draw.choice([300, 1000])
    limit = {"max-rows-per-second": most} if draw.random() < 0.5 else {"max-bytes-per-second": 100 * most}
    if data.get("type") != "incremental":
        return sent
    data |= {"priority": priority} if urgent else {}
    data |= limit if slow else {}
    if planned:
        return replace(sent, data=json.dumps(data | {"dry-run": True}), kind="plan")
    return replace(sent, data=json.dumps(data))


# Given rows.


def _scoped(draw: Random, sent: Sent, script: Script) -> Sent:
    """A request for rows of one table, with their ordinals."""
    shapes = [shape for shape in script.tables if shape.key in _KEYED or not shape.documents]
    shapes = [shape for shape in shapes if shape.documents or shape.database or not shape.kind.alike]
    if not shapes:
        return sent
    shape = draw.choice(shapes)
    name = draw.choice(collections(shape, via_root=script.via_root))
    data: dict[str, Any] = {"type": "incremental", "data-collections": [name]}
    if not shape.documents:
        data["surrogate-key"] = "n"
    near = max(12, shape.rows + shape.rows // 8)
    if draw.random() < 0.5 or (shape.documents and shape.key not in _ORDERED):
        ordinals = [draw.randrange(near) for _ in range(draw.choice([1, 3, 20, 200]))]
        data["keys"] = [[_key(shape, n)] for n in ordinals]
        stretches: list[list[int | None]] = [[n, n + 1] for n in ordinals]
    else:
        stretches = [_stretch(draw, near) for _ in range(draw.choice([1, 1, 2, 5]))]
        data["ranges"] = [_range(shape, stretch) for stretch in stretches]
    return replace(sent, data=json.dumps(data), collections=[name], whole=False, ordinals=stretches)


def _stretch(draw: Random, near: int) -> list[int | None]:
    start = draw.randrange(near)
    end = start + draw.choice([1, 5, near])
    left_out = draw.choice(["", "", "from", "to"])
    return [None if left_out == "from" else start, None if left_out == "to" else end]


def _range(shape: TableShape, stretch: Sequence[int | None]) -> dict[str, list[Any]]:
    ends = zip(("from", "to"), stretch, strict=True)
    return {name: [_key(shape, bound)] for name, bound in ends if bound is not None}


def _key(shape: TableShape, n: int) -> Any:
    """The key of an ordinal as a signal gives it."""
    if not shape.documents:
        return n
    return json.loads(json_util.dumps(IDS[shape.key](n), json_options=json_util.CANONICAL_JSON_OPTIONS))
