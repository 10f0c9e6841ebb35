"""Tidemark's own properties, under `tidemark.`."""

from __future__ import annotations

from engine.config import http
from engine.config.properties.row import APPLIED, Property
from engine.config.properties.shapes import (
    FLAG,
    SIZE,
    SIZE_OR_NONE,
    TEXT,
    WEB_ADDRESS,
    choice,
    number,
    whole,
)
from engine.config.registry import BUILT_IN, SINKS
from engine.config.settings import (
    Certificate,
    Conditions,
    NewCollections,
    Recovery,
    SnapshotRestart,
    StagingKind,
    StateForm,
    TableErrors,
)
from engine.config.sinks import against
from engine.config.sinks.settings import Destination, SinkAhead

P = Property
_MS = whole(1, 2**31 - 1)

OWN = (
    P("tidemark.checkpoint", APPLIED, "directory or URI of the job's saved state", TEXT),
    P(
        "tidemark.state.form",
        APPLIED,
        "form of the saved state: previous, which the previous release can read, too, or current",
        choice(StateForm),
        "previous",
    ),
    P(
        "tidemark.certificate",
        APPLIED,
        "whether each completed snapshot gets a certificate of what it has read and sent",
        choice(Certificate),
        "on",
    ),
    P(
        "tidemark.staging",
        APPLIED,
        "where rows wait that were read and not yet sent: in files that driver and executors share, or on the"
        " executors; auto: files on a local master, else executors",
        choice(StagingKind),
        "auto",
    ),
    P("tidemark.staging.dir", APPLIED, "directory for data that is not committed yet", TEXT),
    P(
        "tidemark.lease.wait",
        APPLIED,
        "wait while another job holds the lease of the checkpoint or the sink; false: exit with code 3",
        FLAG,
        "true",
    ),
    P(
        "tidemark.lease.ttl.ms",
        APPLIED,
        "how long a job may fail to renew its lease before another one takes over",
        whole(200, 3_600_000),
        "6000",
    ),
    P(
        "tidemark.table.errors",
        APPLIED,
        "what to do if a table can't be streamed: set it aside alone (isolate), or stop the job (stop)",
        choice(TableErrors),
        "isolate",
    ),
    P(
        "tidemark.recovery",
        APPLIED,
        "what to do if the log is lost: stop, or begin a new log and repair what the sink holds (repair)",
        choice(Recovery),
        "stop",
    ),
    P(
        "tidemark.dead.letter.dir",
        APPLIED,
        "directory or URI for log entries of tables that are set aside",
        TEXT,
    ),
    P(
        "tidemark.dead.letter.max.bytes",
        APPLIED,
        "limit for the kept log entries of tables that are set aside; entries beyond it are only counted",
        SIZE,
        "1g",
    ),
    P("tidemark.sink", APPLIED, "where events go", choice(tuple(BUILT_IN[SINKS])), "files"),
    P(
        "tidemark.sink.ahead",
        APPLIED,
        "what to do if the sink holds turns that the checkpoint does not know: refuse to start, or send"
        " everything since the checkpoint again (repeat)",
        choice(SinkAhead),
        "refuse",
    ),
    P(
        "tidemark.destination",
        APPLIED,
        "whether events go to the same place as before, or to another prefix, sink, cluster or directory"
        " (moved)",
        choice(Destination),
        "same",
    ),
    *against.ROWS,
    P("tidemark.spark.master", APPLIED, "Spark's master, unless spark-submit sets it", TEXT),
    P(
        "tidemark.spark.archive",
        APPLIED,
        "path or URI of the archive that tidemark package made for a cluster's executors; without it, each"
        " start makes one; none: the application is installed on the executors",
        TEXT,
    ),
    P(
        "tidemark.spark.stalled.ms",
        APPLIED,
        "how long tasks on a cluster may run without any progress before they are cancelled and repeated;"
        " 0: for ever",
        whole(0, 2**31 - 1),
        "600000",
    ),
    P("tidemark.spark.conf.<option>", APPLIED, "any Spark setting", TEXT),
    P(
        "tidemark.window.seconds",
        APPLIED,
        "how long a window of an incremental snapshot should take",
        number(0.05, 3600),
        "2",
    ),
    P(
        "tidemark.window.max.bytes",
        APPLIED,
        "greatest size of one window's rows; 0: 256m, or 64m for each core of the executors if that is more",
        SIZE_OR_NONE,
        "0",
    ),
    P(
        "tidemark.window.max.chunks",
        APPLIED,
        "greatest number of chunks in one window; 0: no limit",
        whole(0, 2**31 - 1),
        "0",
    ),
    P(
        "tidemark.span.max.rows",
        APPLIED,
        "greatest number of log entries in one turn",
        whole(1, 2**31 - 1),
        "200000",
    ),
    P("tidemark.span.max.bytes", APPLIED, "greatest size of the log taken in one turn", SIZE, "64m"),
    P(
        "tidemark.snapshot.restart",
        APPLIED,
        "what to do with an interrupted initial snapshot: go on with it (resume), or start over (redo)",
        choice(SnapshotRestart),
        "resume",
    ),
    P(
        "tidemark.signals.max.queued",
        APPLIED,
        "how many table snapshots signals may queue; further ones are rejected",
        whole(1, 2**31 - 1),
        "10000",
    ),
    P(
        "tidemark.signals.blocking",
        APPLIED,
        "accept signals for blocking snapshots, which make the stream wait",
        FLAG,
        "true",
    ),
    P(
        "tidemark.snapshot.max.rows.per.second",
        APPLIED,
        "how many rows per second all snapshots together may read; 0: no limit",
        whole(),
        "0",
    ),
    P(
        "tidemark.snapshot.max.bytes.per.second",
        APPLIED,
        "how many bytes of staged rows per second all snapshots together may read; 0: no limit",
        SIZE_OR_NONE,
        "0",
    ),
    P(
        "tidemark.max.lag.ms",
        APPLIED,
        "no window opens while the stream lags further behind than this",
        _MS,
        "5000",
    ),
    P(
        "tidemark.snapshot.conditions",
        APPLIED,
        "conditions that signals may use: expressions over the table's columns; sql: any SQL, so anything"
        " that the job's role may read or run; off: none",
        choice(Conditions),
        "expressions",
    ),
    P(
        "tidemark.snapshot.new",
        APPLIED,
        "which tables the job reads by itself while it streams: tables: those that are newly captured;"
        " columns: also those with a new column that has a default; off: none",
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
