"""`tidemark check` calls a setting applied where the source reads it, and only there."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adapters.mongodb.properties import CONNECTOR as MONGODB
from adapters.postgres.properties import CONNECTOR as POSTGRES
from adapters.sqlserver.properties import CONNECTOR as SQLSERVER
from engine.config.properties.row import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.row import Catalogue

ROOT = Path(__file__).parents[2]
SHARED = (
    *("engine/config/settings.py", "engine/events", "engine/isolation", "engine/job", "engine/snapshot"),
    *("engine/staging", "signals", "adapters/cli", "adapters/http", "adapters/kafka", "adapters/sinks"),
    *("adapters/source", "adapters/spark", "adapters/staging", "adapters/storage"),
)


def trees(place: str) -> Iterator[ast.AST]:
    path = ROOT / place
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        yield ast.parse(file.read_text())


def fields_of_properties(*places: str) -> dict[str, set[str]]:
    """The fields of settings that are made of each property, by the calls that make them."""
    found: dict[str, set[str]] = {}
    for tree in (tree for place in places for tree in trees(place)):
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            for keyword in call.keywords:
                for node in ast.walk(keyword.value) if keyword.arg else ():
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        found.setdefault(node.value, set()).add(keyword.arg or "")
    return found


def properties_of(source: str) -> list[str]:
    """The modules that make a source's settings."""
    folder = ROOT / "adapters" / source
    return sorted(str(path.relative_to(ROOT)) for path in folder.glob("*properties.py"))


def read_in(*places: str) -> set[str]:
    """The names of all attributes that modules ask for."""
    return {
        node.attr
        for place in places
        for tree in trees(place)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
    }


@pytest.fixture(scope="module")
def shared() -> set[str]:
    return read_in(*SHARED)


@pytest.mark.parametrize(
    ("source", "catalogue"),
    [("postgres", POSTGRES.catalogue), ("mongodb", MONGODB.catalogue), ("sqlserver", SQLSERVER.catalogue)],
    ids=["postgres", "mongodb", "sqlserver"],
)
def test_what_is_applied_is_read(source: str, catalogue: Catalogue, shared: set[str]):
    fields, read = (
        fields_of_properties("engine/config", *properties_of(source)),
        shared | read_in(f"adapters/{source}"),
    )
    applied = [row.name for row in catalogue.rows if row.kind is Kind.APPLIED and not row.is_pattern]

    known = [name for name in applied if name in fields]
    assert len(known) > 50
    assert [name for name in known if not fields[name] & read] == []


@pytest.mark.parametrize("catalogue", [MONGODB.catalogue, SQLSERVER.catalogue], ids=["mongodb", "sqlserver"])
def test_what_only_postgres_reads_has_no_effect_elsewhere(catalogue: Catalogue):
    for name in ("tidemark.window.local.rows", "tidemark.wal.warn.bytes", "tidemark.snapshot.accept.risk"):
        row = catalogue.find(name)
        assert row is not None
        assert row.kind is Kind.IGNORED
