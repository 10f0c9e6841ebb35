"""Debezium's archives from Maven Central, and our small main compiled against them.

Fetched once, kept below `.cache`. Eclipse's compiler is an archive too, so that a Java without a compiler
is enough.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.servers.maven import CACHE, Artifact, fetch, one_process_at_a_time

SHA256 = {
    "2.1.4.Final": "82af1a7649e3c07a2897ad69107b7817ae89fb9e745c0eee8700a9060c6a9cfe",
    "3.6.1.Final": "e9b7f52fc1b06734cd986bad76d04d40024f15b3d8e5b31a88cbf98210aa0343",
}
"""The versions measured, with a checksum over all archives of each."""
_GROUP = "io.debezium"
_NAMES = ("debezium-embedded", "debezium-connector-postgres", "debezium-connector-mongodb")
_LOGGING = Artifact("org.slf4j", "slf4j-simple", "1.7.36")  # else its errors would be lost
_COMPILER = Artifact("org.eclipse.jdt", "ecj", "3.33.0")
_COMPILER_SHA256 = "f7686c4960cf70c2ebc5c500a73a8cfc04541b730c18f1c5c21329889b137f45"
_MAIN = Path(__file__).with_name("Peer.java")


def class_path(version: str) -> str:
    """What `java -cp` takes to run the class `Peer` with this version."""
    with one_process_at_a_time("debezium"):
        home = CACHE / f"debezium-{version}"
        if not home.exists():
            _fetch(version, home)
        return f"{_compiled(version, home)}:{home}/*"


def _fetch(version: str, home: Path) -> None:
    partial = home.with_name(f"{home.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for artifact in (*(Artifact(_GROUP, name, version) for name in _NAMES), _LOGGING):
        fetch(artifact, partial)
    if _digest(partial) != SHA256[version]:
        raise RuntimeError(f"the archives in {partial.name!r} are not those that this version had")
    partial.rename(home)


def _compiled(version: str, home: Path) -> Path:
    """The folder with the compiled main; made anew when its source has changed."""
    mark = hashlib.sha256(_MAIN.read_bytes()).hexdigest()[:12]
    classes = CACHE / f"debezium-{version}-main-{mark}"
    if not (classes / "Peer.class").exists():
        needed = ":".join(str(jar) for jar in sorted(home.glob("*.jar")))
        command: list[str | Path] = [
            "java",
            "-jar",
            _compiler(),
            "-17",
            "-nowarn",
            "-cp",
            needed,
            "-d",
            classes,
            _MAIN,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{_MAIN.name} does not compile with {version}: {done.stderr[-2000:]}")
    return classes


def _compiler() -> Path:
    jar = CACHE / f"{_COMPILER.name}-{_COMPILER.version}.jar"
    if not jar.exists():
        fetch(_COMPILER, CACHE)
    if hashlib.sha256(jar.read_bytes()).hexdigest() != _COMPILER_SHA256:
        jar.unlink()
        raise RuntimeError(f"{jar.name!r} does not have the checksum that this version had")
    return jar


def _digest(folder: Path) -> str:
    lines = [
        f"{hashlib.sha256(archive.read_bytes()).hexdigest()} {archive.name}\n"
        for archive in sorted(folder.iterdir())
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
