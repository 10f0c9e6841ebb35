"""Reading the log of a large transaction, streamed while it is open or sent at its commit, and of small ones.

`python -m tests.bench.large [ROWS]` reads with `PostgresLog` alone, so what events cost is left out. It
prints rows a second, processor seconds a million rows, this process's memory, and what the server wrote to
its disk. Reading begins before the large transactions do, and rows a second count from their commit on.
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from adapters.postgres.log.reader import PostgresLog, SessionTools
from adapters.postgres.log.stream.subscription import Start, Subscription
from adapters.system import system_clock
from engine.model import Position
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ROWS = 2_000_000
_SMALL = 1_000
_INSERT = "INSERT INTO t SELECT g, g % 7, 'row ' || g FROM generate_series(1, {rows}) g"
_SLOT = "SELECT (lsn - '0/0')::bigint FROM pg_create_logical_replication_slot(%s, 'pgoutput')"
_PAGE_BYTES = 4096


def main(arguments: Iterable[str]) -> None:
    """Print one JSON object for each way, and the ratios."""
    rows = next(map(int, arguments), _ROWS)
    with (
        tempfile.TemporaryDirectory() as directory,
        PostgresServer() as server,
        server.connect() as connection,
    ):
        connection.execute("CREATE TABLE t (id bigint, a int, b text)")
        connection.execute("CREATE PUBLICATION p FOR TABLE t")
        reader = Reader(server, Path(directory))
        rates = {
            "small": reader.read("small", [_SMALL] * (rows // _SMALL), streaming=True),
            "streamed": reader.read("streamed", [rows], streaming=True),
            "at_commit": reader.read("at_commit", [rows], streaming=False),
        }
        spilled = connection.execute(
            "SELECT slot_name, spill_bytes, stream_bytes FROM pg_stat_replication_slots ORDER BY 1"
        ).fetchall()
    for name in ("streamed", "at_commit"):
        print(f"{name}: {rates[name] / rates['small']:.2f} of the rate of small ones")
    for name, spill, stream in spilled:
        print(f"{name}: {spill >> 20} MiB on the server's disk, {stream >> 20} MiB streamed while open")


class Reader:
    """Reads transactions of a server, each kind by a slot of its own."""

    def __init__(self, server: PostgresServer, directory: Path) -> None:
        self._server, self._directory = server, directory

    def read(self, name: str, sizes: Sequence[int], *, streaming: bool) -> float:
        """Write transactions of these sizes and read them; returns rows a second and prints how that went.

        Many are written before they are read; a single one is read while it is written.
        """
        with self._server.connect() as connection, ThreadPoolExecutor(1) as writer:
            [(start,)] = connection.execute(_SLOT, (name,)).fetchall()
            written = writer.submit(write, connection, sizes)
            if len(sizes) > 1:
                wait([written])
            spent_s = time.process_time()
            log = PostgresLog(
                self._server.dsn(),
                subscription=Subscription(name, "p", streaming=streaming),
                start=Start(Position((start, 0))),
                tools=SessionTools(system_clock(), self._directory),
            )
            begun_s, rows, most = time.monotonic(), 0, 0
            while rows < sum(sizes):
                if (span := log.take(1.0)) is not None:
                    rows, most = rows + span.entries, max(most, resident())
            took_s = time.monotonic() - max(begun_s, written.result())
            log.close()
        found = {
            "read": name,
            "rows": rows,
            "per_s": round(rows / took_s),
            "cpu_s_per_million": round((time.process_time() - spent_s) * 1e6 / rows, 2),
            "memory_mib": most >> 20,
        }
        print(orjson.dumps(found).decode(), flush=True)
        return rows / took_s


def write(connection: Any, sizes: Sequence[int]) -> float:
    """Insert so many rows by each transaction; returns when the last one has committed."""
    for size in sizes:
        connection.execute(_INSERT.format(rows=size))
    return time.monotonic()


def resident() -> int:
    """This process's resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE_BYTES


if __name__ == "__main__":
    main(sys.argv[1:])
