"""The archive of the application: our packages and what they need, for executors that have only Python.

Spark ships it to every executor and unpacks it there, and Python finds it by its path. It holds the files of
the installed distributions as they are, so executors need the driver's platform and version of Python. Spark
itself is not in it: a cluster has its own.
"""

from __future__ import annotations

import re
import sysconfig
import tarfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

import engine
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DIRECTORY: Final = "tidemark"
"""Where an executor unpacks the archive, below its working directory."""
OURS: Final = ("engine", "signals", "adapters")
NEEDED: Final = (
    *(
        "confluent-kafka",
        "google-re2",
        "msgspec",
        "numpy",
        "orjson",
        "pandas",
        "prometheus-client",
        "psycopg",
        "psycopg-binary",
    ),
    *("pyarrow", "pyyaml", "regex", "rich", "sqlglot", "typer", "xxhash"),
)
"""What tasks import, by the names of the distributions."""
_OPTIONAL: Final = ("pymongo",)
_LEFT_OUT: Final = frozenset({"pyspark", "py4j"})
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_USELESS: Final = re.compile(r"(^|/)(tests|__pycache__)/|^pyarrow/(include|src)/|\.(a|pxd|pyx)$")
_QUICK: Final = 1


def write_archive(path: Path) -> int:
    """Write the archive; returns its size in bytes. Raises ConfigError if a distribution is not installed."""
    partial = path.with_name(f".{path.name}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(partial, "w:gz", compresslevel=_QUICK) as archive:
            for name, file in sorted(_files()):
                archive.add(file, name, recursive=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path.stat().st_size


def distributions() -> list[metadata.Distribution]:
    """What goes into the archive besides our packages, with all that it requires."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [*NEEDED, *_OPTIONAL]
    while waiting:
        name = _normal(waiting.pop())
        if name in found or name in _LEFT_OUT:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if name in map(_normal, NEEDED):
                raise ConfigError(
                    f"{name!r} is not installed here, and executors need it",
                    hint="install tidemark with its dependencies on the machine that packages it",
                ) from None
            continue
        waiting += _required(found[name])
    return [found[name] for name in sorted(found)]


def _required(distribution: metadata.Distribution) -> Iterator[str]:
    """The names that a distribution requires; those of its extras are left out."""
    for requirement in distribution.requires or ():
        name = _NAME.match(requirement)
        if name and not re.search(r"\bextra\s*==", requirement):
            yield name[0]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _files() -> Iterable[tuple[str, Path]]:
    """The files, by their names in the archive."""
    root = Path(engine.__file__).parent.parent
    for package in OURS:
        for file in (root / package).rglob("*"):
            name = str(file.relative_to(root))
            if file.is_file() and not _USELESS.search(name):
                yield name, file
    for distribution in distributions():
        for entry in distribution.files or ():
            file = Path(str(distribution.locate_file(entry)))
            if not str(entry).startswith("..") and file.is_file() and not _USELESS.search(str(entry)):
                yield str(entry), file


def default_name() -> str:
    """A name that tells the platform and the version of Python."""
    platform = sysconfig.get_platform().replace("-", "_")
    return f"tidemark-py{sysconfig.get_python_version()}-{platform}.tar.gz"
