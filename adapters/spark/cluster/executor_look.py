"""What an executor looks at before it is given work. It runs where none of our packages may be.

Spark sends this module's code itself, so it imports the standard library alone.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import socket
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_ANSWER_S = 5.0
_STAY_S = 0.2
"""How long a task stays, so that its neighbours go to other executors."""


def look(
    _tasks: Iterable[int],
    packages: Sequence[str],
    versions: Mapping[str, str],
    code: str,
    addresses: Sequence[tuple[str, str, int]],
    directories: Sequence[tuple[str, str, str]],
) -> Iterator[tuple[str, str, list[str]]]:
    """The executor's mark and name, and what it lacks, one line each."""
    time.sleep(_STAY_S)
    host = socket.gethostname()
    lacks = [
        *_versions(versions),
        *_code(packages, code),
        *_unreached(addresses),
        *(
            f"does not see {name} {path!r}, which it must share with the driver"
            for name, path, mark in directories
            if not (Path(path) / mark).exists()
        ),
    ]
    # The parent is the daemon of the executor, whose processes all start in the executor's directory.
    yield f"{host} {Path.cwd()} {os.getppid()}", host, lacks


def _versions(versions: Mapping[str, str]) -> Iterator[str]:
    python = versions.get("python", "")
    mine = ".".join(map(str, sys.version_info[:2]))
    if python and mine != python:
        yield f"has Python {mine}, the driver has {python}"
    for name, wanted in versions.items():
        if name == "python":
            continue
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield f"lacks the package {name} {wanted}"
            continue
        if found != wanted:
            yield f"has {name} {found}, the driver has {wanted}"


def _code(packages: Sequence[str], code: str) -> Iterator[str]:
    try:
        found = digest(packages)
    except ImportError:
        yield "lacks tidemark"
        return
    if found != code:
        yield "has another version of tidemark than the driver"


def digest(packages: Sequence[str]) -> str:
    """What distinguishes these packages from those of another version. Raises ImportError."""
    told = hashlib.sha256()
    for package in packages:
        root = Path(str(importlib.import_module(package).__file__)).parent
        for path in sorted(root.rglob("*.py")):
            told.update(f"{package}/{path.relative_to(root)}\n".encode())
            told.update(path.read_bytes())
    return told.hexdigest()


def _unreached(addresses: Iterable[tuple[str, str, int]]) -> Iterator[str]:
    for name, host, port in addresses:
        if not reached(host, port):
            yield f"does not reach {name} at {host}:{port}, which the driver reaches"


def reached(host: str, port: int) -> bool:
    """Whether somebody answers there."""
    try:
        with socket.create_connection((host, port), _ANSWER_S):
            return True
    except OSError:
        return False
