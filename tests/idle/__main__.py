"""Leave a job alone for an hour, then write a row, and see that it comes at once.

    python -m tests.idle [--minutes 60] [--fencing none]

The job streams from a database that nobody writes to into a broker that closes idle connections after ten
minutes, as brokers do by default, and forgets idle producers sooner than that. Ends with 1 unless the row is
in its topic once, within 10 seconds, and the job has complained of nothing meanwhile.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.kafka.settings import Fencing
from tests.command import Command
from tests.driven import SIGNAL_TABLE, properties
from tests.servers.kafka import KafkaBroker
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from tests.servers.postgres import Database

_TOPIC = "tm.public.t"
_AT_ONCE_S = 10.0
_IDLE = {
    "connections.max.idle.ms": "600000",
    # A producer that the broker has forgotten must not fail with its next record.
    "producer.id.expiration.ms": "300000",
    "producer.id.expiration.check.interval.ms": "60000",
    "transactional.id.expiration.ms": "300000",
}


def insert(database: Database, id_: int) -> None:
    """Insert a row into the table that the job streams."""
    with database.connect() as connection:
        connection.execute("INSERT INTO t VALUES (%s)", [id_])


def idle(database: Database, broker: KafkaBroker, minutes: float, fencing: str, folder: Path) -> list[str]:
    """Play it; gives what was wrong."""
    with database.connect() as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute(SIGNAL_TABLE)
    said = properties(
        database,
        folder,
        tidemark__sink="kafka",
        producer__bootstrap__servers=broker.bootstrap,
        tidemark__sink__kafka__fencing=fencing,
    )
    with Command(said, folder) as job:
        job.until_said("reading the log from")
        insert(database, 1)
        job.until(lambda: broker.partitions(_TOPIC) and broker.count(_TOPIC))
        before = job.log
        time.sleep(minutes * 60)
        insert(database, 2)
        took_s = job.until(lambda: len(broker.records(_TOPIC)) > 1)
        said_meanwhile = job.log[len(before) :].splitlines()
        found = [record.key() for record in broker.records(_TOPIC)]
    print(f"idle for {minutes:g} minutes, fencing {fencing}: the next row came after {took_s:.2f} s")
    complaints = [line for line in said_meanwhile if "WARN" in line or "ERROR" in line]
    wrong = [f"the job said: {line}" for line in complaints]
    if took_s > _AT_ONCE_S:
        wrong.append(f"the row took {took_s:.1f} s")
    if found != [b'{"id":1}', b'{"id":2}']:
        wrong.append(f"the topic holds {found}")
    return wrong


def main() -> int:
    """Play it with servers of its own."""
    parser = argparse.ArgumentParser(description="leave a job alone, and see that it goes on")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument(
        "--fencing", choices=[fencing.value for fencing in Fencing], default=Fencing.NONE.value
    )
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        PostgresServer(18, settings={"wal_level": "logical"}) as server,
        KafkaBroker(_IDLE) as broker,
    ):
        wrong = idle(server.create_database("idle"), broker, given.minutes, given.fencing, Path(folder))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
