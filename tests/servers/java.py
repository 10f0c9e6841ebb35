"""Compiles the tests' Java sources with Eclipse's compiler, which comes as an archive from Maven Central.

So a Java runtime without a compiler is enough. Compiled classes are kept in `.cache`, as archives are.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING

from tests.servers.maven import CACHE, Artifact, fetch, one_process_at_a_time

if TYPE_CHECKING:
    from pathlib import Path

SIMPLE_LOGGING = Artifact("org.slf4j", "slf4j-simple", "1.7.36")
"""Writes what libraries log to standard error; without it errors would be lost."""
_COMPILER = Artifact("org.eclipse.jdt", "ecj", "3.33.0")
_COMPILER_SHA256 = "f7686c4960cf70c2ebc5c500a73a8cfc04541b730c18f1c5c21329889b137f45"


def compiled(source: Path, *libraries: Path) -> str:
    """The class path for `java -cp` to run this source's class with the archives in these folders."""
    classes = CACHE / f"{source.stem}-{_mark(source, libraries)}"
    with one_process_at_a_time(classes.name):
        if not (classes / f"{source.stem}.class").exists():
            _compile(source, classes, libraries)
    return ":".join([str(classes), *(f"{folder}/*" for folder in libraries)])


@cache
def java_version() -> int:
    """The feature release of the Java on PATH."""
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    found = re.search(r'version "(\d+)', done.stderr)
    if found is None:
        raise RuntimeError(f"java -version says no version: {done.stderr[:200]!r}")
    return int(found[1])


def _mark(source: Path, libraries: tuple[Path, ...]) -> str:
    named = "".join(f"{folder.name}\n" for folder in libraries)
    return hashlib.sha256(named.encode() + source.read_bytes()).hexdigest()[:12]


def _compile(source: Path, classes: Path, libraries: tuple[Path, ...]) -> None:
    partial = classes.with_name(f"{classes.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    archives = ":".join(str(archive) for folder in libraries for archive in sorted(folder.glob("*.jar")))
    command: list[str | Path] = ["java", "-jar", _compiler(), "-17", "-nowarn", "-d", partial]
    command += [*(["-cp", archives] if archives else []), source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{source.name} does not compile: {done.stderr[-2000:]}")
    partial.rename(classes)


def _compiler() -> Path:
    jar = CACHE / f"{_COMPILER.name}-{_COMPILER.version}.jar"
    with one_process_at_a_time(_COMPILER.name):
        if not jar.exists():
            fetch(_COMPILER, CACHE)
        if hashlib.sha256(jar.read_bytes()).hexdigest() != _COMPILER_SHA256:
            jar.unlink()
            raise RuntimeError(f"{jar.name!r} does not have the checksum that this version had")
    return jar
