"""`python -m tests.golden DIR [NAME…]`: runs recorded cases and compares, a line per case.

A case whose recorded answer is wrong passes by our own answer; it is counted among the passed, and
once more as a documented difference. Exit code 1 if any case failed, 2 if there is none to run.

`--plays N` runs them until N cases were played, and prints only those that failed. `--keep DIR` keeps the
events of those.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

from tests.golden import engine_under_test
from tests.golden.case import Source, case_folders, source_of
from tests.golden.mongo_runner import MongoRunner
from tests.golden.roads import KafkaRoad, by_topic
from tests.golden.runner import Runner
from tests.golden.verdict import Order, Verdict, as_sent, chosen, summary, verdict
from tests.servers.kafka import KafkaBroker
from tests.servers.mongodb import MongoServer
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.golden.case import Case
    from tests.golden.event import Event
    from tests.golden.roads import Road


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    options = _parser().parse_intermixed_args(arguments)
    try:
        folders = chosen(case_folders(options.directory), options.names)
    except LookupError as exc:
        print(f"{exc} in {options.directory}", file=sys.stderr)
        return 2
    if not folders:
        print(f"no cases in {options.directory}", file=sys.stderr)
        return 2
    with _road(options.sink) as (road, order), _runner(options, source_of(folders[0]), road) as runner:
        if options.plays:
            plays = islice(cycle(folders), options.plays)
            verdicts = [
                _played(folder, number, runner, order, options) for number, folder in enumerate(plays)
            ]
        else:
            verdicts = [_one(folder, runner, order) for folder in folders]
    print(summary(verdicts))
    return int(any(finding.fault is not None for finding in verdicts))


@contextmanager
def _road(sink: str) -> Iterator[tuple[Road, Order]]:
    if sink == "kafka":
        with KafkaBroker() as broker:
            yield KafkaRoad(broker), by_topic
    else:
        yield engine_under_test.FILES, as_sent


@contextmanager
def _runner(options: argparse.Namespace, source: Source, road: Road) -> Iterator[Runner | MongoRunner]:
    report = _report if options.verbose else _silent
    if source is Source.MONGODB:
        with MongoServer() as mongod:
            start_mongodb = partial(engine_under_test.start_mongodb, road=road)
            yield MongoRunner(mongod, start_mongodb, options.timeout, report)
    else:
        with PostgresServer(options.version) as server:
            yield Runner(server, partial(engine_under_test.start, road=road), options.timeout, report)


def _one(folder: Path, runner: Runner | MongoRunner, order: Order) -> Verdict:
    result = verdict(folder, runner.run, order)
    print(f"{folder.name}: {result}", flush=True)
    return result


def _played(
    folder: Path, number: int, runner: Runner | MongoRunner, order: Order, options: argparse.Namespace
) -> Verdict:
    """One play of many. What differs is kept, since it may not differ again."""
    events: list[Event] = []

    def run(case: Case) -> Sequence[Event]:
        events.extend(runner.run(case))
        return events

    result = verdict(folder, run, order)
    if result.fault is not None:
        print(f"{number}: {folder.name}: {result}", flush=True)
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            lines = [json.dumps(asdict(event), ensure_ascii=False) for event in events]
            text = "\n".join([str(result), *lines, ""])
            (options.keep / f"{number:05}-{folder.name}.txt").write_text(text, "utf-8")
    return result


def _report(text: str) -> None:
    print(f"    {text}", flush=True)


def _silent(_text: str) -> None:
    pass


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("directory", metavar="DIR", type=Path, help="folder of case folders")
    parser.add_argument("names", metavar="NAME", nargs="*", help="a case, or a pattern such as 'i*'")
    parser.add_argument("--version", type=int, choices=(15, 18), default=15, help="PostgreSQL to run on (15)")
    parser.add_argument("--sink", choices=("files", "kafka"), default="files", help="where events go (files)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds to wait for the engine (60)")
    parser.add_argument("--plays", type=int, default=0, metavar="N", help="run the cases until N were played")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where to keep the events of what differs")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the database complains of")
    return parser


if __name__ == "__main__":
    sys.exit(main())
