"""Plays histories in sequence, on one server and with one job process, until the time is up.

Owns what outlives a history, and keeps what is needed of a failed one: its script, journal and events.
"""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Self

from tests.servers.kafka import ACLS, KafkaBroker
from tests.torture.figures import Figures
from tests.torture.files_tables import FilesTables
from tests.torture.floors import LONG_MINUTES, SUPERSEDED, missed
from tests.torture.grounds import MongoGround, PostgresGround, SqlServerGround, WrapGround
from tests.torture.guards import GUARDS
from tests.torture.losses import recovers
from tests.torture.mongo_scenes import SCENES as MONGO_SCENES
from tests.torture.moving import MovingGround
from tests.torture.on_cluster import LAKE
from tests.torture.oracle import Violation
from tests.torture.play import Play
from tests.torture.postgres import PostgresSite
from tests.torture.process import Child
from tests.torture.replicas import Replicas
from tests.torture.scenes import SCENES, WRAPS
from tests.torture.script import Wanted, from_json
from tests.torture.shrink import shrunk
from tests.torture.sqlserver_scenes import SCENES as SQLSERVER_SCENES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.binaries import Version
    from tests.torture.grounds import Ground
    from tests.torture.replicas import Tables
    from tests.torture.script import Script

_OUR_OWN = ("TypeError", "AttributeError", "NameError")
_ATTEMPTS = 3
"""How often a script is played before it counts as passing: sessions interleave differently each time."""
_FAILS_OVER = 18
"""The version that synchronizes slots to a standby."""
_MOVES = {1: "standby", 4: "copy"}
_BLOWS = {
    "postgres": {0: "skew stall", 2: "network administration freeze job", 3: "disguise"},
    "mongodb": {
        0: "giants wipe",
        1: "restored",
        2: "members freeze job",
        3: "disguise slices",
        4: "capped skew",
    },
    "sqlserver": {1: "sleep", 2: "freeze job", 3: "skew slices", 4: "sleep"},
}
_ASKS = {0: "scope", 2: "blocking", 3: "pause", 4: "verify"}
_EACH_EVERY = 5
"""In a long run, one in this many histories has each of these."""
_KAFKA_BLOWS = {
    0: "recreate",
    1: "refuse, kill broker",
    2: "freeze broker, slow broker",
    3: "recreate",
    4: "refuse, kill broker, slow broker",
}
"""With Kafka, each history of a long run has these."""
_SELDOM = 0.05
_LOSSES_ON = 3
"""How many kinds of loss further the next history begins. No source has 3 or 6 kinds."""
_HARD_EVERY, _RESTART_EVERY, _BREAK_EVERY = 5, 4, 2
"""One in this many histories has a SIGKILL, a server restart, a SIGKILL of the broker."""


@dataclass(slots=True)
class Run:
    """A server, a process, and the figures of all histories so far.

    With `kafka` there is also a broker, and the jobs send to it. `initial` says whether histories begin with
    an initial snapshot; None: some do. `source` is postgres, mongodb or sqlserver. `asks` is `Wanted`'s.
    `tables` names a sink of tables, which the jobs keep instead. With `losses` logs are lost, and the files
    sink is judged as tables are.
    """

    folder: Path
    version: Version
    kafka: bool = False
    initial: bool | None = None
    source: str = "postgres"
    asks: str = ""
    tables: str = ""
    losses: bool = False
    figures: Figures = field(default_factory=Figures)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    ground: Ground = field(init=False)
    child: Child = field(init=False)
    broker: KafkaBroker | None = None
    replicas: Replicas | None = None

    def __enter__(self) -> Self:
        grounds: dict[str, Callable[[], Ground]] = {
            "mongodb": MongoGround.forgetful if self.losses else MongoGround,
            "sqlserver": SqlServerGround,
        }
        self.ground = grounds[self.source]() if self.source in grounds else PostgresGround(self.version)
        self.ground.start()
        self.child = Child(self.folder / "job.log")
        if self.tables:
            self.replicas = Replicas(self.tables)
            os.environ[LAKE] = "" if self.tables == "jdbc" else "1"
        if self.kafka:
            self.broker = KafkaBroker(ACLS)
            self.broker.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.child.kill()
        if self.broker is not None:
            self.broker.close()
        self.ground.close()

    def histories(self, seed: str, minutes: float) -> int:
        """Play histories until the time is up. Each has a seed derived from this one."""
        try:
            self._until_the_end(seed, minutes)
        finally:
            # Also if the database server itself breaks: what was proved until then is worth knowing.
            print(f"seed {seed}: {self.figures.line()}", flush=True)
        happened = self.figures.kinds + Counter({SUPERSEDED: self.figures.superseded})
        too_rare = missed(self._judged, minutes, happened)
        for line in too_rare:
            print(f"too rare, {line}", flush=True)
        return 1 if self.figures.violations or too_rare else 0

    @property
    def _judged(self) -> str:
        """By which floors."""
        losses = "losses" if self.source == "postgres" else f"{self.source} losses"
        kinds = {losses: self.losses, "tables": bool(self.tables), "kafka": self.kafka}
        return next((kind for kind, is_one in kinds.items() if is_one), self.source)

    def _until_the_end(self, seed: str, minutes: float) -> None:
        until = time.monotonic() + minutes * 60
        for number in itertools.count():
            if time.monotonic() >= until:
                break
            asks = self.asks or (_ASKS.get(number % _EACH_EVERY, "") if minutes >= LONG_MINUTES else "")
            wanted = Wanted(
                hard=number % _HARD_EVERY == _HARD_EVERY - 1,
                restart=number % _RESTART_EVERY == 2,
                broken=self.kafka and number % _BREAK_EVERY == 0,
                kafka=self.kafka,
                initial=self.tables != "" or self.losses or (False if asks == "blocking" else self.initial),
                tables=self.tables != "",
                losses=number * _LOSSES_ON if self.losses else None,
                moves=self._moves(seed, number, minutes),
                blow=self._blow(number, minutes),
                asks=asks,
            )
            script = self.ground.write(f"{seed}/{number}", wanted)
            self.play(script)

    def _blow(self, number: int, minutes: float) -> str:
        """Which blows a history must have. In a short run its seed decides alone."""
        if minutes < LONG_MINUTES or self.tables or self.losses:
            return ""
        return (_KAFKA_BLOWS if self.kafka else _BLOWS[self.source]).get(number % _EACH_EVERY, "")

    def _moves(self, seed: str, number: int, minutes: float) -> str:
        """What replaces a history's server, if anything does.

        In a long run, and where logs are lost, one history in five has each kind. In a short one few have
        any, since they take time.
        """
        moves = self.source == "postgres" and self.version == _FAILS_OVER
        if not moves or self.kafka or self.tables:
            return ""
        if minutes >= LONG_MINUTES or self.losses:
            return _MOVES.get(number % _EACH_EVERY, "")
        draw = Random(f"{seed}/{number}/moves")
        return draw.choice(["standby", "copy"]) if draw.random() < _SELDOM else ""

    def scene(self, name: str, mutant: str | None = None) -> str | None:
        """Play a scene; see `play`."""
        match self.source:
            case "sqlserver":
                script, _ = SQLSERVER_SCENES[name]
            case "mongodb":
                script, _ = MONGO_SCENES[name]
            case _:
                script, _ = SCENES[name]
        return self.play(script, mutant)

    def play(self, script: Script, mutant: str | None = None) -> str | None:
        """Play one history, on its own server if it needs one. Returns what was violated, if anything."""
        if not (script.moves or script.scene in WRAPS):
            return self._play(script, mutant)
        own, self.ground = self.ground, MovingGround(self.version) if script.moves else WrapGround()
        try:
            self.ground.start()
            return self._play(script, mutant)
        finally:
            self.ground.close()
            self.ground = own

    def _play(self, script: Script, mutant: str | None) -> str | None:
        number = next(self._numbers)
        folder = self.folder / f"history-{number:04d}"
        site, prefix = self.ground.site(number, script), f"history_{number}" if self.broker else "tm"
        tables: Tables | None = FilesTables(folder / "events", site.emitted) if recovers(script) else None
        if self.replicas is not None:
            assert isinstance(site, PostgresSite)
            tables = self.replicas.of(number, folder, site.server)
        play = Play(script, site, self.child, folder, prefix, mutant, self.broker, tables)
        begun = time.monotonic()
        violation: str | None = None
        cut_short = ""
        try:
            play.run()
        except Violation as error:
            violation = str(error)
            play.figures.violations = 1
            (folder / "script.json").write_text(script.to_json())
        except BaseException as error:
            # It proves nothing: neither the job nor the judge came to the end.
            cut_short = f"cut short by an error of the test: {type(error).__name__}: {error}"
            play.figures.histories, play.figures.cut_short = 0, 1
            raise
        finally:
            said = violation or cut_short or "ok"
            self._tell(mutant or script.seed, play, said, time.monotonic() - begun)
            self.figures.add(play.figures)
            self.ground.clear(number)
        if violation is None:
            shutil.rmtree(folder)
        return violation

    @staticmethod
    def _tell(what: str, play: Play, said: str, took_s: float) -> None:
        shapes = ", ".join(f"{table.key}/{table.identity}/{table.rows}" for table in play.script.tables)
        print(f"{what}: {took_s:.1f} s [{shapes}] {said}", flush=True)
        for failure in play.answers.failures:
            print(f"  answered: {failure}", flush=True)
        if said != "ok":
            print(f"  kept in {play.folder}", flush=True)


def replay(run: Run, kept: Path, minutes: float) -> int:
    """Play a kept script until it fails again, then ever smaller ones while time remains."""
    path = kept / "script.json" if kept.is_dir() else kept
    until = time.monotonic() + minutes * 60

    def fails(script: Script) -> bool:
        return any(time.monotonic() < until and run.play(script) for _ in range(_ATTEMPTS))

    script = from_json(path.read_text())
    if not fails(script):
        return 0
    smallest = path.with_name("smallest.json")
    for smaller in shrunk(script, fails):
        smallest.write_text(smaller.to_json())
        print(f"still fails, now {smaller.size} steps: {smallest}", flush=True)
    return 1


def mutate(run: Run, only: list[str]) -> int:
    """Switch off the guards one at a time. Returns 0 only if each is caught and no scene fails with all."""
    known = GUARDS[run.source]
    chosen = [name for name in known if not only or name in only]
    caught: dict[str, bool] = {}
    for scene in dict.fromkeys(known[name].scene for name in chosen):
        sound = run.scene(scene) is None
        for name in chosen:
            if known[name].scene == scene:
                caught[name] = _tells(run.scene(scene, name)) and sound
    for name, is_caught in caught.items():
        print(f"{'caught' if is_caught else 'NOT CAUGHT'}: {name}")
    print(
        f"{sum(caught.values())} of {len(caught)} guards were caught when they were switched off", flush=True
    )
    return 0 if all(caught.values()) else 1


def _tells(violation: str | None) -> bool:
    """Whether a violation is due to the missing guard, and not to a bug in switching it off."""
    return violation is not None and not any(error in violation for error in _OUR_OWN)
