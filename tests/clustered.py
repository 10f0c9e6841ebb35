"""What tests of jobs on a cluster have in common: their properties, how far they are, and what they left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import replay
from tests.demo import source
from tests.demo.tidemark import PREFIX, Folder, Tidemark

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgres import Database
    from tests.servers.spark_cluster import SparkCluster


def on_cluster(folder: Folder, cluster: SparkCluster, application: Path, **more: str) -> None:
    """Have the job of this folder run on the cluster. `__` in a name stands for a dot."""
    lines = {f"tidemark.spark.conf.{name}": value for name, value in cluster.settings.items()}
    lines |= {"tidemark.spark.master": cluster.url, "tidemark.spark.archive": str(application)}
    lines |= {name.replace("__", "."): value for name, value in more.items()}
    text = folder.properties.read_text("utf-8")
    kept = [line for line in text.splitlines() if not line.startswith("tidemark.spark.master")]
    added = [f"{name}={value}" for name, value in lines.items()]
    folder.properties.write_text("\n".join([*kept, *added, ""]), "utf-8")


def rows_read(job: Tidemark) -> int:
    """The rows that the snapshots in progress have read."""
    state = job.state()
    tables = state.snapshot.tables if state else ()
    return sum(table.progress.rows for table in tables if table.progress)


def finished(job: Tidemark) -> bool:
    """Whether nothing is left to read."""
    state = job.state()
    return state is not None and not state.snapshot.tables


def completed(job: Tidemark) -> int:
    """How many snapshots of tables the answers call complete."""
    return len(job.said(" completed: "))


def snapshot(database: Database) -> None:
    """Ask for both tables by the signal table."""
    names = ", ".join(f'"{".".join(table)}"' for table in source.TABLES)
    with database.connect() as connection:
        connection.execute(
            f"INSERT INTO {source.SIGNALS} VALUES (gen_random_uuid()::text, 'execute-snapshot', %s)".encode(),
            [f'{{"data-collections": [{names}]}}'],
        )


def until_drained(job: Tidemark, database: Database, timeout_s: float) -> None:
    """Wait until everything committed by now is sent."""
    end = database.value("SELECT pg_current_wal_insert_lsn()::text FROM pg_current_xact_id()")

    def drained() -> bool:
        with database.connect() as connection:
            query = b"SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE slot_name = %s"
            row = connection.execute(query, [end, source.SLOT]).fetchone()
        return row is not None and row[0] is True

    job.until(drained, timeout_s)


def replayed_equal(database: Database, folder: Folder) -> replay.Figures:
    """What the events are, once it is certain that they give the source."""
    with database.connect(options="-c timezone=UTC") as connection:
        shapes = {
            f"{PREFIX}.{'.'.join(table)}": replay.shape_of(connection, table) for table in source.TABLES
        }
        figures = replay.replay(connection, folder.events, shapes)
        for table in source.TABLES:
            assert replay.compare(connection, table).equal, replay.differences(connection, table)
    return figures
