"""Archives from Maven Central, fetched by the resolver inside PySpark and kept in the project's `.cache`.

A library is a set of archives with their dependencies, under one checksum. The checksum of a single archive
is left to the caller.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CACHE = Path(__file__).resolve().parents[2] / ".cache"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One archive in the repository."""

    group: str
    name: str
    version: str


def fetch(artifact: Artifact, folder: Path) -> None:
    """Fetch an archive and its dependencies into a folder, as `<name>-<version>.jar`."""
    ivy = next((package_folder("pyspark") / "jars").glob("ivy-*.jar"))
    command: list[str | Path] = ["java", "-jar", ivy, "-cache", CACHE / "ivy", "-confs", "default"]
    command += ["-dependency", artifact.group, artifact.name, artifact.version]
    command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    with one_process_at_a_time("resolver"):  # its cache is not made for several
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0 or not (folder / f"{artifact.name}-{artifact.version}.jar").exists():
        raise RuntimeError(
            f"can't fetch {artifact.name!r} from Maven Central; the resolver said: {done.stdout[-2000:]}"
        )


def library(name: str, artifacts: Iterable[Artifact], sha256: str) -> Path:
    """The folder with these archives and their dependencies, fetched once.

    `sha256` is the `digest` of the folder. Raises RuntimeError if the archives do not match it.
    """
    home = CACHE / name
    if not home.exists():
        with one_process_at_a_time(name):
            if not home.exists():  # another process may have been faster
                _fetch_library(artifacts, home, sha256)
    return home


def _fetch_library(artifacts: Iterable[Artifact], home: Path, sha256: str) -> None:
    partial = home.with_name(f"{home.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for artifact in artifacts:
        fetch(artifact, partial)
    if (found := digest(partial)) != sha256:
        raise RuntimeError(
            f"the archives in {partial.name!r} are not those that it had: their checksum is {found}"
        )
    partial.rename(home)


def digest(folder: Path) -> str:
    """One checksum over all archives of a folder."""
    lines = [
        f"{hashlib.sha256(archive.read_bytes()).hexdigest()} {archive.name}\n"
        for archive in sorted(folder.iterdir())
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@contextmanager
def one_process_at_a_time(name: str) -> Iterator[None]:
    """Hold the lock of that name, so that only one process fetches."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def package_folder(name: str) -> Path:
    """The folder of an installed package."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"package {name!r} is not installed; run make setup")
    return Path(spec.origin).parent
