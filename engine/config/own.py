"""Tidemark's own properties, under `tidemark.`."""

from __future__ import annotations

from dataclasses import replace

from engine.config import http
from engine.config.properties.expression_shapes import EXPRESSIONS
from engine.config.properties.row import APPLIED, IGNORED, Property
from engine.config.properties.shapes import (
    FILE_MODE,
    FLAG,
    SIZE,
    SIZE_OR_NONE,
    TEXT,
    WEB_ADDRESS,
    choice,
    number,
    subset,
    whole,
)
from engine.config.settings import (
    Certificate,
    Conditions,
    GeneratedColumns,
    NewCollections,
    Recovery,
    SnapshotRestart,
    StagingKind,
    StateForm,
    TableErrors,
)
from engine.config.sinks import against, jdbc, lake
from engine.config.sinks.settings import Destination, Fencing, SinkAhead, SinkKind, TopicRecreated
from engine.events.settings import Fault

P = Property
_MS = whole(1, 2**31 - 1)

_SHARED = (
    P("tidemark.checkpoint", APPLIED, "directory or URI of the job's saved state", TEXT),
    P(
        "tidemark.state.form",
        APPLIED,
        "form of the saved state: one that the previous release reads, too, or the current one",
        choice(StateForm),
        "previous",
    ),
    P(
        "tidemark.certificate",
        APPLIED,
        "whether each snapshot that ends gets a certificate of what it has read and sent",
        choice(Certificate),
        "on",
    ),
    P(
        "tidemark.staging",
        APPLIED,
        "where rows wait: in files that all share, or on the executors; auto: files on a local master, else"
        " executors",
        choice(StagingKind),
        "auto",
    ),
    P("tidemark.staging.dir", APPLIED, "directory for what is not yet committed", TEXT),
    P(
        "tidemark.lease.wait",
        APPLIED,
        "stand by while another job holds the checkpoint or the sink; false: leave with exit code 3",
        FLAG,
        "true",
    ),
    P(
        "tidemark.lease.ttl.ms",
        APPLIED,
        "how long a job may be silent before another one takes over",
        whole(200, 3_600_000),
        "6000",
    ),
    P(
        "tidemark.table.errors",
        APPLIED,
        "a table that can't be streamed is set aside alone (isolate), or stops the job (stop)",
        choice(TableErrors),
        "isolate",
    ),
    P(
        "tidemark.recovery",
        APPLIED,
        "once the log is lost: stop, or begin a new log and repair what the sink holds (repair)",
        choice(Recovery),
        "stop",
    ),
    P(
        "tidemark.dead.letter.dir",
        APPLIED,
        "directory or URI for entries of tables that are set aside",
        TEXT,
    ),
    P(
        "tidemark.dead.letter.max.bytes",
        APPLIED,
        "entries of tables that are set aside, at most; more are counted only",
        SIZE,
        "1g",
    ),
    P("tidemark.sink", APPLIED, "where events go", choice(SinkKind), "files"),
    P("tidemark.sink.files.dir", APPLIED, "directory of the sink files", TEXT),
    P(
        "tidemark.sink.files.mode",
        APPLIED,
        "mode of committed files, as 0640; empty: as the umask says",
        FILE_MODE,
    ),
    P(
        "tidemark.sink.ahead",
        APPLIED,
        "what to do where the sink holds turns that the checkpoint does not know",
        choice(SinkAhead),
        "refuse",
    ),
    P(
        "tidemark.destination",
        APPLIED,
        "whether events go where those before went, or to another prefix, sink, cluster or directory",
        choice(Destination),
        "same",
    ),
    P(
        "tidemark.sink.topic.recreated",
        APPLIED,
        "what to do where a Kafka topic, or a sink's table, is recreated: its table is reported incomplete",
        choice(TopicRecreated),
        "warn",
    ),
    P(
        "tidemark.sink.kafka.fencing",
        APPLIED,
        "what keeps a job that was replaced from sending more: nothing but its lease, or transactions",
        choice(Fencing),
        "none",
    ),
    P(
        "tidemark.sink.kafka.dead.letter.topic",
        APPLIED,
        "topic for records that are too large for theirs; without it their table is set aside",
        TEXT,
    ),
    *jdbc.ROWS,
    *against.ROWS,
    *lake.ROWS,
    P("tidemark.spark.master", APPLIED, "Spark's master, where spark-submit does not say", TEXT),
    P(
        "tidemark.spark.archive",
        APPLIED,
        "path or URI of what tidemark package has made, for a cluster's executors; without it, it is made at"
        " every start; none: they have it installed",
        TEXT,
    ),
    P(
        "tidemark.spark.stalled.ms",
        APPLIED,
        "how long tasks on a cluster may run while nothing comes of them, until their work is done again;"
        " 0: for ever",
        whole(0, 2**31 - 1),
        "600000",
    ),
    P("tidemark.spark.conf.<option>", APPLIED, "any setting of Spark", TEXT),
    P(
        "tidemark.window.seconds",
        APPLIED,
        "how long a window of an incremental snapshot should take",
        number(0.05, 3600),
        "2",
    ),
    P("tidemark.window.max.bytes", APPLIED, "rows of one window, at most", SIZE, "256m"),
    P(
        "tidemark.window.max.chunks",
        APPLIED,
        "chunks of one window, at most; 0: no bound",
        whole(0, 2**31 - 1),
        "0",
    ),
    P(
        "tidemark.span.max.rows",
        APPLIED,
        "entries of the log in one turn, at most",
        whole(1, 2**31 - 1),
        "200000",
    ),
    P("tidemark.span.max.bytes", APPLIED, "bytes of the log in one turn, at most", SIZE, "64m"),
    P(
        "tidemark.snapshot.restart",
        APPLIED,
        "what becomes of an initial snapshot that was interrupted",
        choice(SnapshotRestart),
        "resume",
    ),
    P(
        "tidemark.signals.max.queued",
        APPLIED,
        "snapshots of tables that signals may queue; more are rejected",
        whole(1, 2**31 - 1),
        "10000",
    ),
    P(
        "tidemark.signals.blocking",
        APPLIED,
        "take signals for blocking snapshots, for which the stream waits",
        FLAG,
        "true",
    ),
    P(
        "tidemark.snapshot.max.rows.per.second",
        APPLIED,
        "rows that all snapshots together read per second, at most; 0: no limit",
        whole(),
        "0",
    ),
    P(
        "tidemark.snapshot.max.bytes.per.second",
        APPLIED,
        "bytes of staged rows that all snapshots together read per second, at most; 0: no limit",
        SIZE_OR_NONE,
        "0",
    ),
    P("tidemark.max.lag.ms", APPLIED, "no window opens while the stream is further behind", _MS, "5000"),
    P(
        "tidemark.snapshot.conditions",
        APPLIED,
        "conditions of signals: expressions over the table's columns; sql: anything that the job's role may"
        " read or run; off: none",
        choice(Conditions),
        "expressions",
    ),
    P(
        "tidemark.snapshot.new",
        APPLIED,
        "tables that are captured only since the job runs: tables: their rows are read; columns: so are those"
        " of tables with a new column that has a default; off: nothing is done",
        choice(NewCollections),
        "tables",
    ),
    P(
        "tidemark.notification.webhook.url",
        APPLIED,
        "where the notification channel webhook posts each notification as JSON",
        WEB_ADDRESS,
    ),
    P("tidemark.progress.interval.ms", APPLIED, "how often progress is logged", _MS, "5000"),
    *http.ROWS,
)
_POSTGRES = (
    P(
        "tidemark.window.local.rows",
        APPLIED,
        "rows of a window that the driver reads itself, without a Spark job, at most; 0: none",
        whole(0, 2**31 - 1),
        "10000",
    ),
    P(
        "tidemark.snapshot.accept.risk",
        APPLIED,
        "tables that are snapshotted though their log may lack changes",
        EXPRESSIONS,
    ),
    P(
        "tidemark.snapshot.generated.columns",
        APPLIED,
        "PostgreSQL's generated columns that rows read have: the published ones, or all that are stored",
        choice(GeneratedColumns),
        "published",
    ),
    P(
        "tidemark.log.streaming",
        APPLIED,
        "receive large transactions while they are open, from version 14 on",
        FLAG,
        "true",
    ),
    P("tidemark.wal.warn.bytes", APPLIED, "log kept for the slot, above which is warned", SIZE, "10g"),
    P(
        "tidemark.keep.debezium.faults",
        APPLIED,
        "what Debezium 2.1.4 garbles in a stream and consumers depend on: names that are not ASCII, defaults"
        " with quotes or keywords, texts (name and ltree columns are null), intervals, arrays, scales",
        subset(tuple(Fault), everything="all"),
    ),
)
OWN_OF_POSTGRES = (*_SHARED, *_POSTGRES)
OWN_OF_OTHERS = (*_SHARED, *(replace(row, kind=IGNORED, text="PostgreSQL's alone") for row in _POSTGRES))
