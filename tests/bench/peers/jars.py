"""Debezium's archives from Maven Central, and our small main compiled against them."""

from __future__ import annotations

from pathlib import Path

from tests.servers.java import SIMPLE_LOGGING, compiled
from tests.servers.maven import Artifact, library

SHA256 = {
    "2.1.4.Final": "82af1a7649e3c07a2897ad69107b7817ae89fb9e745c0eee8700a9060c6a9cfe",
    "3.6.1.Final": "e9b7f52fc1b06734cd986bad76d04d40024f15b3d8e5b31a88cbf98210aa0343",
}
"""The versions measured, with a checksum over all archives of each."""
_GROUP = "io.debezium"
_NAMES = ("debezium-embedded", "debezium-connector-postgres", "debezium-connector-mongodb")
_MAIN = Path(__file__).with_name("Peer.java")


def debezium(version: str) -> Path:
    """The folder with this version's archives."""
    artifacts = (*(Artifact(_GROUP, name, version) for name in _NAMES), SIMPLE_LOGGING)
    return library(f"debezium-{version}", artifacts, SHA256[version])


def class_path(version: str) -> str:
    """What `java -cp` takes to run the class `Peer` with this version."""
    return compiled(_MAIN, debezium(version))
