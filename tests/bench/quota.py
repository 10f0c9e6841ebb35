"""A snapshot over a slow link: what arrives, how often, and how the job tells of it.

`python -m tests.bench.quota` reads 20,000 rows of 1 KB into a Kafka topic that takes 100 kB a second from the
job. That takes about six minutes, far longer than `delivery.timeout.ms` (30 s). Every row should arrive once.
"""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

import orjson

from adapters.spark.session import POSTGRES_JDBC, spark_session
from tests.driven import SIGNAL_TABLE, driven
from tests.servers.kafka import KafkaBroker
from tests.servers.postgres import PostgresServer

_ROWS = 20_000
_BYTES_PER_S = 100_000
_LONGEST_S = 1_800.0
_CLIENT = "slow"


class _Progress(logging.Handler):
    """Counts the lines that tell of a turn's progress."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count a line."""
        self.lines += "events sent" in record.getMessage()


def main() -> None:
    """Print the rows, the records of the topic, and how long it took."""
    spark = spark_session("local[2]", {}, (POSTGRES_JDBC,))
    told = _Progress()
    logging.getLogger("adapters").setLevel(logging.INFO)
    logging.getLogger("adapters").addHandler(told)
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-quota-") as place,
        PostgresServer() as server,
        KafkaBroker() as broker,
    ):
        database = server.create_database("quota")
        with database.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            connection.execute("CREATE TABLE wide (id int PRIMARY KEY, v text)")
            connection.execute(
                "INSERT INTO wide SELECT g, (SELECT string_agg(md5(g || ' ' || n), '')"
                f" FROM generate_series(1, 32) n) FROM generate_series(1, {_ROWS}) g".encode()
            )
        broker.slow_down(_CLIENT, _BYTES_PER_S)
        more = {
            "topic__prefix": database.name,
            "tidemark__sink": "kafka",
            "producer__bootstrap__servers": broker.bootstrap,
            "producer__client__id": _CLIENT,
        }
        with driven(database, Path(place), spark, **more) as job:
            begun_s = time.monotonic()
            data = orjson.dumps({"data-collections": ["public.wide"]}).decode()
            with database.connect() as connection:
                connection.execute("INSERT INTO signals VALUES ('1', 'execute-snapshot', %s)", [data])
            job.until(lambda: job.answered("finished"), _LONGEST_S)
            seconds = time.monotonic() - begun_s
        records = broker.count(f"{database.name}.public.wide")
    line = {"bench": "quota", "rows": _ROWS, "bytes_per_s": _BYTES_PER_S, "records": records}
    print(orjson.dumps(line | {"seconds": round(seconds), "progress_lines": told.lines}).decode())
    spark.stop()


if __name__ == "__main__":
    main()
