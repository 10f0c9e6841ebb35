"""Histories drawn from a seed for SQL Server: databases, tables, acts, signals, crashes and restarts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tests.torture.blows import timed
from tests.torture.course import (
    drawn_changes,
    drawn_course,
    drawn_lulls,
    drawn_rows,
    drawn_signal,
    malformed_signals,
)
from tests.torture.drawn import INITIAL, early, pressed, sliced
from tests.torture.requests import varied
from tests.torture.script import ANYTHING, Script, Sent, Transaction, Wanted, collections
from tests.torture.sqlserver_losses import with_lost_changes
from tests.torture.sqlserver_tables import HEAP, KEYS
from tests.torture.tables import TableShape
from tests.torture.verified import with_verifications

if TYPE_CHECKING:
    from tests.torture.statements import Step

DATABASES = ("alpha", "beta")
_STRATEGIES = ("insert_insert",) * 4 + ("insert_delete", "visibility", "visibility")
_ISOLATIONS = ("repeatable_read", "repeatable_read", "read_committed", "snapshot", "exclusive")
_DELAYS_S = ("0.01", "0.03", "0.03", "0.1", "0.1", "0.4")
_STATED = 0.35
"""The share of rounds with a signal that states a table's schema."""
_MALFORMED = malformed_signals("alpha.dbo", ("execute-snapshot", '{"data-collections": ["gamma.dbo.t0"]}'))


def write_sqlserver(seed: str, wanted: Wanted = ANYTHING) -> Script:
    """The script of a seed, with what `wanted` requires. Broker blows are for other sources."""
    script = with_verifications(_with_schemas(_written(seed, wanted)), wanted.asks)
    script = sliced(script) if "slices" in wanted.blow else script
    return script if wanted.losses is None else with_lost_changes(script, wanted.losses)


def _with_schemas(script: Script) -> Script:
    """The script with some signals that state a table's schema, which is not what the catalog says."""
    draw = Random(f"{script.seed}/schemas")
    rounds = []
    for number, drawn in enumerate(script.rounds):
        signals = list(drawn.signals)
        if draw.random() < _STATED:
            shape, kind = draw.choice(script.tables), draw.choice(["CREATE", "ALTER"])
            column = {"name": "other", "typeName": "int", "position": 1}
            change = {"type": kind, "id": f"dbo.{shape.name}", "table": {"columns": [column]}}
            data = json.dumps({"database": shape.database, "changes": [change]})
            stated = Sent(draw.choice([0.0, 0.3]), f"schemas{number}", "schema-changes", data, "schemas")
            signals.insert(draw.randint(1, len(signals)), stated)
        rounds.append(replace(drawn, signals=signals))
    return replace(script, rounds=rounds)


def _written(seed: str, wanted: Wanted) -> Script:
    script = _Writer(Random(seed), seed).script(wanted)
    draw = Random(f"{seed}/more")
    asleep = "sleep" in wanted.blow
    begins = draw.random() < INITIAL if wanted.initial is None else wanted.initial
    begins &= not (asleep and script.properties["snapshot.isolation.mode"] == "exclusive")
    begins &= "slices" not in wanted.blow
    mode = {"snapshot.mode": "initial" if begins else "schema_only"}
    script = timed(replace(script, initial=begins, properties={**script.properties, **mode}), wanted.blow)
    if not begins:
        return varied(pressed(script, asleep=asleep), wanted.asks)
    if script.properties["snapshot.isolation.mode"] == "exclusive":
        # A dropped job would keep its locks, which an ended process does not.
        fuses = [replace(fuse, hard=True) for fuse in early(draw)[:1]]
        return replace(script, fuses=fuses)
    # Beside the log an initial snapshot refuses tables without a key.
    keyed = [replace(table, key="number" if table.key == HEAP else table.key) for table in script.tables]
    script = pressed(replace(script, tables=keyed, fuses=[*early(draw), *script.fuses]), asleep=asleep)
    return varied(script, wanted.asks)


@dataclass(slots=True)
class _Writer:
    """Draws one script; every draw comes from `random`."""

    random: Random
    seed: str
    databases: tuple[str, ...] = DATABASES
    tables: list[TableShape] = field(default_factory=list)
    signals: int = 0
    added: int = 0

    def script(self, wanted: Wanted) -> Script:
        draw = self.random
        self.databases = draw.choice([DATABASES, DATABASES, DATABASES[:1]])
        self.tables = [self._table(place) for place in range(draw.randint(2, 3))]
        if "slices" in wanted.blow:
            self.tables[0] = TableShape("t0", "number", "-", 300, self.databases[0])
        rounds, fuses = drawn_course(
            draw, wanted, self._transaction, partial(drawn_signal, self), ["fast", "immediate"]
        )
        lulls = drawn_lulls(draw)
        server = {"databases": ",".join(self.databases), "delay_s": draw.choice(_DELAYS_S)}
        return Script(self.seed, self.tables, rounds, fuses, self._properties(), server, lulls)

    def _table(self, place: int) -> TableShape:
        draw = self.random
        rows = draw.choice([0, 3, 40, 40, 150, 300])
        database = self.databases[place % len(self.databases)]
        return TableShape(f"t{place}", draw.choice(list(KEYS)), "-", rows, database)

    def _properties(self) -> dict[str, str]:
        draw = self.random
        largest = max(shape.rows for shape in self.tables)
        history = {
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": "{folder}/schemas",
        }
        return {
            "incremental.snapshot.chunk.size": str(max(5, largest // draw.choice([1, 3, 6]))),
            "tidemark.window.max.chunks": str(draw.choice([0, 1, 2, 4])),
            "tidemark.span.max.rows": str(draw.choice([15, 60, 1000, 200_000])),
            "incremental.snapshot.watermarking.strategy": draw.choice(_STRATEGIES),
            "snapshot.isolation.mode": draw.choice(_ISOLATIONS),
            "poll.interval.ms": draw.choice(["10", "50", "200"]),
            "snapshot.fetch.size": draw.choice(["7", "10000"]),
            **(history if draw.random() < 0.4 else {}),
        }

    # Transactions.

    def _transaction(self) -> Transaction:
        draw = self.random
        pause_s = draw.choice([0.0, 0.0, 0.02, 0.1, 0.2])
        if draw.random() < 0.06:
            return Transaction([self._definition()], pause_s=pause_s)
        database = draw.choice(self.tables).database
        places = [place for place, shape in enumerate(self.tables) if shape.database == database]
        steps = [self._step(draw.choice(places)) for _ in range(draw.choice([1, 1, 1, 2, 3, 6]))]
        ending = "commit" if draw.random() < 0.88 else "rollback"
        savepoint = draw.randrange(len(steps)) if draw.random() < 0.15 else None
        return Transaction(steps, "commit" if ending == "commit" else "rollback", savepoint, pause_s=pause_s)

    def _definition(self) -> Step:
        draw = self.random
        place = draw.randrange(len(self.tables))
        self.added += 1
        added = [
            f"ALTER TABLE {{table}} ADD c{self.added} int NULL",
            f"ALTER TABLE {{table}} ADD c{self.added} nvarchar(20) NOT NULL DEFAULT N'seven'",
        ]
        dropped = f"ALTER TABLE {{table}} DROP COLUMN c{max(1, self.added - draw.randint(1, 3))}"
        return draw.choice(
            [
                ["switch", place, draw.choice(added)],
                ["switch", place, draw.choice(added)],
                ["switch", place, dropped],
                ["sql", place, dropped],
                ["sql", place, draw.choice(added)],
                ["switch", place, ""],
                ["dark", place],
            ]
        )

    def _step(self, place: int) -> Step:
        draw = self.random
        shape = self.tables[place]
        rows = drawn_rows(draw, place, shape)
        steps = drawn_changes(draw, rows, 6)
        one = rows.pair[0]
        if shape.key != HEAP:
            steps += [["shift", place, one, draw.choice([2, 3, 8])]] * 2
        if shape.key in {"words", "wide", "cased"}:
            steps += [["respell", place, one]] * 2
        if draw.random() < 0.03:
            return ["fill", place, 0, rows.near]
        return draw.choice(steps)

    # Signals.

    def names(self) -> list[str]:
        """Some of the collections."""
        return self._names(self._some())

    def malformed(self, label: str, pause_s: float) -> Sent:
        """A signal that is refused."""
        return Sent(pause_s, label, *self.random.choice(_MALFORMED), "malformed")

    def _some(self) -> list[TableShape]:
        return self.random.sample(self.tables, self.random.randint(1, len(self.tables)))

    @staticmethod
    def _names(shapes: list[TableShape]) -> list[str]:
        return [name for shape in shapes for name in collections(shape)]

    def execute(self, label: str, pause_s: float) -> Sent:
        """A request for some of the collections."""
        draw, named = self.random, self._some()
        names = self._names(named)
        data: dict[str, Any] = {"type": "incremental", "data-collections": names}
        if any(shape.key == HEAP for shape in named) or draw.random() < 0.15:
            data["surrogate-key"] = "n"
        whole = draw.random() < 0.85
        if not whole:
            data["additional-condition"] = f"[n] % {draw.randint(2, 4)} <> 1 OR [v] LIKE N'TOUCHED%'"
        return Sent(pause_s, label, "execute-snapshot", json.dumps(data), "execute", names, whole)
