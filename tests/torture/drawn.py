"""Histories drawn from a seed: tables, transactions, signals, crashes and restarts for PostgreSQL."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tests.torture.blows import disguisable, moved, struck
from tests.torture.course import (
    drawn_changes,
    drawn_course,
    drawn_lulls,
    drawn_rows,
    drawn_signal,
    malformed_signals,
)
from tests.torture.large import large
from tests.torture.losses import with_losses
from tests.torture.new_columns import with_new_columns
from tests.torture.odd import odd
from tests.torture.recreated import SETTING
from tests.torture.requests import varied
from tests.torture.script import (
    ANYTHING,
    STEPS,
    Blow,
    Fuse,
    Script,
    Sent,
    Transaction,
    Wanted,
    collections,
)
from tests.torture.slot_losses import SLOT_LOSSES
from tests.torture.tables import KEYS, TableShape
from tests.torture.verified import with_verifications
from tests.torture.wild import wild

if TYPE_CHECKING:
    from tests.torture.script import Ending
    from tests.torture.statements import Step

INITIAL, SLEEPS, ALIKE, FENCED = 0.4, 0.3, 0.4, 0.4
_EACH_TURN = ("writer", "save_pending", "commit", "promote")
"""Steps of each turn with events."""


def write(seed: str, wanted: Wanted = ANYTHING) -> Script:
    """The script of a seed, with what `wanted` requires."""
    script = _Writer(Random(seed), seed).script(wanted)
    draw = Random(f"{seed}/more")
    if draw.random() < INITIAL if wanted.initial is None else wanted.initial:
        script = replace(script, initial=True, fuses=[*early(draw), *script.fuses])
    if wanted.broken:
        for _ in range(draw.choice([1, 2, 3])):
            draw.choice(script.rounds).breaks.append(round(draw.uniform(0.2, 3.0), 2))
    rounds = [replace(round_, aims=draw.choice([0, 2, 4, 8])) for round_ in script.rounds]
    local = {"tidemark.window.local.rows": draw.choice(["0", "10000"])}
    script = pressed(replace(script, rounds=rounds, properties={**script.properties, **local}))
    script = varied(script, wanted.asks)
    if wanted.kafka and draw.random() < FENCED:
        script = fenced(script, draw)
    script = large(script)
    # A consumer of topics or tables can't be judged by changes that have no events.
    if wanted.kafka:
        return broken(script, wanted.blow)
    if wanted.losses is not None:
        return with_losses(script, SLOT_LOSSES, wanted.losses, wanted.moves)
    if wanted.tables:
        return script
    script = with_new_columns(script)
    if wanted.moves:
        return moved(script, wanted.moves)
    # Before steps are drawn: a table whose primary key goes must not get steps that change this key alone.
    script = disguisable(script) if "disguise" in wanted.blow else script
    script = odd(script)
    script = struck(wild(script, certain="administration" in wanted.blow), wanted.blow)
    return with_verifications(script, wanted.asks)


def broken(script: Script, wanted: str) -> Script:
    """The script with these blows to the broker or a topic, each in a round and while writers write."""
    if not wanted:
        return script
    draw = Random(f"{script.seed}/broken")
    rounds, kinds = list(script.rounds), wanted.split(", ")
    for kind in kinds:
        at = draw.randrange(len(rounds))
        blow = Blow(round(draw.uniform(0.5, 2.0), 2), kind)
        rounds[at] = replace(rounds[at], blows=sorted([*rounds[at].blows, blow], key=lambda each: each.at_s))
    properties = dict(script.properties)
    if "recreate" in kinds:
        properties[SETTING] = draw.choice(["snapshot", "snapshot", "snapshot", "warn", "warn", "stop"])
    initial = script.initial and not {"recreate", "refuse"} & set(kinds)
    return replace(script, rounds=rounds, properties=properties, initial=initial)


def fenced(script: Script, draw: Random) -> Script:
    """A script with transactional producers, whose job falls asleep while it sends."""
    asleep = Fuse("commit", draw.random() < 0.2, draw.choice([0, 1, 4]), sleeps=True)
    awake = [fuse for fuse in script.fuses if not fuse.sleeps]
    properties = {**script.properties, "tidemark.sink.kafka.fencing": "transactions"}
    return replace(script, fuses=[asleep, *awake], properties=properties)


def pressed(script: Script, *, asleep: bool = False) -> Script:
    """A script with pressure on its windows: small slices keep two of them open at once.

    The job may fall asleep and be taken over; with `asleep` it does.
    """
    draw = Random(f"{script.seed}/pressed")
    fuses = list(script.fuses)
    if draw.random() < SLEEPS:
        fuse = Fuse(draw.choice(STEPS), draw.random() < 0.3, draw.choice([0, 0, 1, 4]), sleeps=True)
        fuses.insert(draw.randint(0, min(2, len(fuses))), fuse)
    if asleep:
        fuses.insert(0, Fuse(draw.choice(_EACH_TURN), draw.random() < 0.3, draw.choice([0, 1]), sleeps=True))
    return replace(script, fuses=fuses, slice_bytes=draw.choice([0, 600, 600, 3_000, 12_000]))


def sliced(script: Script) -> Script:
    """The script with a request for its first table, in small windows of several slices: two wait at once."""
    names = collections(script.tables[0])
    data = json.dumps({"type": "incremental", "data-collections": names})
    first, *others = script.rounds
    signals = [Sent(0.0, "sliced", "execute-snapshot", data, "execute", names), *first.signals]
    return replace(
        script,
        rounds=[replace(first, signals=signals), *others],
        slice_bytes=600,
        lulls={**script.lulls, "take": 0.6},
        properties={
            **script.properties,
            "incremental.snapshot.chunk.size": "5",
            "tidemark.window.max.chunks": "4",
        },
    )


def early(draw: Random) -> list[Fuse]:
    """Crashes while the initial snapshot begins and is read."""
    steps = ("open_log", "open_window", "poll", "writer", "save_pending", "commit", "promote", "acknowledge")
    return [
        Fuse(draw.choice(steps), draw.random() < 0.5, draw.choice([0, 0, 1, 2]))
        for _ in range(draw.choice([0, 1, 1, 2]))
    ]


@dataclass(slots=True)
class _Writer:
    """Draws one script; every draw comes from `random`."""

    random: Random
    seed: str
    tables: list[TableShape] = field(default_factory=list)
    signals: int = 0
    via_root: bool = False
    added: dict[int, int] = field(default_factory=dict)

    def script(self, wanted: Wanted) -> Script:
        draw = self.random
        self.via_root = draw.random() < 0.5
        self.tables = [self._table(place) for place in range(draw.randint(2, 4))]
        if draw.random() < ALIKE:
            self.tables.append(replace(self.tables[0], name=f"t{len(self.tables)}"))
        rounds, fuses = drawn_course(
            draw, wanted, self._transaction, partial(drawn_signal, self), ["fast", "immediate", "immediate"]
        )
        return Script(
            self.seed,
            self.tables,
            rounds,
            fuses,
            self._properties(),
            self._database(),
            drawn_lulls(draw),
            self.via_root,
        )

    def _table(self, place: int) -> TableShape:
        draw = self.random
        key = draw.choice(list(KEYS))
        identity = draw.choice(["f", "f", "d"]) if key == "none" else draw.choice("dddddffiin")
        rows = draw.choice([0, 3, 40, 40, 300, 300, 900])
        return TableShape(f"t{place}", key, identity, rows)

    def _properties(self) -> dict[str, str]:
        draw = self.random
        largest = max(shape.rows for shape in self.tables)
        chunk = max(5, largest // draw.choice([1, 3, 6, 12]))
        return {
            "incremental.snapshot.chunk.size": str(chunk),
            "tidemark.window.max.chunks": str(draw.choice([0, 1, 2, 4])),
            "tidemark.span.max.rows": str(draw.choice([7, 40, 1000, 200_000])),
            "incremental.snapshot.watermarking.strategy": draw.choice(_STRATEGIES),
        }

    def _database(self) -> dict[str, str]:
        """Settings that print values differently, as a user's database may have them."""
        draw = self.random
        odd = {
            "DateStyle": "German",
            "TimeZone": "Asia/Kolkata",
            "IntervalStyle": "sql_standard",
            "extra_float_digits": "-10",
            "bytea_output": "escape",
        }
        return {name: value for name, value in odd.items() if draw.random() < 0.3}

    # Transactions.

    def _transaction(self) -> Transaction:
        draw = self.random
        if draw.random() < 0.04:
            return self._definition()
        steps = [self._step() for _ in range(draw.choice([1, 1, 1, 2, 3, 6]))]
        endings: list[Ending] = ["commit", "rollback", "prepare", "prepare-rollback"]
        ending = draw.choices(endings, [14, 2, 1, 1])[0]
        savepoint = draw.randrange(len(steps)) if draw.random() < 0.15 else None
        pause_s = draw.choice([0.0, 0.0, 0.02, 0.1, 0.2])
        return Transaction(steps, ending, savepoint, draw.random() < 0.2, pause_s)

    def _step(self) -> Step:
        draw = self.random
        place = draw.randrange(len(self.tables))
        shape = self.tables[place]
        rows = drawn_rows(draw, place, shape)
        if shape.appends_only:
            fresh = 10_000 + draw.randrange(1_000)
            return draw.choice(
                [["put", place, [fresh, fresh + 1]], ["fill", place, fresh, draw.randint(1, 60)]]
            )
        steps = drawn_changes(draw, rows, 2)
        if shape.key == "numeric":
            steps.append(["respell", place, rows.pair[0]])
        if draw.random() < 0.03:
            return draw.choice([["truncate", place], ["fill", place, 0, rows.near]])
        return draw.choice(steps)

    def _definition(self) -> Transaction:
        draw = self.random
        place = draw.randrange(len(self.tables))
        serial = self.added.get(place, 0)
        self.added[place] = serial + 1
        texts = [
            f"ALTER TABLE {{table}} ADD COLUMN c{serial} int DEFAULT 7",
            f"ALTER TABLE {{table}} ADD COLUMN c{serial} text DEFAULT md5(random()::text)",
            f"ALTER TABLE {{table}} DROP COLUMN IF EXISTS c{max(0, serial - 1)}",
            "ALTER TABLE {table} ALTER x TYPE bigint",
            "ALTER TABLE {table} ALTER x TYPE numeric",
        ]
        return Transaction([["sql", place, draw.choice(texts)]], pause_s=0.05)

    # Signals.

    def _collections(self, shape: TableShape) -> list[str]:
        return collections(shape, via_root=self.via_root)

    def _some(self) -> list[TableShape]:
        return self.random.sample(self.tables, self.random.randint(1, len(self.tables)))

    def names(self) -> list[str]:
        """Some of the collections."""
        return [name for shape in self._some() for name in self._collections(shape)]

    def malformed(self, label: str, pause_s: float) -> Sent:
        """A signal that is refused."""
        return Sent(pause_s, label, *self.random.choice(_MALFORMED), "malformed")

    def execute(self, label: str, pause_s: float) -> Sent:
        """A request for some of the collections."""
        draw = self.random
        named = self._some()
        surrogate = any(shape.surrogate for shape in named) or draw.random() < 0.15
        names = [name for shape in named for name in self._collections(shape)]
        data: dict[str, Any] = {"type": "incremental", "data-collections": names}
        if surrogate:
            data["surrogate-key"] = "n"
        whole = draw.random() < 0.85
        if not whole:
            data["additional-condition"] = f"n % {draw.randint(2, 4)} <> 1"
        return Sent(pause_s, label, "execute-snapshot", json.dumps(data), "execute", names, whole)


_STRATEGIES = ("visibility",) * 6 + ("insert_insert", "insert_delete")
_MALFORMED = malformed_signals("public", ("stop-snapshot", '{"data-collection": ["public.t0"]}'))
