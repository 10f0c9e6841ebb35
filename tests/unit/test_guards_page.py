"""GUARDS.md names functions: each exists where the page says it is."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"`([A-Za-z_][\w.]*)`")


def names_of_functions() -> list[str]:
    """The code in the second column of the page's table."""
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|", (ROOT / "GUARDS.md").read_text(), re.MULTILINE)
    return sorted(
        {name for row in rows for name in NAME.findall(row) if not name.endswith((".py", "Dockerfile"))}
    )


def defined(body: Iterable[ast.stmt]) -> Iterator[str]:
    """The names that statements of a module or a class define, a class's own attributes included."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield statement.name
        for node in ast.walk(statement):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id
                elif isinstance(target, ast.Attribute):
                    yield target.attr


def places() -> dict[str, set[str]]:
    """What modules, rooms and classes hold, by their last name; several of one name are taken together."""
    found: dict[str, set[str]] = defaultdict(set)
    for top in ("engine", "signals", "adapters"):
        for path in (ROOT / top).rglob("*.py"):
            body = ast.parse(path.read_text()).body
            found[path.stem] |= set(defined(body))
            found[path.parent.name] |= {path.stem}
            for statement in body:
                if isinstance(statement, ast.ClassDef):
                    found[statement.name] |= set(defined(statement.body))
    return found


def names_of_tests() -> list[str]:
    """The files of tests in the last column, written as `test_file` or `test_file: …part_of_a_name…`."""
    rows = re.findall(r"\|([^|\n]*)\|$", (ROOT / "GUARDS.md").read_text(), re.MULTILINE)
    return sorted({name for row in rows for name in re.findall(r"`(?:\w+/)*((?:test|check)_\w+)[`:]", row)})


def test_each_function_that_the_page_names_is_where_it_says():
    known = places()
    everything = set(known).union(*known.values())

    def is_there(name: str) -> bool:
        *above, last = name.split(".")
        return last in (known[above[-1]] if above else everything)

    assert [name for name in names_of_functions() if not is_there(name)] == []


def test_each_test_that_the_page_names_exists():
    files = {path.stem: path for path in (ROOT / "tests").rglob("*.py")}
    tests = {name for path in files.values() for name in re.findall(r"def (test_\w+)", path.read_text())}

    assert [name for name in names_of_tests() if name not in files.keys() | tests] == []
