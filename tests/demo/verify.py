"""`python -m tests.demo.verify`: faults put into the files of a running job, the verdicts, and the repair.

A snapshot is taken and writing goes on. Then events are changed behind the job's back: rows go missing,
differ, are older than they should be, or are there without a source row. A third of the faults is on keys
that were just written. The verification runs under the same writes. What it must find is computed here in
another way: each fault whose key has no later event, up to the turn that the verdict names.

Then the tables are repaired and verified again, still under the same writes. At last the writing stops, and a
replay of all events is laid beside the tables in SQL.

Exit code 0 only if each table's verdict counts exactly these faults, kind by kind; if the repair has sent at
most 1.1 events for each fault; and if the second verdict and the replay find no difference.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from adapters.storage.certificate_files import DIRECTORY
from tests.demo.display import Display
from tests.demo.load import Load
from tests.demo.payments import PAYMENTS, add_payments, payers
from tests.demo.postgres import PostgresShop
from tests.demo.roads import FilesRoad
from tests.demo.source import SIGNALS, TABLES
from tests.demo.tidemark import PREFIX, Folder, JobFailed, Tidemark, write_job
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_POLL_S, _TIMEOUT_S = 0.2, 900.0
_SHOPPING = 0.9
"""How much of the writing is in the shop's two tables."""
_VERDICT = "the copy is "
_KINDS = ("missing", "different", "older", "extra")
_NO_ROW = "no row has this"
_SHARES = (0.4, 0.05, 0.55)
"""How many of the faults each table gets: more where few keys are written again."""
_FEWEST_LEFT, _MOST_SENT = 0.8, 1.1


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """An event's line: where it stands. Ordered as the events are."""

    turn: int
    part: int
    number: int


@dataclass(slots=True)
class Table:
    """The lines of a table's keys, in order, and the faults put there: the kind by key."""

    topic: str
    lines: dict[str, list[Line]] = field(default_factory=dict)
    live: dict[str, bool] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)


def part_files(events: Path, after: int, upto: int) -> Iterator[tuple[int, int, Path]]:
    """The files of the turns after one and up to another, in order."""
    for turn in sorted(events.glob("turn-*")):
        number = int(turn.name.removeprefix("turn-"))
        if after < number <= upto:
            for part in sorted(turn.glob("part-*.jsonl")):
                yield number, int(part.stem.removeprefix("part-")), part


def newest_turn(events: Path) -> int:
    """The newest turn with events."""
    return max(int(turn.name.removeprefix("turn-")) for turn in events.glob("turn-*"))


def look(events: Path, names: Sequence[str], upto: int) -> dict[str, Table]:
    """Where the events of each table's keys stand."""
    tables = {f"{PREFIX}.{name}": Table(f"{PREFIX}.{name}") for name in names}
    for turn, part, path in part_files(events, 0, upto):
        for number, line in enumerate(path.read_bytes().splitlines()):
            event = orjson.loads(line)
            table = tables.get(event["topic"])
            if table is not None and event["value"] is not None:
                key = orjson.dumps(event["key"]).decode()
                table.lines.setdefault(key, []).append(Line(turn, part, number))
                table.live[key] = event["value"]["op"] != "d"
    return tables


def choose(table: Table, count: int, chance: random.Random) -> None:
    """Choose keys with a row, a third of them recently written, and a kind of fault for each."""
    live = [key for key, alive in table.live.items() if alive]
    recent = sorted(live, key=lambda key: table.lines[key][-1], reverse=True)[: count // 3]
    others = [key for key in live if key not in set(recent)]
    for key in [*recent, *chance.sample(others, count - len(recent))]:
        kind = chance.choice(_KINDS)
        if kind == "older" and len(table.lines[key]) < 2:
            kind = "different"
        table.faults[_strange(key) if kind == "extra" else key] = kind


def _strange(key: str) -> str:
    """A key that no row has."""
    columns = orjson.loads(key)
    name = next(iter(columns))
    columns[name] = -columns[name] if isinstance(columns[name], int) else f"{columns[name]} {_NO_ROW}"
    return orjson.dumps(columns).decode()


def put(events: Path, tables: dict[str, Table], upto: int) -> None:
    """Change the files: each fault is a change of lines, or a line more in the last file."""
    dropped: set[Line] = set()
    changed: set[Line] = set()
    for table in tables.values():
        for key, kind in table.faults.items():
            lines = table.lines.get(key, [])
            dropped |= set(lines if kind == "missing" else lines[-1:] if kind == "older" else ())
            changed |= set(lines[-1:] if kind == "different" else ())
    path = events
    for turn, part, path in part_files(events, 0, upto):
        found = path.read_bytes().splitlines()
        wanted = [
            _wrong(line) if Line(turn, part, number) in changed else line
            for number, line in enumerate(found)
            if Line(turn, part, number) not in dropped
        ]
        if wanted != found:
            path.write_bytes(b"".join(line + b"\n" for line in wanted))
    with path.open("ab") as file:
        for table in tables.values():
            for key, kind in table.faults.items():
                if kind == "extra":
                    columns = orjson.loads(key)
                    value = {"before": None, "after": columns, "source": {}, "op": "c"}
                    file.write(
                        orjson.dumps({"topic": table.topic, "key": columns, "value": value, "headers": []})
                    )
                    file.write(b"\n")


def _wrong(line: bytes) -> bytes:
    event = orjson.loads(line)
    after = event["value"]["after"]
    name = list(after)[-1]
    after[name] = 99_999 if after[name] != 99_999 else None
    return orjson.dumps(event)


def expected(events: Path, table: Table, since: int, upto: int) -> dict[str, int]:
    """The faults of each kind that no later event has healed."""
    healed = set()
    for _turn, _part, path in part_files(events, since, upto):
        for line in path.read_bytes().splitlines():
            event = orjson.loads(line)
            if event["topic"] == table.topic:
                healed.add(orjson.dumps(event["key"]).decode())
    left = Counter(kind for key, kind in table.faults.items() if key not in healed)
    return {
        "missing": left["missing"],
        "different": left["different"] + left["older"],
        "extra": left["extra"],
    }


@dataclass(frozen=True, slots=True)
class Demo:
    """The whole of it."""

    shop: PostgresShop
    folder: Folder
    load: Load
    faults: int
    say: Any

    def play(self) -> bool:
        """Whether every fault that is left was found, and nothing else."""
        self.shop.prepare(self.load)
        payments = self.load.orders // 2
        add_payments(self.shop.database, self.shop.login, payments)
        write_job(self.folder, self.shop.properties(), FilesRoad().properties(self.folder))
        with Tidemark(self.folder) as job:
            self._until(job, lambda: self.shop.streams(job.state()))
            self._ask(job, "incremental", "completed: ")
            per_s = self.load.writes_per_s
            shoppers = self.shop.users(replace(self.load, writes_per_s=per_s * _SHOPPING))
            others = payers(self.shop.database, payments, per_s * (1 - _SHOPPING))
            with shoppers, others:
                time.sleep(5.0)
                since, tables = self._falsify()
                self._ask(job, "verify", _VERDICT)
                left = self._judged(tables, since)
                before = newest_turn(self.folder.events)
                self._ask(job, "repair", _VERDICT)
                mended = self._sent(before, left)
                self._ask(job, "verify", _VERDICT)
                written = shoppers.stop() + others.stop()
            self.say(f"{written:,} rows were written meanwhile and before")
            _said, there = self.shop.end()
            self._until(job, lambda: there(job.state()))
            job.stop()
        accepted = all(verdict["verdict"] == "accept" for verdict in self._verdicts()[len(tables) :])
        _figures, _compared, wrong = self.shop.compared(self.folder.events)
        for line in wrong:
            self.say(line)
        said = "RIGHT" if accepted and not wrong else "WRONG"
        self.say(f"{said}: what the repair has left behind, by the second verdicts and by a replay in SQL")
        return left is not None and mended and accepted and not wrong

    def _falsify(self) -> tuple[int, dict[str, Table]]:
        events, chance = self.folder.events, random.Random(7)
        since = newest_turn(events) - 1
        tables = look(events, self.shop.names, since)
        for table, share in zip(tables.values(), _SHARES, strict=True):
            choose(table, int(self.faults * share), chance)
        put(events, tables, since)
        kinds = Counter(kind for table in tables.values() for kind in table.faults.values())
        self.say(f"{sum(kinds.values()):,} faults put into turns up to {since}: {dict(kinds)}")
        return since, tables

    def _ask(self, job: Tidemark, kind: str, answer: str) -> None:
        names = self.shop.names
        before = len(job.said(answer))
        data = orjson.dumps({"type": kind, "data-collections": list(names)}).decode()
        statement = f"INSERT INTO {SIGNALS} VALUES ('demo-{kind}-{before}', 'execute-snapshot', '{data}')"
        with self.shop.database.connect() as connection:
            connection.execute(statement.encode())
        self.say(f"{statement};")
        begun_s = time.monotonic()
        self._until(job, lambda: len(job.said(answer)) >= before + len(names) or job.said(" rejected: "))
        for line in [*job.said(answer)[before:], *job.said(" rejected: ")]:
            self.say(f"  {line.partition(' signals: ')[2][:300] or line}")
        self.say(f"{kind}: {time.monotonic() - begun_s:.1f} s")

    def _verdicts(self) -> list[dict[str, Any]]:
        """The verdicts of verifications, in their order."""
        return [
            document
            for path in sorted((self.folder.checkpoint / DIRECTORY).glob("*.json*"))
            for line in path.read_bytes().splitlines()
            if (document := orjson.loads(line)).get("kind") == "verification"
        ]

    def _sent(self, since: int, left: int | None) -> bool:
        """Whether the repair has sent few events, tombstones apart."""
        sent = Counter(
            event["value"]["op"]
            for _turn, _part, path in part_files(self.folder.events, since, newest_turn(self.folder.events))
            for event in map(orjson.loads, path.read_bytes().splitlines())
            if event["value"] is not None
            and event["value"].get("source", {}).get("snapshot") == "incremental"
        )
        right = left is not None and 0 < sent.total() <= _MOST_SENT * left
        self.say(f"{'RIGHT' if right else 'WRONG'}: the repair has sent {dict(sent)} for {left} faults")
        return right

    def _judged(self, tables: dict[str, Table], since: int) -> int | None:
        """How many faults are left, if all of them were found, and nothing else; None: not so."""
        verdicts = self._verdicts()
        total, right = 0, len(verdicts) == len(tables)
        for verdict in verdicts:
            name = verdict["scope"]["collection"]
            wanted = expected(self.folder.events, tables[f"{PREFIX}.{name}"], since, verdict["turns"]["upto"])
            found = {kind: verdict[kind] for kind in wanted}
            # An earlier event may happen to say what the table has now.
            found["different"] += verdict["older"]
            total += sum(wanted.values())
            right = right and found == wanted
            self.say(
                f"{name}: found {found}, left {wanted}; {verdict['equal']:,} rows equal,"
                f" {verdict['changed']:,} changed"
            )
        right = right and total >= _FEWEST_LEFT * self.faults
        self.say(
            f"{'RIGHT' if right else 'WRONG'}: {total:,} faults were left, and each verdict counts its own"
        )
        return total if right else None

    @staticmethod
    def _until(job: Tidemark, condition: Any) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while not condition():
            job.check()
            if time.monotonic() > deadline:
                raise JobFailed(f"not within {_TIMEOUT_S:g} s\n{job.last_lines()}")
            time.sleep(_POLL_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo.verify", description=__doc__)
    parser.add_argument(
        "--rows", type=int, default=200_000, help="rows of orders; inventory.stock has a tenth"
    )
    parser.add_argument("--rate", type=float, default=1000, help="writes per second")
    parser.add_argument("--faults", type=int, default=10_000)
    options = parser.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="tidemark-verify-"))
    load = Load(options.rows, max(1, options.rows // 10), options.rate, 0)
    try:
        with PostgresServer(18) as server:
            shop = PostgresShop(server.create_database("shop"), (*TABLES, PAYMENTS))
            right = Demo(shop, Folder(directory), load, options.faults, Display().say).play()
    except JobFailed as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
