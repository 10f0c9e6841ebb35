"""Settings: Debezium's properties, read and checked before any connection is made.

`read(path)` is the main entry: file in, `Settings` out, or one ConfigError with every problem. `load` and
`parse` are its two halves. `explain` says what becomes of each property. Nothing here opens a connection.
"""

from engine.config.explain import Explained, explain
from engine.config.parse import parse, read
from engine.config.settings import (
    JobSettings,
    Settings,
    SignalSettings,
    SnapshotMode,
    SnapshotSettings,
    Watermarking,
)
from engine.config.sinks.settings import SinkSettings
from engine.config.sources.selection import CaptureSettings
from engine.config.text.files import load

__all__ = [
    "CaptureSettings",
    "Explained",
    "JobSettings",
    "Settings",
    "SignalSettings",
    "SinkSettings",
    "SnapshotMode",
    "SnapshotSettings",
    "Watermarking",
    "explain",
    "load",
    "parse",
    "read",
]
