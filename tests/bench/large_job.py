"""A whole job beside a transaction of 20 million rows, and beside small ones: its rate and its memory.

`python -m tests.bench.large_job [ROWS]` streams into the null sink. Rows a second count from the last commit
on, or from the beginning of reading if that came later. Memory is this process's, sampled as it reads.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from adapters.spark.session import POSTGRES_JDBC, spark_session
from tests.bench.large import resident, write
from tests.driven import SIGNAL_TABLE, Driven, driven
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.servers.postgres import Database

_ROWS = 20_000_000
_SMALL, _SMALL_ROWS = 1_000, 2_000_000
_LONGEST_S = 1_200.0


def main(arguments: Iterable[str]) -> None:
    """Print one JSON object for small transactions and one for the large one, and what the server spilled."""
    rows = next(map(int, arguments), _ROWS)
    spark = spark_session("local[2]", {}, (POSTGRES_JDBC,))
    with tempfile.TemporaryDirectory(prefix="tidemark-large-") as place, PostgresServer() as server:
        database = server.create_database("large")
        with database.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            connection.execute("CREATE TABLE t (id bigint, a int, b text)")
        with driven(database, Path(place), spark, tidemark__sink="null") as job:
            small = streamed(database, job, "small", [_SMALL] * (_SMALL_ROWS // _SMALL))
            large = streamed(database, job, "large", [rows])
        with database.connect() as connection:
            statement = "SELECT spill_bytes, stream_bytes FROM pg_stat_replication_slots"
            [(spill, stream)] = connection.execute(statement).fetchall()
    print(f"large: {large / small:.2f} of the rate of small ones")
    print(f"{spill >> 20} MiB on the server's disk, {stream >> 20} MiB streamed while open")
    spark.stop()


def streamed(database: Database, job: Driven, name: str, sizes: Sequence[int]) -> float:
    """Stream transactions of these sizes. A single one is read while it is written, others afterwards."""
    committed: list[float] = []
    with database.connect() as connection:
        writer = threading.Thread(target=lambda: committed.append(write(connection, sizes)))
        writer.start()
        if len(sizes) > 1:
            writer.join()
        spent_s, begun_s, before, most = time.process_time(), time.monotonic(), resident(), 0
        while writer.is_alive():
            job.job.turn()
            most = max(most, resident())
        writer.join()
    target: list[int] = []
    with database.connect() as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0' FROM pg_current_xact_id()")
        target += [int(found[0]) for found in row.fetchall()]

    def drained() -> bool:
        nonlocal most
        most = max(most, resident())
        position = job.job.state.position
        return position is not None and int(position.order[0]) >= target[0]

    job.until(drained, _LONGEST_S)
    took_s = time.monotonic() - max(begun_s, committed[0])
    rate = sum(sizes) / took_s
    found = {
        "streamed": name,
        "rows": sum(sizes),
        "per_s": round(rate),
        "driver_cpu_s_per_million": round((time.process_time() - spent_s) * 1e6 / sum(sizes), 2),
        "memory_mib": most >> 20,
        "more_than_before_mib": (most - before) >> 20,
    }
    print(orjson.dumps(found).decode(), flush=True)
    return rate


if __name__ == "__main__":
    main(sys.argv[1:])
