"""Where what waits is kept: chosen by the master.

    master          rows of windows, entries of spans       what tasks write for the sink
    ──────────────  ──────────────────────────────────────  ─────────────────────────────────
    local           files of one machine                    files, in the sink's directory
    any other       on the executors, shipped by Spark      returned to the driver, which writes

`tidemark.staging` forces one of the two: files where all machines of a cluster share `tidemark.staging.dir`
and the sink's directory, or executors on one machine, for a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from adapters.kafka.beside.senders import ExecutorSenders, ProcessSenders
from adapters.sinks.driver_sink import DriverSink, RowsDriverSink
from adapters.source.assembly.job_sink import wiring_of
from adapters.spark.block_executors import BlockExecutors
from adapters.spark.cluster.preflight import Requirements
from adapters.spark.executors import SparkExecutors, ThreadExecutors
from adapters.spark.pools import SENDS
from adapters.staging.executor_blocks import ExecutorBlocks
from adapters.staging.file_blocks import FileBlocks
from adapters.storage.workspace import staging_base
from engine.config.settings import StagingKind
from engine.ports.sink import TakesRows
from engine.staging.rows import StagingArea

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from adapters.kafka.beside.senders import Senders
    from engine.config.settings import Settings
    from engine.ports.executors import Executors
    from engine.ports.sink import Sink
    from engine.staging.port import BlockStore


@dataclass(frozen=True, slots=True)
class Staging:
    """How a job stages.

    `spans` is for the entries of spans, which `encoders` decode. `emitters` pass staged rows to the sink,
    whose own tasks run on `senders`. `row_senders` makes those who send so many runs at once beside the
    turns.
    """

    spans: BlockStore
    encoders: Executors
    emitters: Executors
    senders: Executors
    shared_disk: bool
    row_senders: Callable[[int], Senders]

    def sink(self, sink: Sink, *, stores: bool = True) -> Sink:
        """The sink as the job uses it. One that `stores` nothing may be written to from anywhere."""
        if self.shared_disk or not stores:
            return sink
        return RowsDriverSink(sink) if isinstance(sink, TakesRows) else DriverSink(sink)

    def windows(self, sink: Sink) -> StagingArea:
        """Where the rows of windows wait for this sink."""
        if isinstance(self.spans, FileBlocks):
            directory = sink.row_form.directory or self.spans.directory
            return StagingArea(FileBlocks(directory), sink.row_form)
        # Changes wait for rows that go beside the turns, so the driver must know which rows these are.
        beside = isinstance(sink, TakesRows) and sink.takes_rows
        return StagingArea(self.spans.within("windows"), sink.row_form, hashes=beside)


def staging_of(kind: StagingKind, spark: SparkSession, directory: str, tasks: int) -> Staging:
    """How a job on this session stages; files go below `directory`."""
    local = (spark.sparkContext.master or "").startswith("local")
    driver = ThreadExecutors(tasks)
    if kind is StagingKind.FILES or (kind is StagingKind.AUTO and local):
        # On one machine the driver passes rows on, since tasks may hold all slots.
        anywhere, senders = SparkExecutors(spark), SparkExecutors(spark, SENDS)
        emitters = driver if local else anywhere
        files = FileBlocks(directory)
        row_senders = ProcessSenders if local else partial(ExecutorSenders, senders)
        return Staging(files, anywhere, emitters, senders, shared_disk=True, row_senders=row_senders)
    executors = BlockExecutors(spark)
    row_senders = partial(ExecutorSenders, BlockExecutors(spark, SENDS))
    return Staging(ExecutorBlocks(), executors, executors, driver, shared_disk=False, row_senders=row_senders)


def asked_of(settings: Settings, servers: Sequence[tuple[str, int]]) -> Requirements:
    """What executors must have for a job that reads from these servers."""
    shared_disk = settings.job.staging_kind is StagingKind.FILES
    sink = wiring_of(settings.sink).asks(settings.sink.own, shared_disk)
    staging = staging_base(settings.job) if shared_disk else None
    return Requirements(
        (*(("the database", host, port) for host, port in servers), *sink.addresses),
        (*([("tidemark.staging.dir", staging)] if staging else ()), *sink.directories),
    )
