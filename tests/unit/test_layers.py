"""The house rules: engine ← signals ← adapters, packages in order, and what pure packages may import."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
LAYERS = ("engine", "signals", "adapters")
SOURCES = ("postgres", "sqlserver", "mongodb")
PURE = {"msgspec", "numpy", "orjson", "pyarrow", "xxhash"}
BLOCKING = {
    *(
        "asyncio",
        "concurrent",
        "importlib",
        "io",
        "logging",
        "mmap",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
        "secrets",
        "select",
        "shutil",
    ),
    *("signal", "socket", "subprocess", "tempfile", "threading", "time", "uuid"),
}
"""Modules of the standard library that open files, wait, read a clock or make ids."""
PURE_PACKAGES = (
    "engine/snapshot/",
    "engine/verify/",
    "engine/events/",
    "engine/patterns/",
    "engine/isolation/",
)
DRIVERS = {
    "psycopg": (
        "adapters/postgres/server/",
        "adapters/postgres/log/reader.py",
        "adapters/postgres/log/stream/subscription.py",
        "adapters/postgres/snapshot/slot_snapshot.py",
        "adapters/jdbc/",
    ),
}
"""Who may use a driver: the questions, the replication protocol, and a sink. All others get typed answers."""
READS_TIME = {
    "adapters/system.py": "the one that others are given",
    # Each makes the clock that it gives to all others.
    "adapters/cli/": "a command",
    "adapters/embedding/threaded_job.py": "a job that Python code starts",
    "adapters/source/assembly/job.py": "a job",
    # What waits for others, whose time no clock of ours tells.
    "adapters/kafka/beside/senders.py": "how long a process of its own is idle, and its signs of life",
    "adapters/kafka/producers/delivery.py": "how long brokers are silent; tasks send, too",
    "adapters/postgres/server/answering.py": "how long a socket is silent, which only the system waits for",
    "adapters/spark/cluster/executor_look.py": "runs in tasks, where none of our packages may be",
    "adapters/spark/ending.py": "Spark's end, once the job's own pauses no longer last",
    "adapters/storage/lease.py": "a clock that goes on while the machine sleeps",
    "adapters/storage/directory.py": "the times of a lease's file; names that no other process takes",
    # What expires: in tasks as well, which are given no clock.
    "adapters/kafka/tokens.py": "how long a token serves",
    "adapters/mongodb/server/credentials.py": "how long a token serves",
    "engine/config/text/references.py": "how long what a command printed may be used",
    # Names of files and blocks that nobody else takes, and that no event shows.
    "adapters/lakehouse/files/data_file.py": "a file of a table",
    "adapters/lakehouse/files/deletion_vectors.py": "a file of a table",
    "adapters/lakehouse/files/delta.py": "when a file of a table was removed, as Delta notes it",
    "adapters/lakehouse/files/position_deletes.py": "a file of a table",
    "adapters/sinks/files.py": "the mark of a directory",
    "adapters/spark/task_reports.py": "the reports of a Spark job",
    "adapters/staging/executor_blocks.py": "the blocks of a job, in a process that runs several",
    "adapters/staging/turn_parts.py": "the attempt of a task",
    "adapters/storage/disk.py": "a directory that is being removed",
    "adapters/storage/owner.py": "the holder of a lease",
    "adapters/verify/tables/lake_version.py": "the attempt of a task",
}
"""Modules that read a clock, wait, make ids, or make a `Clock` by themselves, and what for.

All others are given a `Clock`, or what they need of it.
"""
MEASURES = {
    *("clock_gettime", "clock_gettime_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
    *("process_time", "sleep", "time", "time_ns"),
}
TIMED = {
    *(f"time.{name}" for name in MEASURES),
    *("uuid.uuid1", "uuid.uuid4", "datetime.now", "datetime.utcnow", "date.today"),
    *("adapters.system.system_clock", "system.system_clock"),
}
"""What of time and ids a module takes for itself, by the names that it uses."""
ORDER = {
    "engine": (
        *(
            "printable",
            "errors",
            "model",
            "clock",
            "saved",
            "patterns",
            "expressions",
            "events",
            "config",
            "verify",
            "snapshot",
            "isolation",
        ),
        *("staging", "ports", "job", "face"),
    ),
    "signals": (
        *("model", "answers", "waiting_answers", "snapshot_answers", "outcome", "window_rows", "parse"),
        *("channels", "request", "actions", "desk"),
    ),
    "adapters": (
        *("system", "disclosure", "release", "java_faults"),
        "storage",
        "staging",
        "spark",
        "sinks",
        "lake",
        "jdbc",
        "lakehouse",
        "kafka",
        "http",
        "verify",
        "source",
        *SOURCES,
        "embedding",
        "cli",
    ),
    **{
        f"adapters/{source}": (
            *("settings", "driver_options", "documents", "filters", "history_properties", "properties"),
            *("server", "conditions", "log", "events", "schema", "saved", "spellings", "checks"),
            *("snapshot", "foreign", "tools"),
            *("stream_state", "streamed_spans", "log_session", "databases", "log_opening"),
            *("source", "drivers", "job", "commands"),
        )
        for source in SOURCES
    },
}
"""A package may import those before it; what only type checkers see is free."""


parsed = functools.cache(ast.parse)


@functools.cache
def imports(source: str) -> tuple[tuple[str, bool], ...]:
    """The modules that a module imports, also inside of functions, and whether only types need them."""
    return tuple(_imports(parsed(source)))


def _imports(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    guarded = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node in guarded
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if _file(inner) else node.module, node in guarded


@functools.cache
def _file(module: str) -> Path | None:
    path = ROOT / module.replace(".", "/")
    found = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    return found[0] if found else None


def allowed(module: str) -> set[str] | None:
    """What a module may import beyond the standard library, by its path; None is anything."""
    match Path(module).parts:
        case ("engine", "expressions.py") | ("engine", "patterns", "backtracking.py"):
            return PURE | {"engine", "re2", "regex"}
        case ("engine", "config", *_):
            return PURE | {"engine", "yaml"}
        case ("engine", "face", *_):
            return PURE | {"engine", "tidemark", "pyspark"}
        case ("engine", *_):
            return PURE | {"engine"}
        case ("signals", *_):
            return PURE | {"engine", "signals"}
        case ("adapters", *_):
            return None
    raise AssertionError(module)


def foreign(module: str, source: str) -> set[str]:
    """Packages that `module` imports and may not."""
    permitted = allowed(module)
    found = {name.split(".")[0] for name, _types in imports(source)} - set(sys.stdlib_module_names)
    return found & {"tests"} if permitted is None else found - permitted


def blocking(module: str, source: str) -> set[str]:
    """What a pure package imports of the standard library, or calls, that blocks or reads a clock."""
    if not module.startswith(PURE_PACKAGES):
        return set()
    found = {name.split(".")[0] for name, types in imports(source) if not types} & BLOCKING
    calls = (node for node in ast.walk(parsed(source)) if isinstance(node, ast.Call))
    opens = any(isinstance(node.func, ast.Name) and node.func.id == "open" for node in calls)
    return found | ({"open"} if opens else set())


@functools.cache
def timed(source: str) -> set[str]:
    """What a module takes of clocks, pauses and random ids from the system."""
    tree = parsed(source)
    names = {
        f"{ast.unparse(node.value).split('.')[-1]}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute)
    }
    names |= {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return names & TIMED


def upward(module: str, source: str) -> set[str]:
    """Packages that `module` imports although they come after its own."""
    found = set()
    for house, packages in ORDER.items():
        own = _package(module.removesuffix(".py").replace("/", "."), house)
        if own not in packages:
            continue
        for name, types in imports(source):
            package = _package(name, house)
            if not types and package in packages and packages.index(package) > packages.index(own):
                found.add(package)
    return found


def _package(module: str, house: str) -> str:
    """The package of a house that a module stands in; empty if it stands elsewhere."""
    prefix = house.replace("/", ".") + "."
    return module.removeprefix(prefix).split(".")[0] if module.startswith(prefix) else ""


def unlisted(house: str) -> set[str]:
    """Modules and packages of a house whose place in the order nobody knows, and places of none."""
    found = {_package(module.removesuffix(".py").replace("/", "."), house) for module in MODULES}
    return (found - {"", "__init__"}) ^ set(ORDER[house])


def reactions_to_text(source: str) -> set[str]:
    """Searches in an error's texts, and questions whether something is a particular sink or watermark.

    An error's class and its fields decide what happens, and what sinks and watermarks do is their affair.
    Whether an error says the same as the last one may be asked: nothing but the log depends on that.
    """
    found = set()
    for node in ast.walk(parsed(source)):
        found |= {text for part in _searched(node) if _TEXT.fullmatch(text := ast.unparse(part))}
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            found |= {kind for kind in KINDS if kind in ast.unparse(node.args[1])}
    return found


def _searched(node: ast.AST) -> list[ast.expr]:
    """What an expression compares, or searches for a text."""
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
        if any(isinstance(operator, ast.In | ast.NotIn) for operator in node.ops):
            return parts
        return [part for part in parts if isinstance(part, ast.Attribute)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in {"search", "match", "fullmatch", "findall", "finditer"}:
            return node.args
        if node.func.attr in {"startswith", "endswith", "find", "index", "count"}:
            return [node.func.value]
    return []


def asks(source: str) -> bool:
    """Whether a module runs a statement over a connection."""
    calls = {ast.unparse(node.func) for node in ast.walk(parsed(source)) if isinstance(node, ast.Call)}
    return any(_ASKS.search(call) for call in calls)


_TEXT = re.compile(r"str\((error|exc)\)|(error|exc|fault)\.(where|message|str\(\))")
IN_WORDS = {
    "adapters/kafka/errors.py": {"error.str()"},
    "adapters/spark/exceptions.py": {"fault.message"},
    "adapters/storage/directory.py": {"fault.message"},
}
"""Where a library offers only words, and which text is searched for them.

Those of PostgreSQL and ODBC are in modules of their own, `known_messages`.
"""
_ASKS = re.compile(r"(connection|cursor)\.execute$|\.exec_driver_sql$")
ASKING = {
    "adapters/postgres/server/questions/": "the questions",
    "adapters/postgres/server/connection.py": "the user's statements, which make a session",
    "adapters/postgres/snapshot/local_reader.py": "the rows of a window",
    "adapters/sqlserver/server/execution.py": "the questions, which all use it",
}
"""The modules of a source that run statements, and what for. All others have the questions ask."""

DEEPEST = 9
"""The most modules in a chain of imports at run time."""
KINDS = {
    *("FilesSink", "KafkaSink", "JdbcSink", "ConsoleSink", "NullSink", "MemorySink"),
    *("SignalRows", "VisibilityWatermark", "AtBeginning"),
}

MOST_METHODS = 18
"""The most methods of a class; about 15 are aimed at."""
LARGE_CLASSES = {
    "InitialSnapshot": (21, "short questions of three sources about one decision, made at the start"),
    "Assembler": (20, "a state machine: a method for each kind of message, over one open transaction"),
}
"""Classes with more methods: how many they have, which may only fall, and why they are not cut further."""

MODULES = sorted(str(path.relative_to(ROOT)) for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_keeps_the_house_rules(module: str):
    source = (ROOT / module).read_text()

    assert (foreign(module, source), blocking(module, source), upward(module, source)) == (
        set(),
        set(),
        set(),
    )


@pytest.mark.parametrize("house", LAYERS)
def test_everything_in_a_house_has_its_place(house: str):
    assert unlisted(house) == set()


def test_everything_in_a_source_has_its_place():
    missing, places = set[str](), set[str]()
    for source in SOURCES:
        house = f"adapters/{source}"
        missing |= unlisted(house) - set(ORDER[house])
        places |= set(ORDER[house]) - unlisted(house)
    assert (missing, places) == (set(), set(ORDER["adapters/postgres"]))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_reacts_to_no_text(module: str):
    assert reactions_to_text((ROOT / module).read_text()) == IN_WORDS.get(module, set())


def test_a_source_asks_through_its_questions_alone():
    asking = {
        module
        for module in MODULES
        if module.startswith(tuple(f"adapters/{source}/" for source in SOURCES))
        and asks((ROOT / module).read_text())
    }

    assert {module for module in asking if not module.startswith(tuple(ASKING))} == set()
    assert all(any(module.startswith(place) for module in asking) for place in ASKING)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("[t for t in tables if str(t) == error.where]", {"error.where"}),
        ("if 'lock' in error.message: pass", {"error.message"}),
        ("isinstance(window.watermark, SignalRows)", {"SignalRows"}),
        ("isinstance(sink, (FilesSink, KafkaSink))", {"FilesSink", "KafkaSink"}),
        ("isinstance(error, SinkRefused)", set()),
        ("table.where == other.where", set()),
        ("any(sign in str(error) for sign in LOST)", {"str(error)"}),
        ("if EXPIRED not in error.str(): pass", {"error.str()"}),
        ("re.search('lock', str(exc))", {"str(exc)"}),
        ("str(error).startswith('lock')", {"str(error)"}),
        ("'full' in fault.message", {"fault.message"}),
        ("if told != str(error): log(error)", set()),
        ("'lock' in fault.name", set()),
    ],
)
def test_a_reaction_to_text_is_found(source: str, expected: set[str]):
    assert reactions_to_text(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("self._connection.execute(_SERVED, [pid])", True),
        ("cursor.execute(text)", True),
        ("rows = connection.exec_driver_sql(statement)", True),
        ("snapshot = execute(snapshot, command)", False),
        ("questions.run(statement, what)", False),
    ],
)
def test_a_statement_that_is_run_is_found(source: str, *, expected: bool):
    assert asks(source) is expected


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("engine/snapshot/plan.py", "import signals.parse.commands", {"signals"}),
        ("engine/snapshot/plan.py", "def f():\n    from adapters.postgres import log", {"adapters"}),
        ("engine/events/values/times.py", "import pyspark.sql", {"pyspark"}),
        ("engine/model.py", "from pydantic import BaseModel", {"pydantic"}),
        ("engine/config/text/files.py", "import yaml, psycopg", {"psycopg"}),
        ("engine/job/loop.py", "import pyspark\nimport adapters", {"adapters", "pyspark"}),
        ("signals/channels/topic.py", "import adapters, confluent_kafka", {"adapters", "confluent_kafka"}),
        ("signals/parse/commands.py", "import json, engine.model, orjson", set()),
        ("adapters/cli/app.py", "import adapters.postgres.job, typer, rich", set()),
        ("adapters/postgres/job.py", "import tests.servers", {"tests"}),
        ("adapters/postgres/job.py", "import pyspark, psycopg, engine, signals", set()),
    ],
)
def test_a_forbidden_package_is_found(module: str, source: str, expected: set[str]):
    assert foreign(module, source) == expected


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("engine/snapshot/plan.py", "from time import monotonic", {"time"}),
        ("engine/events/batch.py", "import threading, re", {"threading"}),
        ("engine/snapshot/pace/rate.py", "def f():\n    return open('x')", {"open"}),
        ("engine/staging/files.py", "import os", set()),
    ],
)
def test_what_blocks_is_found_in_a_pure_package(module: str, source: str, expected: set[str]):
    assert blocking(module, source) == expected


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_driver_is_used_by_the_questions_alone(driver: str):
    users = {
        module
        for module in MODULES
        for name, types in imports((ROOT / module).read_text())
        if not types and name.split(".")[0] == driver
    }

    assert {module for module in users if not module.startswith(DRIVERS[driver])} == set()
    assert all(any(module.startswith(place) for module in users) for place in DRIVERS[driver])


@pytest.mark.parametrize("module", [module for module in MODULES if not module.startswith(tuple(READS_TIME))])
def test_a_module_is_given_time_and_ids(module: str):
    assert timed((ROOT / module).read_text()) == set()


@pytest.mark.parametrize("place", READS_TIME)
def test_what_may_read_time_does(place: str):
    assert any(timed((ROOT / module).read_text()) for module in MODULES if module.startswith(place))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import time\ndef f():\n    return time.monotonic()", {"time.monotonic"}),
        ("import time\ndef f(clock=time.time): ...", {"time.time"}),
        ("from time import sleep", {"time.sleep"}),
        ("from uuid import uuid4", {"uuid.uuid4"}),
        ("import uuid\nx = uuid.uuid4().hex", {"uuid.uuid4"}),
        ("from datetime import datetime\nx = datetime.now()", {"datetime.now"}),
        ("import datetime\nx = datetime.datetime.now()", {"datetime.now"}),
        ("from adapters.system import start_thread, system_clock", {"adapters.system.system_clock"}),
        ("from adapters import system\nx = system.system_clock()", {"system.system_clock"}),
        ("def f(clock):\n    return clock.monotonic(), clock.time", set()),
    ],
)
def test_a_reading_of_time_is_found(source: str, expected: set[str]):
    assert timed(source) == expected


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("engine/snapshot/plan.py", "from engine.job.loop import Job", {"job"}),
        ("signals/parse/names.py", "from signals.desk import Desk", {"desk"}),
        ("engine/snapshot/plan.py", "if TYPE_CHECKING:\n    from engine.job.loop import Job", set()),
        ("adapters/postgres/log/reader.py", "from adapters.postgres.snapshot import watermark", {"snapshot"}),
        ("adapters/postgres/snapshot/window.py", "from adapters.postgres.log import reader", set()),
        ("adapters/sinks/files.py", "from adapters.cli.app import main", {"cli"}),
        ("adapters/postgres/source.py", "from adapters.mongodb.job import building", {"mongodb"}),
    ],
)
def test_an_import_of_a_later_package_is_found(module: str, source: str, expected: set[str]):
    assert upward(module, source) == expected


@pytest.mark.parametrize(("source", "driver"), [("sqlserver", "sqlalchemy"), ("mongodb", "pymongo")])
def test_a_server_is_asked_in_its_own_package_alone(source: str, driver: str):
    asking = {
        module
        for module in MODULES
        if module.startswith(f"adapters/{source}/")
        for name, _types in imports((ROOT / module).read_text())
        if name.split(".")[0] == driver
    }

    assert asking
    assert {module for module in asking if not module.startswith(f"adapters/{source}/server/")} == set()


@functools.cache
def needed() -> dict[str, set[str]]:
    """The modules of ours that each module imports when it runs."""
    known = {
        module.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): module for module in MODULES
    }
    return {
        name: {
            module for module, types in imports((ROOT / path).read_text()) if not types and module in known
        }
        - {name}
        for name, path in known.items()
    }


@pytest.mark.parametrize("source", SOURCES)
def test_properties_are_read_without_a_driver(source: str):
    """`tidemark check` runs where the database's driver is not installed."""
    needs, reached = needed(), set[str]()
    waiting = {f"adapters.{source}.properties"}
    while waiting:
        reached |= waiting
        waiting = {other for name in waiting for other in needs[name]} - reached

    files = [found for name in reached if (found := _file(name))]
    packages = {
        name.split(".")[0] for file in files for name, types in imports(file.read_text()) if not types
    }
    assert packages - set(sys.stdlib_module_names) <= PURE | {"adapters", "engine", "re2", "regex", "yaml"}


def test_modules_import_each_other_in_no_circle():
    needs = needed()
    while free := {name for name, wanted in needs.items() if not wanted}:
        needs = {name: wanted - free for name, wanted in needs.items() if name not in free}

    assert needs == {}


def longest_chain(needs: dict[str, set[str]]) -> tuple[str, ...]:
    """The longest chain of modules that import each other when they run. There is no circle."""
    chains: dict[str, tuple[str, ...]] = {}
    for name in graphlib.TopologicalSorter(needs).static_order():
        chains[name] = (name, *max((chains[other] for other in sorted(needs[name])), key=len, default=()))
    return max(chains.values(), key=len)


def test_imports_are_shallow():
    """A long chain ties a module to many others, and each of them to what only one of them needs."""
    assert len(longest_chain(needed())) <= DEEPEST, longest_chain(needed())


def test_a_long_chain_is_found():
    needs = {"job": {"source", "clock"}, "source": {"log"}, "log": {"clock"}, "clock": set[str]()}

    assert longest_chain(needs) == ("job", "source", "log", "clock")


def test_no_module_is_named_for_being_shared():
    shared = {"utils", "util", "common", "helpers", "base", "misc"}

    assert [module for module in MODULES if Path(module).stem in shared] == []


def methods(source: str) -> dict[str, int]:
    """How many methods each class has; properties count, too."""
    return {
        node.name: sum(isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) for child in node.body)
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.ClassDef)
    }


def test_classes_are_small():
    found = [pair for module in MODULES for pair in methods((ROOT / module).read_text()).items()]
    large = {name: count for name, count in found if count > MOST_METHODS}

    assert large == {name: count for name, (count, _why) in LARGE_CLASSES.items()}


def test_methods_are_counted():
    source = (
        "class A:\n    x = 1\n    def f(self): ...\n    @property\n    def g(self):\n        def h(): ..."
    )

    assert methods(source) == {"A": 2}
