"""The Java libraries whose readers are asked, each with all that it needs, from Maven Central."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.peers.jars import debezium
from tests.servers.java import SIMPLE_LOGGING
from tests.servers.maven import Artifact, library

if TYPE_CHECKING:
    from pathlib import Path

_KAFKA = "org.apache.kafka"
_CONVERTERS = {
    "3.3.1": "a6647456081df4d10e6b73d6a0f62f58386f6ede9e0ed46e4e143ddb74aceba5",
    "4.3.1": "d75671edb2843ec5af8751754769e382c9e0870daf944e0ca6f4dc93f02270c1",
}
"""Kafka's JsonConverter: that of Debezium 2.1.4, and today's."""
CONVERTERS = tuple(_CONVERTERS)
TRANSFORMS = ("2.1.4.Final", "3.6.1.Final")
"""Versions of Debezium whose transformations are asked."""
_SINK = (
    Artifact(_KAFKA, "connect-runtime", "4.1.1"),
    Artifact(_KAFKA, "connect-json", "4.1.1"),
    Artifact("io.debezium", "debezium-connector-jdbc", "3.5.0.Final"),
    SIMPLE_LOGGING,
)
"""The sink with the version of Kafka Connect that it was built with."""
_SINK_SHA256 = "b2206f1a1d88bffb45b96a7355c1a7e2ec45de67181fe32e5461091c0d0699d6"
_FLINK = "1.20.1"
_FLINK_PARTS = (
    *("flink-table-api-java-bridge", "flink-table-planner-loader", "flink-table-runtime"),
    *("flink-clients", "flink-json", "flink-connector-files"),
)
_FLINK_SHA256 = "bdd8c42dfd71004affdff9bd1de48638a5d31b4809d0b46ae6460248ebcc9170"


def converters(version: str) -> Path:
    """Kafka's JsonConverter and header converters."""
    artifacts = (Artifact(_KAFKA, "connect-json", version), SIMPLE_LOGGING)
    return library(f"connect-json-{version}", artifacts, _CONVERTERS[version])


def transforms(version: str) -> Path:
    """Debezium's transformations, and Kafka's converters of their time."""
    return debezium(version)


def jdbc_sink() -> Path:
    """Kafka Connect with Debezium's JDBC sink."""
    return library("debezium-jdbc-3.5.0.Final", _SINK, _SINK_SHA256)


def flink() -> Path:
    """Flink with its planner, its local cluster, and the format debezium-json."""
    parts = [Artifact("org.apache.flink", name, _FLINK) for name in _FLINK_PARTS]
    jackson = Artifact("com.fasterxml.jackson.core", "jackson-databind", "2.14.2")
    return library(f"flink-{_FLINK}", (*parts, jackson, SIMPLE_LOGGING), _FLINK_SHA256)
