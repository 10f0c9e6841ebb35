"""The jars of the image, Spark's own and the JDBC drivers, as CycloneDX components.

Java packages say in `META-INF/maven` what they are. Where a jar says nothing, or bundles others, its file's
name tells; its group is then the one among the bundled that has the same artifact, or unknown.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pyspark

from adapters.spark.session import POSTGRES_JDBC, SQLSERVER_JDBC

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVERS = (POSTGRES_JDBC, SQLSERVER_JDBC)
LZ4 = "at.yawk.lz4:lz4-java:1.14.0"
"""Takes the place of Spark's lz4-java in the image."""
TAKEN_OUT = ("lz4-java-1.8.0.jar", "derby*-10.16.1.1.jar")
"""Patterns of Spark's jars that the image lacks."""
_PROPERTIES = re.compile(r"META-INF/maven/([^/]+)/([^/]+)/pom\.properties")
_VERSION = re.compile(r"^version=(\S+)", re.MULTILINE)
_NAME = re.compile(r"(?P<artifact>.+?)-(?P<version>\d.*)")


@dataclass(frozen=True, slots=True, order=True)
class Jar:
    """A Maven package; `group` is empty where nothing tells it, `sha256` where the file was not at hand."""

    group: str
    artifact: str
    version: str
    sha256: str = ""

    @property
    def purl(self) -> str:
        """Its package URL."""
        group = f"{self.group}/" if self.group else ""
        return f"pkg:maven/{group}{self.artifact}@{self.version}"

    def component(self) -> dict[str, Any]:
        """It in the words of CycloneDX."""
        found = {"type": "library", "name": self.artifact, "version": self.version, "purl": self.purl}
        group = {"group": self.group} if self.group else {}
        hashes = {"hashes": [{"alg": "SHA-256", "content": self.sha256}]} if self.sha256 else {}
        return {"bom-ref": self.purl, **found, **group, **hashes}


def jars() -> list[Jar]:
    """What the job runs on in the image; each once."""
    folder = Path(pyspark.__file__).parent / "jars"
    added = {Jar(*package.split(":")) for package in (*DRIVERS, LZ4)}
    kept = set(folder.glob("*.jar")) - {path for pattern in TAKEN_OUT for path in folder.glob(pattern)}
    there = {jar for path in kept for jar in packages(path)}
    by_purl = {jar.purl: jar for jar in sorted(there | added)}  # a jar itself is after a bundled one
    return sorted(by_purl.values())


def packages(path: Path) -> Iterator[Jar]:
    """The packages that a jar holds: itself, and what is bundled in it."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    named = _NAME.fullmatch(path.stem)
    artifact, version = (named["artifact"], named["version"]) if named else (path.stem, "0")
    with ZipFile(path) as content:
        told = [*_told(content)]
    own = [jar for jar in told if jar.artifact == artifact]
    yield Jar(own[0].group if own else "", artifact, version, digest)
    yield from (jar for jar in told if jar.artifact != artifact)


def _told(content: ZipFile) -> Iterator[Jar]:
    for name in content.namelist():
        found = _PROPERTIES.fullmatch(name)
        version = _VERSION.search(content.read(name).decode()) if found else None
        if found and version:
            yield Jar(found[1], found[2], version[1])
