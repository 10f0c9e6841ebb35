"""The dependency rule: engine ← signals ← adapters, and what pure modules may import."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("engine", "signals", "adapters")
PURE = {"numpy", "orjson", "pyarrow", "xxhash"}
SETTINGS = PURE | {"yaml"}
COMMAND = {"rich", "typer", "yaml"}
JOB = PURE | {"pyspark"}


def imported(source: str) -> set[str]:
    """The top-level names of every absolute import in `source`, those inside functions included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
    return {name.split(".")[0] for name in names}


def allowed(module: str) -> set[str] | None:  # noqa: PLR0911  (one a layer)
    """What a module may import beyond the standard library, by its path; None is anything."""
    match Path(module).parts:
        case ("engine", "cli.py"):
            return COMMAND | set(LAYERS)
        case ("engine", "job.py"):
            return JOB | {"engine"}
        case ("engine", "expressions.py") | ("engine", "patterns", "backtracking.py"):
            return PURE | {"engine", "re2", "regex"}
        case ("engine", name, *_) if name.startswith("config"):
            return SETTINGS | {"engine"}
        case ("engine", *_):
            return PURE | {"engine"}
        case ("signals", *_):
            return PURE | {"engine", "signals"}
        case ("adapters", *_):
            return None
    raise AssertionError(module)


def faults(module: str, source: str) -> set[str]:
    """Names that `module` imports and may not."""
    permitted = allowed(module)
    found = imported(source) - set(sys.stdlib_module_names)
    return found & {"tests"} if permitted is None else found - permitted


MODULES = sorted(str(path.relative_to(ROOT)) for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


@pytest.mark.parametrize("module", MODULES)
def test_module_imports_only_what_its_layer_may(module: str):
    assert faults(module, (ROOT / module).read_text()) == set()


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("engine/plan.py", "import signals.parse", {"signals"}),
        ("engine/plan.py", "def f():\n    from adapters.postgres import log", {"adapters"}),
        ("engine/events/types.py", "import pyspark.sql", {"pyspark"}),
        ("engine/model.py", "from pydantic import BaseModel", {"pydantic"}),
        ("engine/config.py", "import yaml, psycopg", {"psycopg"}),
        ("engine/job.py", "import pyspark\nimport adapters", {"adapters"}),
        ("engine/cli.py", "import adapters.postgres.job, typer, rich", set()),
        ("signals/topic.py", "import adapters, confluent_kafka", {"adapters", "confluent_kafka"}),
        ("signals/parse.py", "import json, engine.model, orjson", set()),
        ("adapters/postgres/job.py", "import tests.servers", {"tests"}),
        ("adapters/postgres/job.py", "import pyspark, psycopg, engine, signals", set()),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str, expected: set[str]):
    assert faults(module, source) == expected


def test_no_module_is_named_for_being_shared():
    shared = {"utils", "util", "common", "helpers", "base", "misc"}

    assert [module for module in MODULES if Path(module).stem in shared] == []
