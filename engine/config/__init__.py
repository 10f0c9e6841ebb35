"""Settings: Debezium's properties, read and checked before any connection is made.

`read(path)` is the main entry: file in, `Settings` out, or one ConfigError with every problem. `load` and
`parse` are its two halves. `explain` says what becomes of each property. Nothing here opens a connection.
"""

from engine.config.explain import Explained, explain
from engine.config.files import load
from engine.config.parse import parse, read
from engine.config.settings import (
    CaptureSettings,
    JobSettings,
    Settings,
    SignalSettings,
    SinkKind,
    SinkSettings,
    SnapshotMode,
    SnapshotSettings,
    Watermarking,
)
from engine.config.sources import Autocreate, PostgresSettings, SchemaRefresh, SslMode

__all__ = [
    "Autocreate",
    "CaptureSettings",
    "Explained",
    "JobSettings",
    "PostgresSettings",
    "SchemaRefresh",
    "Settings",
    "SignalSettings",
    "SinkKind",
    "SinkSettings",
    "SnapshotMode",
    "SnapshotSettings",
    "SslMode",
    "Watermarking",
    "explain",
    "load",
    "parse",
    "read",
]
