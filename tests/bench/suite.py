"""`python -m tests.bench.suite`: all benchmarks, or those beside Debezium, into tests/bench/RESULTS.md.

Each is a process of its own, so that one that fails takes no other along. What is measured is kept in
tests/bench/results.jsonl, where a benchmark run anew takes the place of its older lines: the page is always
made from all of it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from rich.console import Console
from rich.markdown import Markdown

from tests.bench.page import page
from tests.servers.binaries import client_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FOLDER = Path(__file__).parent
_TOLD_LINES = 40
_WIDTH = 120
_PACKAGES = ("pyspark", "pyarrow", "numpy", "orjson", "psycopg", "confluent-kafka", "pymongo")


@dataclass(frozen=True, slots=True)
class Item:
    """A benchmark of the suite: its name, its module's arguments, and whether it takes `--runs`."""

    name: str
    words: str
    module: str = "tests.bench"
    repeated: bool = True

    def command(self, runs: int) -> list[str]:
        """What is run."""
        words = [sys.executable, "-m", self.module, *self.words.split()]
        return [*words, "--runs", str(runs)] if self.repeated else words


_SINKS = "--sink null files --schemas"
OURS = (
    Item("snapshot-wide", f"snapshot --table wide {_SINKS}"),
    Item("snapshot-customers", f"snapshot --table customers {_SINKS}"),
    Item("stream-wide", "stream --table wide"),
    Item("stream-customers", "stream --table customers"),
    Item("stream-single", "stream --table wide --transaction-rows 1"),
    Item("stream-whole", "stream --table wide --transaction-rows 0"),
    Item("latency", "latency"),
    Item("tables", "tables --tables 1000"),
    Item("memory", "memory", repeated=False),
    Item("initial", "initial --table wide"),
    Item("kafka", "kafka"),
    Item("mongodb-snapshot", "mongodb-snapshot"),
    Item("mongodb-stream", "mongodb-stream"),
    Item("sqlserver-snapshot", "sqlserver-snapshot"),
    Item("sqlserver-stream", "sqlserver-stream"),
    Item("verify", "verify --rows 1000000 2000000 10000000", repeated=False),
    Item("certificate", "certificate --sink files"),
)
PEERS = (
    Item("peers-postgres", "--source postgres", "tests.bench.peers"),
    Item("peers-mongodb", "--source mongodb --rows 300000", "tests.bench.peers"),
)
ITEMS = {item.name: item for item in (*OURS, *PEERS)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the items; gives 1 if one of them failed, after all the others."""
    options = parser().parse_args(arguments)
    items = [ITEMS[name] for name in options.only] or list(PEERS if options.peers else OURS)
    kept = Kept(options.folder / "results.jsonl")
    failed = []
    for item in items:
        lines, told = _run([*item.command(options.runs), *options.more])
        kept.replace(item.name, lines, _setting())
        if told is not None:
            failed.append(item.name)
            print(f"{item.name} failed after {len(lines)} lines:\n{told}", file=sys.stderr)
    text = page(kept.lines(), kept.setting())
    (options.folder / "RESULTS.md").write_text(text)
    Console(width=max(Console().width, _WIDTH)).print(Markdown(text))
    return 1 if failed else 0


def _run(command: list[str]) -> tuple[list[dict[str, Any]], str | None]:
    """The lines that a benchmark printed, shown as they come; and what it said last, if it failed."""
    lines = []
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        for text in process.stdout:
            print(text, end="", flush=True)
            if text.startswith("{"):
                lines.append(orjson.loads(text))
        if process.wait() == 0:
            return lines, None
        errors.seek(0)
        return lines, "".join(errors.readlines()[-_TOLD_LINES:])


class Kept:
    """What has been measured, an object a line: the item, when and with what, and what it printed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        texts = path.read_bytes().splitlines() if path.exists() else []
        self._records: list[dict[str, Any]] = [orjson.loads(text) for text in texts]

    def replace(self, item: str, lines: Sequence[Mapping[str, Any]], setting: Mapping[str, str]) -> None:
        """Keep an item's lines instead of those it had; nothing measured leaves what there was."""
        if not lines:
            return
        record = {"item": item, "setting": dict(setting), "lines": list(lines)}
        self._records = [record for record in self._records if record["item"] != item] + [record]
        order = {name: number for number, name in enumerate(ITEMS)}
        self._records.sort(key=lambda record: order.get(record["item"], len(order)))
        self._path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in self._records))

    def lines(self) -> list[dict[str, Any]]:
        """All lines, in the order of the suite."""
        return [line for record in self._records for line in record["lines"]]

    def setting(self) -> dict[str, str]:
        """When, where and with what; items that differ are named with theirs."""
        values: dict[str, dict[str, list[str]]] = {}
        for record in self._records:
            for name, value in record["setting"].items():
                values.setdefault(name, {}).setdefault(value, []).append(record["item"])
        return {name: _told(by_value) for name, by_value in values.items()}


def _told(by_value: dict[str, list[str]]) -> str:
    if len(by_value) == 1:
        return next(iter(by_value))
    return "; ".join(f"{value} ({', '.join(items)})" for value, items in by_value.items())


def _setting() -> dict[str, str]:
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {_processor()}, {_memory_gib()} GiB, {platform.system()}",
        "versions": f"{_first_line(client_tool('postgres'), '--version')}, {_java()},"
        f" Python {platform.python_version()}, {versions}",
        "commit": _first_line("git", "rev-parse", "--short", "HEAD"),
    }


def _processor() -> str:
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def _memory_gib() -> int:
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30)


def _java() -> str:
    """Java tells its version on the standard error."""
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return done.stderr.splitlines()[0].replace('"', "") if done.stderr else "no java"


def _first_line(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_FOLDER)
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else "unknown"


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parsed = argparse.ArgumentParser(prog="python -m tests.bench.suite", description=__doc__)
    parsed.add_argument("--peers", action="store_true", help="those beside Debezium, instead of ours")
    parsed.add_argument("--only", choices=sorted(ITEMS), nargs="+", default=[], help="some of them")
    parsed.add_argument("--runs", type=int, default=5, help="how often each is measured (5)")
    parsed.add_argument("--folder", type=Path, default=_FOLDER, help="where the page and the lines go")
    parsed.add_argument("--more", nargs=argparse.REMAINDER, default=[], help="arguments for each of them")
    return parsed


if __name__ == "__main__":
    sys.exit(main())
