"""The archive of the application: what goes into it, and that nothing that tasks need is forgotten."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from adapters.spark.cluster import archive
from engine.errors import ConfigError

ROOT = Path(__file__).resolve().parents[5]


def names(*, without: tuple[str, ...] = ()) -> set[str]:
    found = {re.sub(r"[-_.]+", "-", distribution.name).lower() for distribution in archive.distributions()}
    return found - set(without)


def test_every_dependency_is_packed_except_spark():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[\[><=]", line)[0] for line in project["dependencies"]}

    assert needed - {"pyspark"} <= names()
    assert not {"pyspark", "py4j", "pytest", "mypy"} & names()


def test_what_they_require_is_packed_too():
    assert {"python-dateutil", "dnspython"} <= names()


def test_a_distribution_that_is_missing_is_named(monkeypatch):
    def none(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", none)
    monkeypatch.setattr(archive, "NEEDED", ("xxhash",))
    with pytest.raises(ConfigError, match="'xxhash' is not installed here"):
        archive.distributions()


def test_our_packages_are_packed_without_caches():
    packed = {name for name, _file in archive._files()}

    assert {"engine/model.py", "signals/answers.py", "adapters/spark/cluster/archive.py"} <= packed
    assert not [name for name in packed if "__pycache__" in name]
