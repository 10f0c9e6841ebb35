"""`python -m tests.demo`: an incremental snapshot under a live write load, compared with its source.

Exit code 0 only if the replayed events equal the source's tables; 1 if not, or if the job failed;
130 when interrupted. Nothing is left running, and the events stay in a directory that it names.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.lakehouse.settings import LakeFormat
from tests.demo.display import Display
from tests.demo.lake import LakeRoad
from tests.demo.load import Load
from tests.demo.mongodb import MongoShop
from tests.demo.postgres import PostgresShop
from tests.demo.roads import FilesRoad, KafkaRoad
from tests.demo.scene import Scene
from tests.demo.tidemark import Folder, JobFailed
from tests.servers.kafka import KafkaBroker
from tests.servers.mongodb import MissingProgram, MongoServer
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.demo.roads import Road
    from tests.demo.shop import Shop

_DEFAULT = Path("demo-events")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        folder = _folder(options.sink_dir)
    except FileExistsError as exc:
        print(exc, file=sys.stderr)
        return 2
    display = Display()
    load = Load(options.rows, max(1, options.rows // 10), options.rate, options.minutes * 60)
    try:
        with _shop(options.source) as shop, _road(options.sink) as road:
            verdict = Scene(shop, folder, load, display, road, options.initial).play()
    except MissingProgram as exc:
        print(exc, file=sys.stderr)
        return 2
    except JobFailed as exc:
        print(exc, file=sys.stderr)
        display.end(f"FAILED; the job's log is {folder.log}")
        return 1
    except KeyboardInterrupt:
        display.end("interrupted; nothing is left running")
        return 130
    display.end(f"{verdict}; events in {folder.events}")
    return 0 if verdict.equal else 1


@contextmanager
def _shop(source: str) -> Iterator[Shop]:
    if source == "postgres":
        with PostgresServer(18) as server:
            yield PostgresShop(server.create_database("shop"))
        return
    with MongoServer(cache_gb=1.0, oplog_mb=2048) as replica_set, closing(MongoShop(replica_set)) as shop:
        yield shop


@contextmanager
def _road(sink: str) -> Iterator[Road]:
    if sink == "files":
        yield FilesRoad()
        return
    if sink in set(LakeFormat):
        yield LakeRoad(LakeFormat(sink))
        return
    with KafkaBroker() as broker:
        yield KafkaRoad(broker)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _folder(chosen: Path | None) -> Folder:
    """An empty folder: a chosen one must be empty or missing, the default is made anew."""
    path = (chosen or _DEFAULT).absolute()
    if chosen is None:
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists() and any(path.iterdir()):
        raise FileExistsError(f"{path} is not empty: name another directory for the events")
    path.mkdir(parents=True, exist_ok=True)
    return Folder(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="rows of orders; inventory.stock has a tenth"
    )
    parser.add_argument("--source", choices=("postgres", "mongodb"), default="postgres")
    parser.add_argument("--rate", type=float, default=800, help="writes per second")
    parser.add_argument("--minutes", type=float, default=0, help="go on writing for this long at least")
    parser.add_argument(
        "--sink",
        choices=("files", "kafka", *LakeFormat),
        default="files",
        help="kafka: signal and events through a broker",
    )
    parser.add_argument(
        "--initial", action="store_true", help="take the snapshot before the log, instead of by a signal"
    )
    parser.add_argument("--sink-dir", type=Path, help=f"an empty directory for the events, not {_DEFAULT}/")
    return parser


if __name__ == "__main__":
    sys.exit(main())
